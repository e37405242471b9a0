//! What the handlers of one chain share: who they are, and what is on its way between them.

use std::sync::Arc;

use tidegate_core::Blocking;
use tidegate_core::internal::SignalBlock;
use tidegate_promise::Promise;

use super::check::{Head, Name};
use super::shape::Shape;
use super::stack::{Action, ActionStack};
use crate::channel::{ChannelIo, HandlerEvent, InEvent, OutOp, Shared, mask};
use crate::message::Msg;

/// What a chain knows of one of its handlers.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) name: Name,
    pub(crate) shape: &'static Shape,
    pub(crate) id: u32,
    /// What it cares about, as far as is known.
    pub(crate) mask: u16,
    pub(crate) life: Life,
}

/// How far a handler's life in a chain has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It was not told that it was added.
    New,
    Added,
    /// It was told that it was removed.
    Removed,
}

impl Meta {
    pub(super) fn new(name: Name, shape: &'static Shape, id: u32) -> Self {
        Self {
            name,
            shape,
            id,
            mask: shape.mask(),
            life: Life::New,
        }
    }

    /// Notes that the handler is about to hear `what`; false if it must not.
    pub(super) fn may_hear(&mut self, what: HandlerEvent) -> bool {
        let (from, to) = match what {
            HandlerEvent::Added => (Life::New, Life::Added),
            HandlerEvent::Removed => (Life::Added, Life::Removed),
            HandlerEvent::Timer(_) => (Life::Added, Life::Added),
        };
        let may = self.life == from;
        if may {
            self.life = to;
        }
        may
    }
}

/// What a handler was doing when it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Nothing,
    Event,
    Error,
    Write,
    /// Another operation on its way out.
    Out,
    Added,
    Removed,
    Timer,
}

impl Doing {
    pub(super) fn own(what: HandlerEvent) -> Self {
        match what {
            HandlerEvent::Added => Self::Added,
            HandlerEvent::Removed => Self::Removed,
            HandlerEvent::Timer(_) => Self::Timer,
        }
    }
}

/// What the handlers of one chain share.
pub(crate) struct Parts {
    pub(crate) metas: Vec<Meta>,
    /// What any handler cares about.
    cares: u16,
    /// What the handlers together may do to their thread.
    pub(super) blocking: Blocking,
    pub(super) stack: ActionStack,
    /// Where on the stack the running handler's own actions begin.
    pub(super) base: u32,
    pub(super) running: u32,
    /// Levels that have begun and not ended, and how many have begun since nothing ran.
    pub(super) depth: u16,
    pub(super) levels: u32,
    pub(super) doing: Doing,
    next_id: u32,
    /// The chain as it will be after the changes on the stack.
    #[expect(clippy::box_collection, reason = "hardly ever there, and then shortly")]
    pub(super) planned: Option<Box<Vec<(Name, &'static Shape)>>>,
    /// The promise of the write that an outbound handler is busy with.
    pub(super) promise: Option<Promise<()>>,
    pub(crate) io: ChannelIo,
}

impl Parts {
    pub(crate) fn new(shared: Arc<SignalBlock<Shared>>) -> Self {
        Self {
            metas: Vec::new(),
            cares: 0,
            blocking: Blocking::Never,
            stack: ActionStack::new(),
            base: 0,
            running: 0,
            depth: 0,
            levels: 0,
            doing: Doing::Nothing,
            next_id: 0,
            planned: None,
            promise: None,
            io: ChannelIo::new(shared),
        }
    }

    pub(crate) fn head(&self) -> Head {
        if self.io.record.is_some() {
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

    /// Handler `at` is about to be called; answers where what it will say begins.
    #[inline(always)]
    pub(super) fn begin_call(&mut self, at: usize, doing: Doing) -> usize {
        let base = self.stack.len();
        self.base = base as u32;
        self.running = at as u32;
        self.doing = doing;
        base
    }

    /// The event to be carried out when a handler passes one on. Inbound events go from first to last
    /// and operations from last to first, so only an event that an operation causes can make a circle.
    #[inline]
    pub(super) fn fired(&self, at: u32, event: InEvent) -> Action {
        match self.doing {
            Doing::Write | Doing::Out => Action::Return { at, event },
            _ => Action::In { at, event },
        }
    }

    /// Whether the running handler has said nothing yet that is still to be carried out.
    #[inline(always)]
    pub(super) fn is_first_word(&self) -> bool {
        self.stack.len() == self.base as usize
    }

    pub(super) fn never(&mut self, at: u32, event: u16) {
        if let Some(meta) = self.metas.get_mut(at as usize) {
            meta.mask &= !event;
            self.sum_up();
        }
    }

    /// The handlers have changed, or what they care about has.
    pub(super) fn sum_up(&mut self) {
        let masks = self.metas.iter().map(|meta| meta.mask);
        self.cares = masks.fold(0, |all, mask| all | mask);
        let kinds = self.metas.iter().map(|meta| meta.shape.blocking);
        self.blocking = kinds.max().unwrap_or(Blocking::Never);
    }

    /// Whether a handler nearer to the socket than `at` cares about `event`.
    #[inline]
    pub(super) fn is_watched(&self, at: u32, event: u16) -> bool {
        self.cares & event != 0 && self.is_watched_by_one(at, event)
    }

    #[inline(never)]
    fn is_watched_by_one(&self, at: u32, event: u16) -> bool {
        self.metas[..at as usize]
            .iter()
            .any(|meta| meta.mask & event != 0)
    }

    /// A write by handler `at`: straight into the queue where nobody stands between.
    pub(super) fn write(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        if self.is_first_word() && !self.is_watched(at, mask::WRITE) {
            self.write_head(msg, promise);
        } else {
            self.hand_on(at, msg, promise);
        }
    }

    pub(super) fn hand_on(&mut self, at: u32, msg: Msg, promise: Option<Promise<()>>) {
        self.io.leave_with(&msg);
        self.stack.push(Action::Write { at, msg, promise });
        self.io.look_at_marks();
    }

    pub(super) fn out(&mut self, at: u32, op: OutOp) {
        if self.is_first_word() && !self.is_watched(at, op.bit()) {
            self.io.out_head(op);
        } else {
            self.stack.push(Action::Out { at, op });
        }
    }

    /// A flush by handler `at`.
    pub(super) fn flush(&mut self, at: u32) {
        if self.is_first_word() && !self.is_watched(at, mask::FLUSH) {
            self.io.flush_head();
        } else {
            let op = OutOp::Flush;
            self.stack.push(Action::Out { at, op });
        }
    }

    /// A flush by handler `at` whose promise completes when everything written so far is sent.
    pub(super) fn flush_with(&mut self, at: u32, promise: Promise<()>) {
        if self.is_first_word() && !self.is_watched(at, mask::FLUSH) {
            self.io.flush_head();
            self.io.flush_for(promise);
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
