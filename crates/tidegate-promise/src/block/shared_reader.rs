//! The read end that can be cloned. The outcome stays in the block.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use tidegate_core::Executor;
use tidegate_core::executor::Work;
use tidegate_core::internal::prim::Ordering;

use super::listen::{ListenerToken, Place, push_node, remove_node};
use super::listener::Listener;
use super::state::{CLAIMED, DONE, READER, UNCANCELLABLE};
use super::storage::{BlockPtr, count_one};
use crate::outcome::Outcome;

/// A read end that can be cloned. The outcome stays in the block.
pub struct SharedReader<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    block: BlockPtr<T, E>,
}

// SAFETY: shared readers only hand out `&T` and `&E`, which `Sync` allows, and the last one may
// drop the outcome, which `Send` allows.
unsafe impl<T: Send + Sync, E: Send + Sync> Send for SharedReader<T, E> {}
// SAFETY: as above; adding listeners is a compare-and-swap on the inbox.
unsafe impl<T: Send + Sync, E: Send + Sync> Sync for SharedReader<T, E> {}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> SharedReader<T, E> {
    /// Takes ownership of the read end of `block`.
    pub(super) fn new(block: BlockPtr<T, E>) -> Self {
        Self { block }
    }

    /// Calls `listen` with the outcome, on the block's home, or without a home on the thread that
    /// notifies.
    pub fn listen<F>(&self, listen: F) -> ListenerToken
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        self.add(Listener::new(listen))
    }

    fn add(&self, listener: Listener) -> ListenerToken {
        let (listener, already_given_up) = self.block.watched(listener);
        let node = push_node(self.block, listener);
        if already_given_up {
            drop(self.fail_if_unstarted());
        }
        ListenerToken {
            of: 0,
            place: Place::Node(node),
        }
    }

    #[cfg(all(test, not(tidegate_loom)))]
    pub(super) fn block(&self) -> BlockPtr<T, E> {
        self.block
    }

    /// Wakes `waker` when the outcome is decided and earlier listeners have run.
    pub fn listen_waker(&self, waker: Waker) -> ListenerToken {
        // The watch is registered before the caller checks whether the executor has ended, so that
        // an end after the check still wakes `waker`.
        let watch = self.block.watch_waker(&waker);
        let node = push_node(self.block, Listener::waker(waker, watch));
        ListenerToken {
            of: 0,
            place: Place::Node(node),
        }
    }

    /// Removes a listener before it is called. Returns `true` if it will not be called. Returns
    /// `false` for a token of the inline slot, which only the unique reader can remove.
    pub fn remove(&self, token: &ListenerToken) -> bool {
        match &token.place {
            Place::Node(node) => remove_node(self.block, node),
            Place::Inline => false,
        }
    }

    /// Returns the outcome if it is decided.
    pub fn peek(&self) -> Option<Outcome<&T, &E>> {
        self.block.get().seen_outcome()
    }

    /// See [`Reader::fail_if_unstarted`](super::Reader::fail_if_unstarted).
    pub fn fail_if_unstarted(&self) -> Option<E> {
        self.block.give_up_on_left()
    }

    /// See [`Reader::cancel`](super::Reader::cancel).
    pub fn cancel(&self) -> bool {
        self.block.cancel()
    }

    /// Returns `true` if the outcome is decided.
    pub fn is_done(&self) -> bool {
        self.block.get().has(DONE)
    }

    /// Returns `true` if the block can still be cancelled.
    pub fn is_cancellable(&self) -> bool {
        !self.block.get().has(DONE | CLAIMED | UNCANCELLABLE)
    }

    /// See [`Reader::awaited`](super::Reader::awaited).
    pub fn awaited(&self) -> (usize, Work) {
        (self.block.addr(), self.block.get().work())
    }

    /// See [`Reader::needs_nothing_or_will_report`](super::Reader::needs_nothing_or_will_report).
    pub fn needs_nothing_or_will_report(&self) -> bool {
        self.block.get().needs_nothing_or_will_report()
    }

    /// Returns the executor on which the listeners run, if any.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.block.get().home.as_ref()
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Clone for SharedReader<T, E> {
    fn clone(&self) -> Self {
        count_one(&self.block.get().readers);
        Self { block: self.block }
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Drop for SharedReader<T, E> {
    fn drop(&mut self) {
        // ORDERING: AcqRel, as in `Arc`: the last reader sees what the others did.
        if self.block.get().readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.block.give_up(READER);
        }
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> fmt::Debug for SharedReader<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReader")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}
