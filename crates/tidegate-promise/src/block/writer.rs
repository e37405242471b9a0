//! The write ends of a block: the unique one, which is consumed by completing, and the shared
//! ones, of which the first to complete wins.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use tidegate_core::internal::prim::{Ordering, fence};
use tidegate_core::{Executor, Task};

use super::state::{CANCELLED, CLAIMED, DONE, LISTENER, NOTIFYING, OWNERS, READER, WRITER};
use super::storage::{BlockPtr, count_one};

/// The unique write end. Dropping it fails the block as abandoned.
pub struct Writer<T: Send + 'static, E: Send + 'static> {
    block: BlockPtr<T, E>,
}

// SAFETY: a writer may store one `T` or `E`, which other threads read or take.
unsafe impl<T: Send, E: Send> Send for Writer<T, E> {}
// SAFETY: a shared reference only reads the state and the home, sets the hook and marks the block
// as uncancellable.
unsafe impl<T: Send, E: Send> Sync for Writer<T, E> {}

impl<T: Send + 'static, E: Send + 'static> Writer<T, E> {
    pub(super) fn new(block: BlockPtr<T, E>) -> Self {
        Self { block }
    }

    /// Stores the outcome and notifies the listeners.
    ///
    /// # Errors
    ///
    /// Returns the outcome if the block was cancelled.
    #[inline(always)]
    pub fn complete(self, outcome: Result<T, E>) -> Result<(), Result<T, E>> {
        let ptr = self.block;
        std::mem::forget(self);
        let block = ptr.get();
        // SAFETY: the write end is unique and has not decided yet, so no other thread accesses the
        // outcome before `DONE` is set below.
        block
            .outcome
            .with_mut(|place| unsafe { place.write(MaybeUninit::new(outcome)) });
        // Only this end sets hooks. If there is one, this end stays an owner until it has dropped
        // what the hook captured; otherwise it clears its owner bit in the same step.
        let hooked = !block.hook.load(Ordering::Relaxed).is_null();
        let leave = if hooked { 0 } else { WRITER };
        let decided = ptr
            .decide_alone(leave)
            .or_else(|| ptr.decide(|state| (state & DONE == 0).then_some((state | DONE) & !leave)));
        let Some(decided) = decided else {
            // SAFETY: the block was cancelled, so no thread reads the outcome that was stored
            // above.
            let outcome = unsafe { block.take_outcome() };
            ptr.give_up(WRITER);
            return Err(outcome);
        };
        if decided.state & OWNERS == 0 {
            // SAFETY: no owner is left, seen with Acquire.
            unsafe { ptr.free() };
            return Ok(());
        }
        if hooked {
            block.drop_hook();
        }
        decided.notify(ptr);
        if hooked {
            ptr.give_up(WRITER);
        }
        Ok(())
    }

    /// Cancels the block from the writer's side and runs the hook on this thread. If the block
    /// cannot be cancelled any more, it fails as abandoned.
    pub fn cancel(self) {
        self.block.cancel();
    }

    /// Makes the block uncancellable. Returns `false` only if it was already cancelled.
    pub fn set_uncancellable(&self) -> bool {
        self.block.get().set_uncancellable()
    }

    /// Registers `hook`, which runs on the thread that cancels the block. If the block is already
    /// cancelled, `hook` runs at once on this thread. A later hook replaces an earlier one.
    pub fn on_cancel(&self, hook: Task) {
        self.block.get().on_cancel(hook);
    }

    /// Returns `true` if the block was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.block.get().has(CANCELLED)
    }

    /// Returns `true` if a read end or a listener can still see the outcome.
    pub fn is_observed(&self) -> bool {
        self.block.get().has(READER | LISTENER | NOTIFYING)
    }

    /// Returns the executor on which the listeners run, if any.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.block.get().home.as_ref()
    }

    /// Returns the address of the block.
    #[inline(always)]
    pub fn addr(&self) -> usize {
        self.block.addr()
    }

    /// Converts the unique end into one that can be cloned.
    pub fn share(self) -> SharedWriter<T, E> {
        let block = self.block;
        std::mem::forget(self);
        SharedWriter { block }
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Writer<T, E> {
    fn drop(&mut self) {
        let block = self.block.get();
        if block.has(DONE) {
            // The block was cancelled, or a shared writer has completed it.
            self.block.give_up(WRITER);
            return;
        }
        let outcome = Err((block.abandoned)());
        let writer = Self { block: self.block };
        // A cancellation may still win the race; then the block is cancelled and not abandoned.
        drop(writer.complete(outcome));
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Writer<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// A write end that can be cloned. The first clone to complete wins. When the last clone is
/// dropped undecided, the block fails as abandoned.
pub struct SharedWriter<T: Send + 'static, E: Send + 'static> {
    block: BlockPtr<T, E>,
}

// SAFETY: as for `Writer`.
unsafe impl<T: Send, E: Send> Send for SharedWriter<T, E> {}
// SAFETY: completing through a shared reference claims the outcome by compare-and-swap first.
unsafe impl<T: Send, E: Send> Sync for SharedWriter<T, E> {}

impl<T: Send + 'static, E: Send + 'static> SharedWriter<T, E> {
    /// Stores the outcome and notifies the listeners, unless the block is already decided.
    ///
    /// # Errors
    ///
    /// Returns the outcome if another writer or a cancellation was faster.
    pub fn try_complete(&self, outcome: Result<T, E>) -> Result<(), Result<T, E>> {
        let block = self.block.get();
        let mut state = block.state.load(Ordering::Relaxed);
        loop {
            if state & (DONE | CLAIMED) != 0 {
                return Err(outcome);
            }
            // Relaxed: a claim among writers; setting `DONE` below publishes the outcome.
            match block.state.compare_exchange_weak(
                state,
                state | CLAIMED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: `CLAIMED` gives this thread exclusive access to the outcome until `DONE` is set.
        block
            .outcome
            .with_mut(|place| unsafe { place.write(MaybeUninit::new(outcome)) });
        let decided = self.block.decide(|state| Some(state | DONE));
        // ORDERING: SeqCst fence between setting `DONE` and reading the hook; pairs with the fence
        // in `Block::on_cancel`.
        fence(Ordering::SeqCst);
        block.drop_hook();
        if let Some(decided) = decided {
            decided.notify(self.block);
        }
        Ok(())
    }

    /// See [`Writer::set_uncancellable`].
    pub fn set_uncancellable(&self) -> bool {
        self.block.get().set_uncancellable()
    }

    /// See [`Writer::on_cancel`].
    pub fn on_cancel(&self, hook: Task) {
        self.block.get().on_cancel(hook);
    }

    /// Returns `true` if the outcome is decided.
    pub fn is_done(&self) -> bool {
        self.block.get().has(DONE)
    }

    /// Returns `true` if the block was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.block.get().has(CANCELLED)
    }

    /// Cancels the block from the writers' side. Returns `false` if it was already decided or
    /// cannot be cancelled.
    pub fn cancel(&self) -> bool {
        self.block.cancel()
    }
}

impl<T: Send + 'static, E: Send + 'static> Clone for SharedWriter<T, E> {
    fn clone(&self) -> Self {
        count_one(&self.block.get().writers);
        Self { block: self.block }
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for SharedWriter<T, E> {
    fn drop(&mut self) {
        let block = self.block.get();
        // ORDERING: AcqRel, as in `Arc`: the last writer sees what the others did.
        if block.writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(Writer { block: self.block });
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for SharedWriter<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWriter")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}
