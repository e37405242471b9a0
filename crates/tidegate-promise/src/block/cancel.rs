//! Cancellation of a block, and the hook that runs on the thread that cancels it.

use std::ptr;

use tidegate_core::Task;
use tidegate_core::executor::Work;
use tidegate_core::internal::needs_nothing;
use tidegate_core::internal::prim::{Ordering, fence};

use super::decide::Decided;
use super::depth;
use super::state::{AWAITED, CANCELLED, CLAIMED, DONE, SUBMITTED, TASK, UNCANCELLABLE};
use super::storage::{Block, BlockPtr};

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Cancels the block. Returns `false` if the outcome is decided, is being stored, or cannot be
    /// cancelled.
    pub(super) fn cancel(self) -> bool {
        let Some(decided) = self.decide(|state| {
            (state & (DONE | CLAIMED | UNCANCELLABLE) == 0).then_some(state | DONE | CANCELLED)
        }) else {
            return false;
        };
        // ORDERING: SeqCst fence between setting `CANCELLED` and reading the hook; pairs with the
        // fence in `Block::on_cancel`.
        fence(Ordering::SeqCst);
        self.after_cancel(&decided);
        true
    }

    /// Runs the hook and notifies the listeners after a cancellation.
    pub(super) fn after_cancel(self, decided: &Decided) {
        let block = self.get();
        if let Some(hook) = block.take_hook() {
            depth::run_hook(block.home.as_ref(), hook);
        }
        decided.notify(self);
    }
}

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    pub(super) fn set_uncancellable(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (DONE | UNCANCELLABLE) == 0 {
            // Relaxed: publishes no data, only rules out a later cancellation.
            match self.state.compare_exchange_weak(
                state,
                state | UNCANCELLABLE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if state & (AWAITED | TASK) == AWAITED | TASK {
                        needs_nothing(ptr::from_ref(self).addr());
                    }
                    return true;
                }
                Err(now) => state = now,
            }
        }
        state & CANCELLED == 0
    }

    /// Makes this block report to the wait record when its outcome needs no thread any more but the
    /// one that decides it: its task has started, or it is decided. Returns `true` if that is so
    /// already. Called with the lock of the record held: what happens after this call finds the
    /// wait.
    pub(super) fn needs_nothing_or_will_report(&self) -> bool {
        let state = self.state.fetch_or(AWAITED, Ordering::Relaxed);
        let started = match state & TASK {
            0 => 0,
            _ => UNCANCELLABLE,
        };
        state & (DONE | CLAIMED | started) != 0
    }

    /// Returns how the work that decides this block comes to its home.
    pub(super) fn work(&self) -> Work {
        match self.state.load(Ordering::Relaxed) & SUBMITTED {
            0 => Work::Own,
            _ => Work::Submitted,
        }
    }

    pub(super) fn on_cancel(&self, hook: Task) {
        let hook = Box::into_raw(Box::new(hook));
        // ORDERING: AcqRel: Release publishes the hook to `take_hook`, Acquire receives an earlier
        // hook, which is dropped here without a call.
        let before = self.hook.swap(hook, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: non-null hooks come from `Box::into_raw`; the swap transferred this one to
            // this thread.
            let before = unsafe { Box::from_raw(before) };
            depth::contain(self.home.as_deref(), || drop(before));
        }
        // ORDERING: SeqCst fence between storing the hook and reading the state; pairs with those
        // in `BlockPtr::cancel` and `SharedWriter::try_complete`: the deciding thread finds the
        // hook, or this thread finds `DONE`, or both. In the last case `take_hook` gives the hook
        // to only one of them.
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        if state & DONE != 0
            && let Some(hook) = self.take_hook()
            && state & CANCELLED != 0
        {
            depth::run_hook(self.home.as_ref(), hook);
        }
    }
}
