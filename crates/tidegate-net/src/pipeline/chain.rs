//! The chain of handlers: calls each handler and carries out its actions.

use tidegate_core::internal::contain;
use tidegate_core::{Blocking, CaughtPanic};
use tidegate_promise::{Failure, Promise};

use super::context::HandlerContext;
use super::erased::{Checked, Erased, HandlerStorage};
use super::pipeline_state::{CurrentCall, HandlerEntry, PipelineState};
use super::stack::Action;
use crate::channel::{
    ChangeRequest, ChannelIo, ChannelPipeline, Flags, HandlerEvent, InEvent, OutOp, mask,
};
use crate::errors::NetError;
use crate::message::Msg;
use crate::sys::prefetch;

/// The handlers of a channel and their shared state. `E` is `Send` if the handlers can move to
/// another thread.
pub(crate) struct Pipeline<E: ?Sized + HandlerStorage = dyn Erased> {
    pub(super) handlers: Vec<Box<E>>,
    pub(crate) parts: PipelineState,
}

impl<E: ?Sized + HandlerStorage> Pipeline<E> {
    /// Creates a pipeline of handlers that were checked.
    pub(crate) fn new(mut parts: PipelineState, checked: Checked) -> Self {
        let mut handlers = Vec::with_capacity(checked.len());
        parts.metas = Vec::with_capacity(checked.len());
        for (name, handler) in checked {
            let shape = handler.shape();
            // The check has refused handlers that cannot be stored.
            let Some(handler) = E::store(handler) else {
                continue;
            };
            let meta = HandlerEntry::new(name, shape, parts.take_id());
            parts.metas.push(meta);
            handlers.push(handler);
        }
        parts.update_masks();
        Self { handlers, parts }
    }

    #[inline]
    fn step_read_last(&mut self, mut msg: Msg) {
        let mut at = 0;
        // Whether an earlier handler has to receive the end of the read first.
        let mut heard = false;
        while let Some(handled) = self.parts.mask_of(at) {
            let completes = handled & mask::READ_COMPLETE != 0;
            if handled & mask::READ == 0 {
                heard |= completes;
                at += 1;
                continue;
            }
            let last = completes && !heard;
            heard |= completes;
            self.parts.begin_call(at, CurrentCall::Event);
            let ctx = HandlerContext {
                parts: &mut self.parts,
                at: at as u32,
            };
            self.handlers[at].read(msg, last, ctx);
            match self.parts.made() {
                0 => return self.complete(),
                1 => match self.parts.stack.pop() {
                    // The handler passed one message on and did nothing else: continue with it.
                    Some(Action::Read { at: next, msg: on }) if !self.parts.io.state.ends() => {
                        (at, msg) = (next as usize, on);
                    }
                    Some(other) => {
                        self.parts.stack.push(other);
                        return self.complete();
                    }
                    None => return self.complete(),
                },
                _ => {
                    self.put_in_order();
                    return self.complete();
                }
            }
        }
        self.unread(msg);
        self.complete();
    }

    /// The rest of [`Pipeline::read_last`]: carries out the actions of the handlers, and delivers
    /// the end of the read.
    #[inline]
    fn complete(&mut self) {
        self.parts.doing = CurrentCall::Nothing;
        // Checked here, because the call shows in a message's cost and nearly always finds nothing.
        if !self.parts.stack.is_empty() {
            self.run_stack();
        }
        let flags = &mut self.parts.io.state.flags;
        if !flags.any(Flags::READ_COMPLETED) {
            flags.set(Flags::READ_COMPLETED);
            self.step_in(0, InEvent::ReadComplete);
            self.run_stack();
        }
    }

    /// Handles a panic of a handler within [`Pipeline::read_last`].
    #[cold]
    fn read_broke(&mut self, panic: CaughtPanic) {
        let completed = self.parts.io.state.flags.any(Flags::READ_COMPLETED);
        self.contain(panic);
        self.run();
        if !completed {
            self.fire(InEvent::ReadComplete);
        }
    }

    pub(super) fn tail(&self) -> u32 {
        u32::try_from(self.handlers.len()).expect("fewer handlers than that")
    }

    #[inline]
    pub(super) fn start(&mut self, action: Action) {
        self.parts.stack.begin_turn();
        self.parts.stack.push(action);
        self.run();
    }

    /// Carries out the actions on the stack until it is empty.
    pub(super) fn run(&mut self) {
        while let Err(panic) = contain(|| self.run_stack()) {
            self.contain(panic);
        }
        self.rest();
    }

