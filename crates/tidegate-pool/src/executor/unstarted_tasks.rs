//! Wakes the waiters of unstarted tasks: tasks that an executor accepted and will not start because
//! it has ended.

use std::sync::Arc;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::WatchList;
use tidegate_core::internal::prim::{AtomicBool, Ordering};
use tidegate_promise::internal::notify_unstarted;

use super::handed_back::HandedBack;

/// Whether an executor has ended and left unstarted tasks.
#[derive(Debug)]
pub struct UnstartedTasks {
    left: AtomicBool,
    /// Set when the tasks were taken from the report: they may start elsewhere.
    taken: Arc<AtomicBool>,
    watch_list: Arc<WatchList>,
}

impl UnstartedTasks {
    /// Creates the state of an executor that hands its tasks back through `handed_back`.
    pub fn of(handed_back: &HandedBack) -> Self {
        Self {
            left: AtomicBool::new(false),
            taken: handed_back.taken(),
            watch_list: Arc::default(),
        }
    }

    /// Returns what waits for the tasks.
    pub fn watch_list(&self) -> &Arc<WatchList> {
        &self.watch_list
    }

    /// Wakes the waiters of the executor `id`, whose tasks are unstarted by the word of the executor
    /// that it runs on.
    pub fn wake_waiters(&self, id: ExecutorId) {
        notify_unstarted(id, &self.watch_list, false);
    }

    /// Wakes the waiters of all unstarted tasks: these will not start unless they are taken.
    /// Listeners are called when the last report is dropped.
    pub fn leave(&self, id: ExecutorId) {
        self.notify(id, false);
    }

    /// Like [`UnstartedTasks::leave`], for an executor that is stuck. Its unstarted tasks cannot
    /// even be taken, so their listeners are called as well, on this thread.
    pub fn give_up(&self, id: ExecutorId) {
        self.notify(id, true);
    }

    fn notify(&self, id: ExecutorId, give_up: bool) {
        // ORDERING: SeqCst: with the fence and the lock in `notify_unstarted`, a waiter that checked
        // before this swap has left a record or an entry, and is woken.
        if !self.left.swap(true, Ordering::SeqCst) {
            notify_unstarted(id, &self.watch_list, give_up);
        }
    }

    /// Returns `true` if the executor has left unstarted tasks, taken or not.
    pub(crate) fn has_left(&self) -> bool {
        // ORDERING: Acquire pairs with the swap in `notify`.
        self.left.load(Ordering::Acquire)
    }

    /// Returns `true` if the executor has left unstarted tasks and they were not taken.
    pub fn is_left(&self) -> bool {
        self.has_left() && !self.taken.load(Ordering::Relaxed)
    }
}
