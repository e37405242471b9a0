//! The unique read end of a block, which may take the outcome.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tidegate_core::Executor;
use tidegate_core::executor::Work;
use tidegate_core::internal::prefetch_for_write;
use tidegate_core::internal::prim::Ordering;

use super::depth;
use super::listen::{ListenerToken, Place, announce, next_id, push_node, remove_node};
use super::listener::{Listener, Node};
use super::shared_reader::SharedReader;
use super::sleepers::SleepRecord;
use super::state::{
    CANCELLED, CLAIMED, DONE, INLINE, LISTENER, READER, SLEEPER, TASK, UNCANCELLABLE, UNSTARTED,
    is_settled,
};
use super::storage::BlockPtr;
use super::word_waiters::WordWaiters;
use crate::outcome::Outcome;

/// The unique read end. Dropping it detaches: the outcome can then no longer be taken.
pub struct Reader<T: Send + 'static, E: Send + 'static> {
    block: BlockPtr<T, E>,
    /// The use of the inline slot so far.
    slot: Cell<Slot>,
    /// The id of this reader in the tokens of its listeners; 0 before the first one.
    id: Cell<u64>,
    /// The waker registered by the last poll, and its location.
    waker: Option<Registered>,
    /// The outcome was moved out through this end.
    taken: bool,
    /// Not `Sync`: listeners are added without a lock, because one thread at a time uses this end.
    _not_sync: PhantomData<Cell<()>>,
}

/// The use of the inline slot so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// Unused, or a waker was removed from it. There is no other listener.
    Free,
    /// Contains a waker. There is no other listener.
    Waker,
    /// Contains a listener. There is no other one.
    Listener,
    /// Other listeners were added after the one in the slot, or a listener was removed from it.
    /// The slot is not used again, because that could change the order of the listeners.
    Passed,
}

struct Registered {
    /// The waker's data and vtable, to compare them with those of the next poll.
    same: (*const (), NonNull<()>),
    /// The waker's node; `None` if the waker is in the inline slot.
    node: Option<Arc<Node>>,
}

// SAFETY: the read end gives the outcome to the thread that uses it; its own fields are used by
// that thread alone, and the pointers in `same` are only compared.
unsafe impl<T: Send, E: Send> Send for Reader<T, E> {}

impl<T: Send + 'static, E: Send + 'static> Reader<T, E> {
    pub(super) fn new(block: BlockPtr<T, E>) -> Self {
        Self {
            block,
            slot: Cell::new(Slot::Free),
            id: Cell::new(0),
            waker: None,
            taken: false,
            _not_sync: PhantomData,
        }
    }