    #[inline]
    fn run_stack(&mut self) {
        while let Some(action) = self.parts.stack.pop() {
            self.step(action);
        }
    }

    /// Resets the state of a turn, because no handler is running.
    #[inline]
    fn rest(&mut self) {
        self.parts.base = 0;
        self.parts.levels = 0;
        self.parts.doing = CurrentCall::Nothing;
        self.parts.forget_plan();
    }

    #[inline]
    fn step(&mut self, action: Action) {
        match action {
            Action::Read { at, msg } => self.step_read(at, msg),
            Action::In { at, event } => self.step_in(at, event),
            Action::Write { at, msg, promise } => self.step_write(at, msg, promise),
            Action::Out { at, op } => self.step_out(at, op),
            Action::FlushWith { at, promise } => self.step_flush(at, promise),
            Action::FlushMark { promise } => self.parts.io.flush_for(promise),
            Action::Return { at, event } => {
                if self.begin_level() {
                    self.step_in(at, event);
                }
            }
            Action::Level => self.parts.depth -= 1,
            Action::HandlerEvent { id, what } => self.step_own(id, what),
            Action::Drop { id } => self.drop_handler(id),
            Action::PipelineChange(what) => {
                if self.begin_level() {
                    self.apply(*what);
                }
            }
        }
    }

    #[inline]
    fn step_read(&mut self, at: u32, msg: Msg) {
        if self.parts.io.state.ends() {
            // A handler has ended the channel because of a message before this one.
            return drop(msg);
        }
        match self.next_in(at, mask::READ) {
            Some(at) => self.call(at, CurrentCall::Event, |handler, ctx| {
                handler.read(msg, false, ctx);
            }),
            None => self.unread(msg),
        }
    }

    /// Counts or records a message that no handler took.
    #[inline(never)]
    fn unread(&mut self, msg: Msg) {
        self.parts.doing = CurrentCall::Nothing;
        match self.parts.io.is_recorded() {
            true => self.parts.io.record_read(msg),
            false => self.parts.io.unread += 1,
        }
    }

    fn step_in(&mut self, at: u32, event: InEvent) {
        let Some(at) = self.next_in(at, event.bit()) else {
            if let InEvent::Error(why) = event {
                self.unhandled(why);
            }
            return;
        };
        let doing = match event {
            InEvent::Error(_) => CurrentCall::Error,
            _ => CurrentCall::Event,
        };
        self.call(at, doing, |handler, ctx| handler.inbound(event, ctx));
    }

    pub(super) fn step_own(&mut self, id: u32, what: HandlerEvent) {
        if let Some(at) = self.find(id)
            && self.parts.metas[at].may_hear(what)
        {
            self.call(at, CurrentCall::own(what), |handler, ctx| {
                handler.own(what, ctx)
            });
        }
    }

    fn step_write(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        self.parts.io.arrived(&msg);
        self.deliver_write(at, msg, promise);
    }

    #[inline]
    fn deliver_write(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        let Some(at) = self.next_out(at, mask::WRITE) else {
            return self.parts.write_head(msg, promise);
        };
        self.call(at, CurrentCall::Write, |handler, ctx| {
            handler.write(msg, promise, ctx);
        });
    }

    fn step_out(&mut self, at: u32, op: OutOp) {
        let next = self.next_out(at, op.bit());
        if op == OutOp::CloseWhenFlushed && next.is_some() {
            self.parts.io.set_deadline();
        }
        match next {
            Some(at) => self.call(at, CurrentCall::Out, |handler, ctx| {
                handler.outbound(op, ctx)
            }),
            None => self.parts.io.request_op(op),
        }
    }

    /// Flushes, and completes `promise` when everything written so far is sent. A flush that was
    /// cancelled does nothing.
    fn step_flush(&mut self, at: u32, promise: Promise<()>) {
        if promise.is_cancelled() {
            return;
        }
        // Runs after everything that follows from the flush.
        self.parts.stack.push(Action::FlushMark { promise });
        self.step_out(at, OutOp::Flush);
    }

