//! Cancelling a block, and the hook that runs on the thread that cancels it.

use tidegate_core::Task;
use tidegate_core::prim::{Ordering, fence};

use super::decide::Decided;
use super::depth;
use super::state::{CANCELLED, CLAIMED, DONE, UNCANCELLABLE};
use super::storage::{Block, BlockPtr};

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Cancels; false if the outcome is decided, being stored, or cannot be cancelled.
    pub(super) fn cancel(self) -> bool {
        let Some(decided) = self.decide(|state| {
            (state & (DONE | CLAIMED | UNCANCELLABLE) == 0).then_some(state | DONE | CANCELLED)
        }) else {
            return false;
        };
        // ORDERING: SeqCst fence between setting `CANCELLED` and looking for a hook; pairs with
        // the fence in `Block::on_cancel`.
        fence(Ordering::SeqCst);
        self.after_cancel(&decided);
        true
    }

    /// What comes after a cancellation: the hook runs, the listeners are told.
    pub(super) fn after_cancel(self, decided: &Decided) {
        let block = self.get();
        if let Some(hook) = block.take_hook() {
            depth::run_hook(block.home.as_ref(), hook);
        }
        decided.tell(self);
    }
}

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    pub(super) fn set_uncancellable(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (DONE | UNCANCELLABLE) == 0 {
            // Relaxed: says nothing about data, only that no cancellation can follow.
            match self.state.compare_exchange_weak(
                state,
                state | UNCANCELLABLE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        state & CANCELLED == 0
    }

    pub(super) fn on_cancel(&self, hook: Task) {
        let hook = Box::into_raw(Box::new(hook));
        // ORDERING: AcqRel: Release publishes the hook to `take_hook`, Acquire takes over an
        // earlier one.
        let before = self.hook.swap(hook, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: non-null hooks come from `Box::into_raw`; the swap gave this one away.
            let before = unsafe { Box::from_raw(before) };
            depth::contain(self.home.as_deref(), || drop(before));
        }
        // ORDERING: SeqCst fence between storing the hook and looking at the state; pairs with
        // those in `BlockPtr::cancel` and `SharedWriter::try_complete`: whoever decides finds
        // the hook, or this thread finds `DONE`, or both, and then `take_hook` gives it to one
        // of them.
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
