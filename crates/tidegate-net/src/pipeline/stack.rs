//! The events and operations in flight in one chain of handlers.
//!
//! The memory of the stack belongs to the thread and is lent to a chain for one turn: an idle
//! channel holds none.

use std::cell::Cell;

use tidegate_promise::Promise;

use super::erased::StoredHandler;
use super::plan::ChangeOp;
use crate::channel::{HandlerEvent, InEvent, OutOp};
use crate::message::Msg;

thread_local! {
    /// The memory of a stack, while no chain on this thread uses it.
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
    /// A flush whose promise completes when everything written so far is sent.
    FlushWith {
        at: u32,
        promise: Promise<()>,
    },
    /// The end of such a flush: it has passed all handlers.
    FlushMark {
        promise: Promise<()>,
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
    /// Drops a handler that was notified of its removal.
    Drop {
        id: u32,
    },
    PipelineChange(Box<ChangeOp<StoredHandler>>),
}

/// The stack of one chain.
pub(crate) struct ActionStack {
    entries: Vec<Action>,
}

impl ActionStack {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, action: Action) {
        self.entries.push(action);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Action> {
        self.entries.pop()
    }

    /// Returns all entries, the topmost last.
    #[inline(always)]
    pub(super) fn entries(&mut self) -> &mut Vec<Action> {
        &mut self.entries
    }

    /// Takes the memory of this thread for a turn that needs it.
    #[inline(always)]
    pub(super) fn begin_turn(&mut self) {
        if self.entries.capacity() == 0 {
            self.swap_with_spare();
        }
    }

    /// Returns the memory of the stack, which is empty, to this thread.
    #[inline(always)]
    pub(super) fn end_turn(&mut self) {
        if self.entries.capacity() != 0 {
            self.swap_with_spare();
            if self.entries.capacity() != 0 {
                self.drop_memory();
            }
        }
    }

    /// Exchanges the memory of this stack with the spare memory of the thread.
    #[inline(always)]
    fn swap_with_spare(&mut self) {
        SPARE.with(|spare| spare.swap(Cell::from_mut(&mut self.entries)));
    }

    /// Drops memory that is left over because another channel ran within the turn of this one.
    #[cold]
    fn drop_memory(&mut self) {
        self.entries = Vec::new();
    }
}
