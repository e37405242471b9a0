//! The state that the handlers of one chain share: the list of handlers, and the actions in flight
//! between them.

use std::sync::Arc;

use tidegate_core::Blocking;
use tidegate_core::internal::SignalBlock;
use tidegate_promise::Promise;

use super::check::{Head, Name};
use super::shape::Shape;
use super::stack::{Action, ActionStack};
use crate::channel::{ChannelIo, HandlerEvent, InEvent, OutOp, Shared, mask};
use crate::message::Msg;

/// The value of `base` while an output is open: far from the length of any stack.
pub(super) const OPEN: u32 = 1 << 31;

/// The entry of one handler in its chain.
#[derive(Debug)]
pub(crate) struct HandlerEntry {
    pub(crate) name: Name,
    pub(crate) shape: &'static Shape,
    pub(crate) id: u32,
    /// The events that it handles. A bit is cleared when the handler turns out not to implement the
    /// method.
    pub(crate) mask: u16,
    pub(crate) life: Life,
}

/// The lifecycle of a handler in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its `added` method was not called yet.
    New,
    Added,
    /// Its `removed` method was called.
    Removed,
}

impl HandlerEntry {
    pub(super) fn new(name: Name, shape: &'static Shape, id: u32) -> Self {
        Self {
            name,
            shape,
            id,
            mask: shape.mask(),
            life: Life::New,
        }
    }

    /// Records that the handler is about to receive `what`. Returns `false` if it must not receive
    /// it.
    pub(super) fn may_hear(&mut self, what: HandlerEvent) -> bool {
        let (from, to) = match what {
            HandlerEvent::Added => (Life::New, Life::Added),
            HandlerEvent::Removed => (Life::Added, Life::Removed),
            HandlerEvent::Timer(_) | HandlerEvent::Deadline(_) => (Life::Added, Life::Added),
        };
        let may = self.life == from;
        if may {
            self.life = to;
        }
        may
    }
}

/// The kind of method that is being called, for the case that it panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurrentCall {
    Nothing,
    Event,
    Error,
    Write,
    /// An outbound operation other than a write.
    Out,
    Added,
    Removed,
    /// A timer or a deadline.
    Timer,
}

impl CurrentCall {
    pub(super) fn own(what: HandlerEvent) -> Self {
        match what {
            HandlerEvent::Added => Self::Added,
            HandlerEvent::Removed => Self::Removed,
            HandlerEvent::Timer(_) | HandlerEvent::Deadline(_) => Self::Timer,
        }
    }
}

/// The state that the handlers of one chain share.
pub(crate) struct PipelineState {
    pub(crate) metas: Vec<HandlerEntry>,
    /// The events that at least one handler handles.
    event_mask: u16,
    /// Whether the handlers together may block their thread.
    pub(super) blocking: Blocking,
    pub(super) stack: ActionStack,
    /// The position on the stack at which the actions of the running handler begin; `OPEN` while
    /// that handler has an open output.
    pub(super) base: u32,
    pub(super) running: u32,
    /// The number of levels that have begun and not ended, and the number of levels that have begun
    /// since the chain was idle.
    pub(super) depth: u16,
    pub(super) levels: u32,
    pub(super) doing: CurrentCall,
    next_id: u32,
    /// The chain as it will be after the changes on the stack.
    #[expect(
        clippy::box_collection,
        reason = "present only while a change is on the stack"
    )]
    pub(super) planned: Option<Box<Vec<(Name, &'static Shape)>>>,
    /// The promise of the write that an outbound handler is handling.
    pub(super) promise: Option<Promise<()>>,
    pub(crate) io: ChannelIo,
}

impl PipelineState {
    pub(crate) fn new(shared: Arc<SignalBlock<Shared>>) -> Self {
        Self {
            metas: Vec::new(),
            event_mask: 0,
            blocking: Blocking::Never,
            stack: ActionStack::new(),
            base: 0,
            running: 0,
            depth: 0,
            levels: 0,
            doing: CurrentCall::Nothing,
            next_id: 0,
            planned: None,
            promise: None,
            io: ChannelIo::new(shared),
        }
    }

    pub(crate) fn head(&self) -> Head {
        if self.io.is_recorded() {
            Head::Anything
        } else if self.io.outbox.is_some() {
            Head::DATAGRAMS
        } else {
            Head::BYTES
        }
    }

    pub(super) fn take_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn name(&self, at: u32) -> &str {
        self.metas.get(at as usize).map_or("", |meta| &meta.name)
    }

    pub(super) fn id(&self, at: u32) -> u32 {
        self.metas.get(at as usize).map_or(0, |meta| meta.id)
    }

    #[inline]
    pub(super) fn push(&mut self, action: Action) {
        self.stack.push(action);
    }

