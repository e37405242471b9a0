//! The events and operations in flight in one chain of handlers.
//!
//! A message that each handler passes on is alone on the stack. So the top of the stack lies in the
//! chain itself, and the memory for the rest is taken from its thread only when a second entry
//! arrives: an idle channel holds no memory for it, and a message that is passed on does not touch
//! the thread-local (about 25 instructions per message when every read did).

use std::cell::Cell;

use tidegate_promise::Promise;

use super::erased::Lodged;
use super::plan::What;
use crate::channel::{HandlerEvent, InEvent, OutOp};
use crate::message::Msg;

thread_local! {
    /// The memory for the rest of a stack, while no chain on this thread uses it.
    static SPARE: Cell<Vec<Action>> = const { Cell::new(Vec::new()) };
}

/// An event or operation in flight. `at` is the first handler that an inbound event may reach, and
/// the index after the first handler that an outbound operation may reach.
#[derive(Debug)]
pub(crate) enum Action {
    Read {
        at: u32,
        msg: Msg,
    },
    In {
        at: u32,
        event: InEvent,
    },
    Write {
        at: u32,
        msg: Msg,
        promise: Option<Promise<()>>,
    },
    Out {
        at: u32,
        op: OutOp,
    },
    /// An inbound event caused by an outbound operation. It begins a new level.
    Return {
        at: u32,
        event: InEvent,
    },
    /// The end of a level: everything that followed from its first event is done.
    Level,
    HandlerEvent {
        id: u32,
        what: HandlerEvent,
    },
    /// Drops a handler that was told of its removal.
    Drop {
        id: u32,
    },
    PipelineChange(Box<What<Lodged>>),
}

/// The stack of one chain.
pub(crate) struct ActionStack {
    /// The topmost entry, unless it lies in `rest`.
    top: Option<Action>,
    /// The entries below `top`.
    rest: Vec<Action>,
}

impl ActionStack {
    pub(super) const fn new() -> Self {
        Self {
            top: None,
            rest: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.rest.len() + usize::from(self.top.is_some())
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.top.is_none() && self.rest.is_empty()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, action: Action) {
        if self.top.is_some() {
            self.spill();
        }
        self.top = Some(action);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Action> {
        match self.top.take() {
            None => self.rest.pop(),
            top => top,
        }
    }

    /// Returns all entries as one vector, the topmost last.
    pub(super) fn entries(&mut self) -> &mut Vec<Action> {
        self.spill();
        &mut self.rest
    }

    /// Moves the top into the vector.
    #[inline(never)]
    fn spill(&mut self) {
        if self.rest.capacity() == 0 {
            self.rest = SPARE.take();
        }
        self.rest.extend(self.top.take());
    }

    /// Returns the memory of the stack, which is empty, to this thread.
    #[inline(always)]
    pub(super) fn end_turn(&mut self) {
        if self.rest.capacity() != 0 {
            self.return_memory();
        }
    }

    #[inline(never)]
    fn return_memory(&mut self) {
        debug_assert!(self.is_empty(), "a turn ends when nothing is in flight");
        SPARE.set(std::mem::take(&mut self.rest));
    }
}
