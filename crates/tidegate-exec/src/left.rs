//! What an executor has left: tasks that it accepted, has not begun and will not begin.

use std::sync::Arc;

use tidegate_sync::prim::{AtomicBool, Mutex, Ordering};
use tidegate_sync::{ExecutorId, Parker, wake_sleepers};

use crate::lifecycle::HandedBack;
use crate::shared::lock;

/// Whether an executor has left tasks, and the threads that wait for some.
pub(crate) struct Left {
    left: AtomicBool,
    /// Somebody has taken what was handed back: it may begin elsewhere.
    taken: Arc<AtomicBool>,
    /// Threads that wait in their parkers for what the executor owes.
    watching: Mutex<Vec<Parker>>,
}

impl Left {
    /// Of an executor that hands back there.
    pub(crate) fn of(handed_back: &HandedBack) -> Self {
        Self {
            left: AtomicBool::new(false),
            taken: handed_back.taken(),
            watching: Mutex::default(),
        }
    }

    /// Says that what has not begun never will, unless somebody takes it, to whoever waits for it.
    pub(crate) fn leave(&self, id: ExecutorId) {
        // ORDERING: SeqCst: with the lock below and the fence in `wake_sleepers`, whoever looked
        // before this has left a parker or a record, and is woken.
        if self.left.swap(true, Ordering::SeqCst) {
            return;
        }
        for parker in &*lock(&self.watching) {
            parker.unpark();
        }
        wake_sleepers(id);
    }

    pub(crate) fn is_left(&self) -> bool {
        // ORDERING: Acquire pairs with the swap in `leave`.
        self.left.load(Ordering::Acquire) && !self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn watch(&self, parker: &Parker) {
        lock(&self.watching).push(parker.clone());
    }

    pub(crate) fn forget(&self, parker: &Parker) {
        let mut watching = lock(&self.watching);
        if let Some(at) = watching.iter().position(|one| one.is_same(parker)) {
            watching.swap_remove(at);
        }
    }
}
