//! Blocks of tasks that an executor has accepted: fails their readers and listeners if the
//! executor ends without starting the task.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::prim::{Ordering, fence};
use tidegate_core::internal::{Watch, WatchList, unpoisoned};

use super::decide::Decided;
use super::depth;
use super::listener::Listener;
use super::sleepers::wake_sleepers;
use super::state::{CANCELLED, CLAIMED, DONE, TASK, UNCANCELLABLE, UNSTARTED};
use super::storage::{Block, BlockPtr};
use crate::outcome::Outcome;

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

/// The failures of tasks that were never started, one for each function that makes them. They are
/// never dropped, so that a reader can show one by reference, for which no block has room.
static FAILURES: Mutex<Vec<(usize, &'static (dyn Any + Send + Sync))>> = Mutex::new(Vec::new());

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Block<T, E> {
    /// Returns the outcome as readers see it, if it is decided: that of a task which was never
    /// started is a failure.
    pub(super) fn seen_outcome(&self) -> Option<Outcome<&T, &E>> {
        Some(match self.outcome()? {
            Outcome::Cancelled if self.has(UNSTARTED) => Outcome::Failure(self.failure()),
            outcome => outcome,
        })
    }

    fn failure(&self) -> &'static E {
        let by = self.abandoned as usize;
        let mut all = unpoisoned(FAILURES.lock());
        let made = all.iter().filter(|(maker, _)| *maker == by);
        let made = made
            .filter_map(|(_, failure)| failure.downcast_ref())
            .next();
        made.unwrap_or_else(|| {
            let failure: &'static E = Box::leak(Box::new((self.abandoned)()));
            all.push((by, failure));
            failure
        })
    }
}

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Returns `true` if the outcome is that of a task which the home has accepted.
    #[inline(always)]
    pub(super) fn is_task(&self) -> bool {
        // Relaxed: the bit is set when the block is created.
        self.get().state.load(Ordering::Relaxed) & TASK != 0
    }

    /// Returns the watch list of the executor that has accepted the task. `None` in models, whose
    /// threads all run on one real thread.
    #[inline]
    fn watch_list(&self) -> Option<&Arc<WatchList>> {
        if cfg!(any(tidegate_loom, tidegate_shuttle)) || !self.is_task() {
            return None;
        }
        self.get().home.as_ref()?.watch_list()
    }

    /// Registers `waker`, to be woken if the executor ends without starting the task. The caller
    /// must check afterwards whether that has already happened.
    pub(super) fn watch_waker(&self, waker: &Waker) -> Option<Watch> {
        Some(self.watch_list()?.add_waker(waker.clone()))
    }

    /// Makes `listener` one that is notified if the executor of the task is given up. The flag is
    /// `true` if that has already happened; the caller must then fail the block.
    #[inline(never)]
    pub(super) fn watched(self, listener: Listener) -> (Listener, bool) {
        let Some(list) = self.watch_list() else {
            return (listener, false);
        };
        let block = ListenedBlock(self);
        let (watch, already_given_up) = list.add_listener(move || block.give_up());
        (listener.watched(watch), already_given_up)
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

/// A block that has a listener. It is alive while it is in a watch list: the listener removes it.
struct ListenedBlock<T: 'static, E: 'static>(BlockPtr<T, E>);

// SAFETY: the values of the block are `Send`, and any thread that keeps the block alive may do what
// is done with it here.
unsafe impl<T: Send, E: Send> Send for ListenedBlock<T, E> {}

impl<T: Send + 'static, E: Send + 'static> ListenedBlock<T, E> {
    /// Decides the block as never started, if it is still open, without running user code. Returns
    /// what runs its hook and its listeners.
    fn give_up(&self) -> Option<Box<dyn FnOnce()>> {
        let ptr = self.0;
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
}

/// Wakes every thread and every waker that waits for a task of `home`, so that its owner checks the
/// executor again. Called by an executor that ends, after it has marked itself as ended. `give_up`
/// means that the executor is stuck: its tasks cannot be handed back, so their listeners are
/// notified too.
pub fn notify_unstarted(home: ExecutorId, list: &WatchList, give_up: bool) {
    wake_sleepers(home);
    let (wakers, notify) = list.end(give_up);
    for waker in wakers {
        depth::contain(None, || waker.wake());
    }
    for notify in notify {
        notify();
    }
}
