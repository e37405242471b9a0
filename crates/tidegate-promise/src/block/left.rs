//! Blocks of tasks that an executor has accepted and may leave: what becomes of their readers and
//! listeners when the executor ends without beginning the task.

use std::ptr::NonNull;
use std::task::Waker;

use tidegate_core::prim::{Ordering, fence};

use super::decide::Decided;
use super::depth;
use super::listener::Listener;
use super::state::{CANCELLED, CLAIMED, DONE, LEFT, OWED, UNCANCELLABLE};
use super::storage::{Block, BlockPtr};
use super::watch_list::{GivenUp, Listening, Watch};
use crate::outcome::Outcome;

impl<T: Send + 'static, E: Send + 'static> Block<T, E> {
    /// Whether this is the block of a task that its home has accepted, has not begun and has left.
    pub(super) fn is_left(&self) -> bool {
        // ORDERING: Acquire, as in `has`.
        let state = self.state.load(Ordering::Acquire);
        let open = state & (OWED | DONE | CLAIMED | UNCANCELLABLE) == OWED;
        open && self.home.as_ref().is_some_and(|home| home.has_left_tasks())
    }
}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Whether the outcome is that of a task which the home has accepted.
    #[inline(always)]
    pub(super) fn is_owed(&self) -> bool {
        // Relaxed: the bit is set when the block is made.
        self.get().state.load(Ordering::Relaxed) & OWED != 0
    }

    /// The executor that owes the outcome. None in models, whose threads share this one.
    #[inline]
    fn debtor(&self) -> Option<u64> {
        if cfg!(any(tidegate_loom, tidegate_shuttle)) || !self.is_owed() {
            return None;
        }
        self.get().home.as_ref().map(|home| home.id().get())
    }

    /// Has `waker` woken when the executor that owes the outcome ends without beginning the task.
    /// The caller looks after this whether it has.
    pub(super) fn watch_waker(&self, waker: &Waker) -> Option<Watch> {
        let home = self.debtor()?;
        Some(Watch::waker(home, waker))
    }

    /// Has the block given up when the executor that owes the outcome is. The answer goes into the
    /// listener. True if that executor was given up already: the caller gives up on the block.
    fn watch_listener(&self) -> Option<(Watch, bool)> {
        let home = self.debtor()?;
        let listening = Listening {
            block: self.0.cast(),
            give_up: give_up::<T, E>,
        };
        Some(Watch::listener(home, listening))
    }

    /// A listener that is found when the executor that owes the outcome is given up. True if it was
    /// given up already.
    #[inline(never)]
    pub(super) fn watched<F>(self, listen: F) -> (Listener<T, E>, bool)
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        match self.watch_listener() {
            None => (Listener::new(listen), false),
            Some((watch, late)) => {
                let listener = Listener::new(move |outcome: Outcome<&T, &E>| {
                    drop(watch);
                    listen(outcome);
                });
                (listener, late)
            }
        }
    }

    /// Decides that a task was left; `None` if it is decided, or has begun.
    fn decide_left(self) -> Option<Decided> {
        let decided = self.decide(|state| {
            let open = state & (DONE | CLAIMED | UNCANCELLABLE) == 0;
            open.then_some(state | DONE | CANCELLED | LEFT)
        })?;
        // ORDERING: SeqCst fence, as in `BlockPtr::cancel`.
        fence(Ordering::SeqCst);
        Some(decided)
    }

    /// Gives up on a task that its home has left: it is cancelled, so that it does not run any more,
    /// and this is what its reader is told. `None` if it is not left, or has begun after all.
    pub(super) fn give_up_on_left(self) -> Option<E> {
        if !self.get().is_left() {
            return None;
        }
        let decided = self.decide_left()?;
        self.after_cancel(&decided);
        Some((self.get().abandoned)())
    }
}

/// Gives up on the block of a listener, without running anything of the user's.
///
/// # Safety
///
/// The block is alive and is one of `T` and `E`.
unsafe fn give_up<T: Send + 'static, E: Send + 'static>(block: NonNull<()>) -> Option<GivenUp> {
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
        // The block is alive if the decision came with the right to notify; else it is only named.
        decided.tell(ptr);
    }))
}