    /// Prepares a call of handler `at`.
    #[inline(always)]
    pub(super) fn begin_call(&mut self, at: usize, doing: CurrentCall) {
        self.base = self.stack.len() as u32;
        self.running = at as u32;
        self.doing = doing;
    }

    /// Returns the action for an event that a handler fires. Events travel from first to last and
    /// operations from last to first, so only an event that an operation causes can loop.
    #[inline]
    pub(super) fn fired(&self, at: u32, event: InEvent) -> Action {
        match self.doing {
            CurrentCall::Write | CurrentCall::Out => Action::Return { at, event },
            _ => Action::In { at, event },
        }
    }

    /// Returns `true` if the running handler has no actions on the stack and no open output.
    #[inline(always)]
    pub(super) fn has_no_pending_actions(&self) -> bool {
        self.stack.len() == self.base as usize
    }

    /// Returns the number of actions that the running handler has put on the stack; a very large
    /// number while it has an open output.
    #[inline(always)]
    pub(super) fn made(&self) -> usize {
        self.stack.len().wrapping_sub(self.base as usize)
    }

    pub(super) fn skip_event(&mut self, at: u32, event: u16) {
        if let Some(meta) = self.metas.get_mut(at as usize) {
            meta.mask &= !event;
            self.update_masks();
        }
    }

    /// Updates the masks of the chain after its handlers, or the events that they handle, have
    /// changed.
    pub(super) fn update_masks(&mut self) {
        let masks = self.metas.iter().map(|meta| meta.mask);
        self.event_mask = masks.fold(0, |all, mask| all | mask);
        let kinds = self.metas.iter().map(|meta| meta.shape.blocking);
        self.blocking = kinds.max().unwrap_or(Blocking::Never);
    }

    /// Returns `true` if a handler handles one of `events`.
    pub(super) fn handles(&self, events: u16) -> bool {
        self.event_mask & events != 0
    }

    /// Returns `true` if a handler between the socket and `at` handles `event`.
    #[inline]
    pub(super) fn is_watched(&self, at: u32, event: u16) -> bool {
        at > 0 && self.event_mask & event != 0 && self.is_watched_by_one(at, event)
    }

    /// Returns the events that handler `at` handles. For a single handler these are the events of the
    /// chain, so the list of handlers, which is elsewhere in memory, is not touched.
    #[inline]
    pub(super) fn mask_of(&self, at: usize) -> Option<u16> {
        match self.metas.len() == 1 && at == 0 {
            true => Some(self.event_mask),
            false => self.metas.get(at).map(|meta| meta.mask),
        }
    }

    #[inline(never)]
    fn is_watched_by_one(&self, at: u32, event: u16) -> bool {
        self.metas[..at as usize]
            .iter()
            .any(|meta| meta.mask & event != 0)
    }

    /// Writes a message of handler `at`, directly into the queue if no handler is in between.
    pub(super) fn write(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        if self.has_no_pending_actions() && !self.is_watched(at, mask::WRITE) {
            self.write_head(msg, promise);
        } else if self.base == OPEN {
            self.close_output();
            self.write(at, msg, promise);
        } else {
            self.pass_on(at, msg, promise);
        }
    }

    pub(super) fn pass_on(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        self.io.leave_with(&msg);
        self.stack.begin_turn();
        self.stack.push(Action::Write { at, msg, promise });
        self.io.look_at_marks();
    }

    pub(super) fn out(&mut self, at: u32, op: OutOp) {
        if self.has_no_pending_actions() && !self.is_watched(at, op.bit()) {
            self.io.request_op(op);
        } else if self.base == OPEN {
            self.close_output();
            self.out(at, op);
        } else {
            self.stack.push(Action::Out { at, op });
        }
    }

    /// Flushes on behalf of handler `at`.
    pub(super) fn flush(&mut self, at: u32) {
        if self.has_no_pending_actions() && !self.is_watched(at, mask::FLUSH) {
            self.io.request_flush();
        } else {
            self.out(at, OutOp::Flush);
        }
    }

    /// Flushes on behalf of handler `at`. `promise` completes when everything written so far is
    /// sent.
    pub(super) fn flush_with(&mut self, at: u32, promise: Promise<()>) {
        if self.has_no_pending_actions() && !self.is_watched(at, mask::FLUSH) {
            self.io.request_flush();
            self.io.flush_for(promise);
        } else if self.base == OPEN {
            self.close_output();
            self.flush_with(at, promise);
        } else {
            self.stack.push(Action::FlushWith { at, promise });
        }
    }

    pub(super) fn forget_plan(&mut self) {
        if self.planned.is_some() {
            self.planned = None;
        }
    }
}
