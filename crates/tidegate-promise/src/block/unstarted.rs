//! Blocks of tasks that an executor has accepted: fails their readers and listeners if the
//! executor ends without starting the task.

use std::ptr::NonNull;
use std::task::Waker;

use tidegate_core::internal::prim::{Ordering, fence};

use super::decide::Decided;
use super::depth;
use super::listener::Listener;
use super::state::{CANCELLED, CLAIMED, DONE, TASK, UNCANCELLABLE, UNSTARTED};
use super::storage::{Block, BlockPtr};
use super::watch_list::{AbandonedBlock, ListenedBlock, Watch};

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    /// Returns `true` if the home has accepted the task of this block, has not started it and
    /// never will.
    pub(super) fn is_left(&self) -> bool {
        // ORDERING: Acquire, as in `has`.
        let state = self.state.load(Ordering::Acquire);
        let open = state & (TASK | DONE | CLAIMED | UNCANCELLABLE) == TASK;
        open && self
            .home
            .as_ref()
            .is_some_and(|home| home.has_abandoned_tasks())
    }
}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Returns `true` if the outcome is that of a task which the home has accepted.
    #[inline(always)]
    pub(super) fn is_task(&self) -> bool {
        // Relaxed: the bit is set when the block is created.
        self.get().state.load(Ordering::Relaxed) & TASK != 0
    }

    /// Returns the id of the executor that has accepted the task. `None` in models, whose threads
    /// all run on one real thread.
    #[inline]
    fn task_executor(&self) -> Option<u64> {
        if cfg!(any(tidegate_loom, tidegate_shuttle)) || !self.is_task() {
            return None;
        }
        self.get().home.as_ref().map(|home| home.id().get())
    }

    /// Registers `waker`, to be woken if the executor ends without starting the task. The caller
    /// must check afterwards whether that has already happened.
    pub(super) fn watch_waker(&self, waker: &Waker) -> Option<Watch> {
        let home = self.task_executor()?;
        Some(Watch::waker(home, waker))
    }

    /// Registers the block, to be failed if its executor is given up. The caller stores the watch
    /// in the listener. The flag is `true` if the executor was already given up; the caller must
    /// then fail the block.
    fn watch_listener(&self) -> Option<(Watch, bool)> {
        let home = self.task_executor()?;
        let listening = ListenedBlock {
            block: self.0.cast(),
            give_up: give_up::<T, E>,
        };
        Some(Watch::listener(home, listening))
    }

    /// Makes `listener` one that is notified if the executor of the task is given up. The flag is
    /// `true` if that has already happened.
    #[inline(never)]
    pub(super) fn watched(self, listener: Listener) -> (Listener, bool) {
        match self.watch_listener() {
            None => (listener, false),
            Some((watch, already_given_up)) => (listener.watched(watch), already_given_up),
        }
    }

    /// Decides the block as never started. Returns `None` if it is decided or the task has
    /// started.
    fn decide_left(self) -> Option<Decided> {
        let decided = self.decide(|state| {
            let open = state & (DONE | CLAIMED | UNCANCELLABLE) == 0;
            open.then_some(state | DONE | CANCELLED | UNSTARTED)
        })?;
        // ORDERING: SeqCst fence, as in `BlockPtr::cancel`.
        fence(Ordering::SeqCst);
        Some(decided)
    }

    /// Gives up on a task that its home never started: cancels it, so that it cannot start later,
    /// and returns the failure for the reader. Returns `None` if the home may still start the
    /// task, or has started it.
    pub(super) fn give_up_on_left(self) -> Option<E> {
        if !self.get().is_left() {
            return None;
        }
        let decided = self.decide_left()?;
        self.after_cancel(&decided);
        Some((self.get().abandoned)())
    }
}

/// Gives up on the block of a listener, without running user code.
///
/// # Safety
///
/// The block is alive and has the types `T` and `E`.
unsafe fn give_up<T: Send + 'static, E: Send + 'static>(
    block: NonNull<()>,
) -> Option<AbandonedBlock> {
    let ptr = BlockPtr::<T, E>(block.cast());
    if !ptr.get().is_left() {
        return None;
    }
    let decided = ptr.decide_left()?;
    let hook = ptr.get().take_hook();
    let home = ptr.get().home.clone();
    Some(Box::new(move || {
        if let Some(hook) = hook {
            depth::run_hook(home.as_ref(), hook);
        }
        // If the decision came with the right to notify, the block is alive; otherwise `notify`
        // uses only its address.
        decided.notify(ptr);
    }))
}