    /// Calls handler `at` and puts its actions into the order in which they are carried out.
    #[inline]
    fn call(
        &mut self,
        at: usize,
        doing: CurrentCall,
        call: impl FnOnce(&mut E, HandlerContext<'_>),
    ) {
        self.parts.begin_call(at, doing);
        let ctx = HandlerContext {
            parts: &mut self.parts,
            at: at as u32,
        };
        call(&mut *self.handlers[at], ctx);
        // A single action without a promise is in order. That is nearly always the case.
        if self.parts.made() > 1 || self.parts.promise.is_some() {
            self.put_in_order();
        }
        self.parts.doing = CurrentCall::Nothing;
    }

    /// Reverses the actions of a handler: they are on the stack in the order of the calls, and the
    /// first has to be on top. Its output becomes one of them.
    #[inline(never)]
    fn put_in_order(&mut self) {
        self.parts.close_output();
        self.parts.doing = CurrentCall::Nothing;
        let base = self.parts.base as usize;
        if self.parts.promise.is_some() {
            self.give_promise(base);
        }
        self.parts.stack.entries()[base..].reverse();
    }

    /// Attaches the promise of a write to the last message that the handler made of it. If there
    /// are several messages, the write cannot be cancelled any more, since it is sent as a whole.
    fn give_promise(&mut self, base: usize) {
        let Some(own) = self.parts.promise.take() else {
            return;
        };
        let made = self.parts.stack.entries()[base..].iter_mut().rev();
        let mut free = made.filter_map(|action| match action {
            Action::Write { promise, .. } if promise.is_none() => Some(promise),
            _ => None,
        });
        let last = free.next();
        if free.next().is_some() {
            own.set_uncancellable();
        }
        if let Some(last) = last {
            *last = Some(own);
        }
    }

    #[inline]
    fn next_in(&self, at: u32, event: u16) -> Option<usize> {
        let from = at as usize;
        let rest = self.parts.metas.get(from..)?;
        let next = rest.iter().position(|meta| meta.mask & event != 0)?;
        Some(from + next)
    }

    #[inline]
    fn next_out(&self, at: u32, event: u16) -> Option<usize> {
        if at == 1 {
            return (self.parts.mask_of(0)? & event != 0).then_some(0);
        }
        let end = (at as usize).min(self.parts.metas.len());
        let before = &self.parts.metas[..end];
        before.iter().rposition(|meta| meta.mask & event != 0)
    }

    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.parts.metas.iter().position(|meta| meta.id == id)
    }

    /// Handles a panic of a handler. Its earlier actions are carried out, and an error event
    /// follows.
    #[cold]
    pub(super) fn contain(&mut self, panic: CaughtPanic) {
        self.parts.drop_output();
        if self.parts.doing == CurrentCall::Nothing {
            // Not in a handler: in the drop of a message that no handler took, or in a promise.
            let code = "the drop of a message or the listener of a promise";
            return self.report(&Failure::from_panic_of(code, panic));
        }
        let at = self.parts.running;
        let code = match self.parts.name(at) {
            // A handler loses its name when its removal begins.
            "" => "a handler that is being removed".to_owned(),
            name => format!("handler `{name}`"),
        };
        let base = std::mem::take(&mut self.parts.base) as usize;
        let base = base.min(self.parts.stack.len());
        let earlier: Vec<_> = self.parts.stack.entries().drain(base..).rev().collect();
        let id = self.parts.metas.get(at as usize).map(|meta| meta.id);
        let why = Failure::from_panic_of(code, panic);
        match self.parts.doing {
            CurrentCall::Nothing => {}
            CurrentCall::Error => {
                // The handler does not receive its own error: the next one does.
                let (at, event) = (at + 1, InEvent::Error(why));
                self.parts.stack.push(Action::In { at, event });
            }
            CurrentCall::Write => match self.parts.promise.take() {
                Some(promise) => drop(promise.fail(why)),
                // The stream has a gap, as after a refused write.
                None if self.parts.report_refused_write(at, why.clone()) => {}
                None => self.report(&why),
            },
            CurrentCall::Event | CurrentCall::Out | CurrentCall::Timer => {
                let event = InEvent::Error(why);
                self.parts.stack.push(Action::Return { at, event });
            }
            CurrentCall::Removed => {
                let (at, event) = (at + 1, InEvent::Error(why));
                self.parts.stack.push(Action::Return { at, event });
                if let Some(id) = id {
                    self.parts.stack.push(Action::Drop { id });
                }
            }
            CurrentCall::Added => {
                let event = InEvent::Error(why);
                self.parts.stack.push(Action::Return { at, event });
                if let Some(id) = id {
                    self.remove(id);
                }
            }
        }
        self.parts.doing = CurrentCall::Nothing;
        self.parts.stack.entries().extend(earlier);
    }

