//! The events and operations in flight in one chain of handlers.
//!
//! A chain of one handler has nothing in flight while it handles a plain read. For everything else
//! it borrows the memory of the thread: an idle channel holds none. A chain of several handlers
//! keeps memory for a few entries. If it once needed more, it borrows the thread's memory for each
//! turn from then on.

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

/// The number of entries for which a chain of several handlers keeps memory between two turns. It
/// is the number that a vector reserves at first. Exchanging memory with the thread in every turn
/// would cost 70 instructions.
const OWN_ENTRIES: usize = 4;

/// The stack of one chain.
pub(crate) struct ActionStack {
    entries: Vec<Action>,
    /// An earlier turn needed more entries than a chain keeps memory for.
    needs_much: bool,
    /// The memory of `entries` is the thread's.
    is_borrowed: bool,
}

impl ActionStack {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            needs_much: false,
            is_borrowed: false,
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

    /// Begins a turn that puts entries on the stack.
    #[inline(always)]
    pub(super) fn begin_turn(&mut self) {
        if self.entries.capacity() == 0 {
            self.borrow();
        }
    }

    /// Begins a turn that puts entries on the stack only if there are several handlers.
    #[inline(always)]
    pub(super) fn begin_plain_turn(&mut self) {
        if self.needs_much && self.entries.capacity() == 0 {
            self.borrow();
        }
    }

    /// Returns memory to this thread. A chain of several handlers `keeps` memory for a few entries.
    /// The stack is empty.
    #[inline(always)]
    pub(super) fn end_turn(&mut self, keeps: bool) {
        if self.entries.capacity() > if keeps { OWN_ENTRIES } else { 0 } {
            self.give_back();
        }
    }

    #[inline(never)]
    fn borrow(&mut self) {
        self.entries = SPARE.take();
        self.is_borrowed = true;
    }

    /// If the thread has memory already, because another channel ran within this turn, one of the
    /// two is dropped.
    #[inline(never)]
    fn give_back(&mut self) {
        self.needs_much |= !self.is_borrowed && self.entries.capacity() > OWN_ENTRIES;
        self.is_borrowed = false;
        SPARE.set(std::mem::take(&mut self.entries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_HANDLER: bool = false;
    const SEVERAL_HANDLERS: bool = true;

    fn fill(stack: &mut ActionStack, entries: usize, keeps: bool) {
        stack.begin_plain_turn();
        (0..entries).for_each(|_| stack.push(Action::Level));
        while stack.pop().is_some() {}
        stack.end_turn(keeps);
    }

    #[test]
    fn a_chain_of_several_handlers_keeps_memory_for_a_few_entries() {
        let mut stack = ActionStack::new();
        fill(&mut stack, 1, SEVERAL_HANDLERS);
        assert_eq!(stack.entries.capacity(), OWN_ENTRIES);
        fill(&mut stack, OWN_ENTRIES, SEVERAL_HANDLERS);
        assert_eq!(stack.entries.capacity(), OWN_ENTRIES);
        assert_eq!(SPARE.take().capacity(), 0);
    }

    #[test]
    fn a_chain_of_one_handler_keeps_none() {
        let mut stack = ActionStack::new();
        fill(&mut stack, 1, ONE_HANDLER);
        assert_eq!(stack.entries.capacity(), 0);
        stack.begin_turn();
        assert_eq!(stack.entries.capacity(), OWN_ENTRIES);
        stack.end_turn(ONE_HANDLER);
        assert_eq!(stack.entries.capacity(), 0);
        assert_eq!(SPARE.take().capacity(), OWN_ENTRIES);
    }

    #[test]
    fn borrowing_much_once_does_not_mean_needing_much() {
        let mut stack = ActionStack::new();
        SPARE.set(Vec::with_capacity(100));
        stack.begin_turn();
        stack.end_turn(SEVERAL_HANDLERS);
        assert!(SPARE.take().capacity() >= 100);
        fill(&mut stack, 1, SEVERAL_HANDLERS);
        assert_eq!(stack.entries.capacity(), OWN_ENTRIES);
    }

    #[test]
    fn memory_for_many_entries_belongs_to_the_thread() {
        let (mut one, mut other) = (ActionStack::new(), ActionStack::new());
        fill(&mut one, 100, SEVERAL_HANDLERS);
        assert_eq!(one.entries.capacity(), 0);
        fill(&mut other, 200, SEVERAL_HANDLERS);
        one.begin_plain_turn();
        assert!(one.entries.capacity() >= 200);
        other.begin_plain_turn();
        assert_eq!(other.entries.capacity(), 0);
        other.push(Action::Level);
        assert!(other.pop().is_some());
        other.end_turn(SEVERAL_HANDLERS);
        one.end_turn(SEVERAL_HANDLERS);
        assert_eq!(one.entries.capacity(), 0);
        assert!(SPARE.take().capacity() >= 200);
    }
}