    /// Calls `listen` with the outcome, on the block's home. If the outcome was already taken,
    /// drops `listen` and returns `None`.
    #[inline]
    pub fn listen<F>(&self, listen: F) -> Option<ListenerToken>
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        self.add(Listener::new(listen))
    }

    /// Adds a listener. If the outcome was already taken, drops it and returns `None`.
    #[inline]
    fn add(&self, listener: Listener) -> Option<ListenerToken> {
        if self.taken {
            return None;
        }
        if !self.block.is_task() {
            return Some(self.put(listener));
        }
        let (listener, already_given_up) = self.block.watched(listener);
        let token = self.put(listener);
        if already_given_up {
            drop(self.fail_if_unstarted());
        }
        Some(token)
    }

    #[inline]
    fn put(&self, listener: Listener) -> ListenerToken {
        if self.id.get() == 0 {
            self.id.set(next_id());
        }
        let place = if self.slot.get() == Slot::Free {
            self.slot.set(Slot::Listener);
            self.fill_inline(listener, READER);
            Place::Inline
        } else {
            self.slot.set(Slot::Passed);
            Place::Node(push_node(self.block, listener))
        };
        let of = self.id.get();
        ListenerToken { of, place }
    }

    /// Calls `listen` with the outcome, on the block's home, and consumes the read end. Saves one
    /// atomic operation compared to `listen` and a drop.
    #[inline]
    pub fn finish<F>(self, listen: F)
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        self.add_last(Listener::new(listen));
    }

    #[inline]
    fn add_last(self, listener: Listener) {
        if self.slot.get() != Slot::Free || self.taken || self.block.is_task() {
            let _ = self.add(listener);
            return;
        }
        let this = std::mem::ManuallyDrop::new(self);
        this.fill_inline(listener, 0);
    }

    /// Removes a listener before it is called. Returns `true` if it will not be called, and `false`
    /// for a listener of another reader.
    pub fn remove(&self, token: &ListenerToken) -> bool {
        if token.of != self.id.get() {
            return false;
        }
        match &token.place {
            Place::Node(node) => remove_node(self.block, node),
            // A slot that had a listener never has a waker.
            Place::Inline => {
                let removed = self.take_inline().is_some();
                if removed {
                    self.slot.set(Slot::Passed);
                }
                removed
            }
        }
    }

    /// Returns the outcome if it is decided and was not taken.
    pub fn peek(&self) -> Option<Outcome<&T, &E>>
    where
        T: Sync,
        E: Sync,
    {
        if self.taken {
            return None;
        }
        self.block.get().seen_outcome()
    }

    /// Returns `true` if the calling thread runs a listener of this block, or has deferred its
    /// notification. A wait for the block on this thread would never end.
    pub fn is_notifying_on_this_thread(&self) -> bool {
        depth::is_notifying_on_this_thread(self.block.addr())
    }

    /// Returns the address of the block, and how the work that decides it comes to its home.
    pub fn awaited(&self) -> (usize, Work) {
        (self.block.addr(), self.block.get().work())
    }

    /// Makes this block report to the wait record when its outcome needs no thread any more but the
    /// one that decides it. Returns `true` if that is so already.
    pub fn needs_nothing_or_will_report(&self) -> bool {
        self.block.get().needs_nothing_or_will_report()
    }

    /// Takes the outcome if it is decided and every listener has run.
    pub fn try_take(&mut self) -> Option<Outcome<T, E>> {
        let block = self.block.get();
        // ORDERING: Acquire pairs with the Release by which the outcome was decided, and with
        // that of the last notifier.
        let state = block.state.load(Ordering::Acquire);
        if self.taken || !is_settled(state) {
            return None;
        }
        self.taken = true;
        if state & CANCELLED != 0 {
            return Some(block.cancelled_outcome(state));
        }
        // SAFETY: only the unique reader accesses `taken` until the block is freed.
        block.taken.with_mut(|taken| unsafe { *taken = true });
        // SAFETY: the outcome is stored and settled: there is no notifier and none can come, since
        // only this end adds listeners, and the outcome was not taken before.
        Some(match unsafe { block.take_outcome() } {
            Ok(value) => Outcome::Success(value),
            Err(cause) => Outcome::Failure(cause),
        })
    }

    /// Sleeps until the outcome can be taken or never will be stored
    /// ([`Reader::fail_if_unstarted`]). Returns `false` if threads cannot sleep on a block on this
    /// platform. After this call the reader may only take the outcome.
    pub fn sleep(&mut self) -> bool {
        if !WordWaiters::SUPPORTED {
            return false;
        }
        let block = self.block.get();
        // Relaxed: `try_take` reads the state again, with Acquire.
        let mut state = block.state.fetch_or(SLEEPER, Ordering::Relaxed) | SLEEPER;
        let noted = match &block.home {
            Some(home) if state & TASK != 0 => SleepRecord::new(&**home, self.block.word()),
            _ => None,
        };
        // A thread that settles the block after this sees the bit and wakes this thread.
        while !is_settled(state) {
            if let Some(noted) = &noted {
                noted.acknowledge();
                if block.is_left() {
                    return true;
                }
            }
            block.word_waiters.sleep_while(&block.state, state);
            // The writer has written both cache lines. Prefetch them together rather than miss on
            // each in turn.
            self.prefetch();
            state = block.state.load(Ordering::Relaxed);
        }
        true
    }

    /// Returns the failure of a task whose executor ended without starting it. In that case the
    /// task is cancelled and never runs.
    pub fn fail_if_unstarted(&self) -> Option<E> {
        self.block.give_up_on_left()
    }

    /// Prefetches the cache lines of the block.
    fn prefetch(&self) {
        let at = self.block.0.as_ptr().cast::<u8>();
        prefetch_for_write(at);
        prefetch_for_write(at.wrapping_add(64));
    }

    /// Takes the outcome, or registers `waker` to be woken when it can be taken. Ready with `None`
    /// means that it was already taken.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Option<Outcome<T, E>>> {
        loop {
            if self.taken {
                return Poll::Ready(None);
            }
            if let Some(outcome) = self.try_take() {
                return Poll::Ready(Some(outcome));
            }
            let same = identity(waker);
            let ptr = self.block;
            if !ptr.get().has(DONE) && self.waker.as_ref().is_some_and(|one| one.same == same) {
                return Poll::Pending;
            }
            self.remove_waker();
            self.waker = Some(Registered {
                same,
                node: self.add_waker(waker.clone()),
            });
            // If a notifier was running when the waker was added, it will call the waker.
            // Otherwise the waker was called in place and the block is settled, or a new notifier
            // is at work on another thread.
            if !is_settled(ptr.get().load()) {
                return Poll::Pending;
            }
        }
    }

    /// Removes the registered waker.
    pub fn remove_waker(&mut self) {
        let Some(registered) = self.waker.take() else {
            return;
        };
        match registered.node {
            Some(node) => {
                remove_node(self.block, &node);
            }
            None => {
                if self.take_inline().is_some() && self.slot.get() == Slot::Waker {
                    self.slot.set(Slot::Free);
                }
            }
        }
    }

    /// Cancels the block. Returns `false` if it was already decided or cannot be cancelled.
    pub fn cancel(&self) -> bool {
        self.block.cancel()
    }

    /// Returns `true` if the outcome is decided.
    pub fn is_done(&self) -> bool {
        self.block.get().has(DONE)
    }

    /// Returns `true` if the block was cancelled. A task that was never started has failed.
    pub fn is_cancelled(&self) -> bool {
        self.block.get().load() & (CANCELLED | UNSTARTED) == CANCELLED
    }

    /// Returns `true` if the block can still be cancelled.
    pub fn is_cancellable(&self) -> bool {
        !self.block.get().has(DONE | CLAIMED | UNCANCELLABLE)
    }

    /// Returns `true` if the outcome was taken through this end.
    pub fn is_taken(&self) -> bool {
        self.taken
    }

    /// Returns the executor on which the listeners run, if any.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.block.get().home.as_ref()
    }

    /// Converts the unique end into one that can be cloned, unless the outcome was taken.
    pub fn share(self) -> Result<SharedReader<T, E>, Self>
    where
        T: Sync,
        E: Sync,
    {
        if self.taken {
            return Err(self);
        }
        let mut this = self;
        this.remove_waker();
        let block = this.block;
        std::mem::forget(this);
        Ok(SharedReader::new(block))
    }

    #[cfg(all(test, not(tidegate_loom)))]
    pub(super) fn block(&self) -> BlockPtr<T, E> {
        self.block
    }

    fn add_waker(&self, waker: Waker) -> Option<Arc<Node>> {
        // Registered before the caller checks whether the executor has ended.
        let watch = self.block.watch_waker(&waker);
        let listener = Listener::waker(waker, watch);
        if self.slot.get() == Slot::Free {
            self.slot.set(Slot::Waker);
            self.fill_inline(listener, READER);
            return None;
        }
        self.slot.set(Slot::Passed);
        Some(push_node(self.block, listener))
    }

    /// Puts the first listener into the inline slot. `keep` is `READER`, or 0 to clear that owner
    /// bit in the same step.
    #[inline]
    fn fill_inline(&self, listener: Listener, keep: u32) {
        let block = self.block.get();
        // SAFETY: the slot is free, and only this end fills it; a notifier reads it only after it
        // has seen `INLINE`, which is set below.
        block
            .inline
            .with_mut(|slot| unsafe { slot.write(MaybeUninit::new(listener)) });
        announce(self.block, LISTENER | INLINE, READER & !keep);
    }

    /// Removes and returns the inline listener, unless a notifier has seen it.
    fn take_inline(&self) -> Option<Listener> {
        let block = self.block.get();
        let alone = self.slot.get() != Slot::Passed;
        let emptied = if alone { INLINE | LISTENER } else { INLINE };
        let mut state = block.state.load(Ordering::Relaxed);
        loop {
            if state & INLINE == 0 {
                return None;
            }
            // ORDERING: Acquire: the slot was filled by this end, maybe on another thread; the
            // notifier that loses this race never reads the slot.
            match block.state.compare_exchange_weak(
                state,
                state & !emptied,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: `INLINE` was set, so the slot is full; it is clear now and no notifier has
        // seen it, so it belongs to this end again.
        let listener = block.inline.with_mut(|slot| unsafe { slot.read() });
        // SAFETY: as above.
        Some(unsafe { listener.assume_init() })
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Reader<T, E> {
    fn drop(&mut self) {
        self.remove_waker();
        self.block.give_up(READER);
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Reader<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("done", &self.is_done())
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

fn identity(waker: &Waker) -> (*const (), NonNull<()>) {
    (waker.data(), NonNull::from(waker.vtable()).cast())
}