    /// Reports an error that no handler took, and closes the channel unless it can go on.
    #[cold]
    pub(super) fn unhandled(&mut self, why: Failure) {
        if let Some(mut record) = self.parts.io.recorded() {
            record.errors.push(why.clone());
        } else if !self.parts.io.shared.is_departure(&why) {
            self.report(&why);
        }
        let fatal = why.downcast_ref().is_none_or(NetError::is_fatal);
        if !fatal {
            return;
        }
        let again = self.parts.io.close_cause.is_some();
        self.parts.io.close_cause.get_or_insert(why);
        if again || self.parts.io.state.flags.any(Flags::CUT) {
            return self.parts.io.request_close();
        }
        // The handlers get the close first, so that TLS sends its `close_notify`. The second one
        // starts at the socket: a handler that holds the close back does not keep it open.
        let (at, op) = (self.tail(), OutOp::Close);
        self.parts.stack.push(Action::Out { at: 0, op });
        self.parts.stack.push(Action::Out { at, op });
    }
}

impl<E: ?Sized + HandlerStorage> ChannelPipeline for Pipeline<E> {
    #[inline(always)]
    fn io(&self) -> &ChannelIo {
        &self.parts.io
    }

    #[inline(always)]
    fn io_mut(&mut self) -> &mut ChannelIo {
        &mut self.parts.io
    }

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.parts.stack.is_empty()
    }

    fn passes_writes(&self) -> bool {
        self.is_idle() && !self.parts.handles(mask::WRITE | mask::FLUSH)
    }

    fn is_empty(&self) -> bool {
        self.is_idle() && self.parts.metas.is_empty()
    }

    #[inline]
    fn blocking(&self) -> Blocking {
        self.parts.blocking
    }

    fn names(&self) -> Vec<String> {
        let chain = self.parts.chain();
        chain.iter().map(|(name, _)| name.to_string()).collect()
    }

    #[inline(always)]
    fn end_turn(&mut self) {
        self.parts.stack.end_turn(self.handlers.len() > 1);
    }

    #[inline]
    fn prefetch_parts(&self) {
        if self.handlers.len() > 1 {
            prefetch(self.parts.metas.as_slice());
        }
        prefetch(self.handlers.as_slice());
    }

    #[inline]
    fn prefetch_handlers(&self) {
        for handler in &self.handlers {
            prefetch(&**handler);
        }
    }

    #[inline]
    fn read(&mut self, msg: Msg) {
        self.start(Action::Read { at: 0, msg });
    }

    #[inline]
    fn read_last(&mut self, msg: Msg) {
        self.parts.io.state.flags.clear(Flags::READ_COMPLETED);
        self.parts.stack.begin_plain_turn();
        match contain(|| self.step_read_last(msg)) {
            Ok(()) => self.rest(),
            Err(panic) => self.read_broke(panic),
        }
    }

    fn fire(&mut self, event: InEvent) {
        self.start(Action::In { at: 0, event });
    }

    fn write(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        let at = self.tail();
        if promise.is_none() && self.is_idle() && self.parts.io.stays_writable_with(&msg) {
            // The first handler gets it at once: to count it in between would change nothing.
            self.parts.stack.begin_plain_turn();
            let written = contain(|| {
                self.deliver_write(at, msg, None);
                self.run_stack();
            });
            return match written {
                Ok(()) => self.rest(),
                Err(panic) => {
                    self.contain(panic);
                    self.run();
                }
            };
        }
        self.parts.stack.begin_turn();
        self.parts.pass_on(at, msg, promise);
        self.run();
    }

    fn out(&mut self, op: OutOp) {
        let at = self.tail();
        self.start(Action::Out { at, op });
    }

    fn flush(&mut self, promise: Option<Promise<()>>) {
        let at = self.tail();
        match promise {
            Some(promise) => self.start(Action::FlushWith { at, promise }),
            None => self.out(OutOp::Flush),
        }
    }

    fn set_auto_read(&mut self, yes: bool) {
        self.parts.io.state.set_auto_read(yes);
        if yes && self.parts.is_watched(self.tail(), mask::DEMAND) {
            self.out(OutOp::Read);
        }
    }

    fn own(&mut self, id: u32, what: HandlerEvent) {
        self.start(Action::HandlerEvent { id, what });
    }

    fn run_rest(&mut self) {
        if !self.parts.stack.is_empty() {
            self.run();
        }
    }

    fn begin(&mut self) {
        self.add_all();
    }

    fn end(&mut self) {
        self.take_all_out();
    }

    fn change(&mut self, request: Box<dyn ChangeRequest>) {
        self.carry_out_change(request);
    }

    fn report(&self, why: &Failure) {
        self.parts.io.shared.report(why);
    }
}
