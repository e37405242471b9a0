//! What an executor has left: tasks that it accepted, has not begun and will not begin.

use std::sync::Arc;

use tidegate_core::ExecutorId;
use tidegate_core::prim::{AtomicBool, Ordering};
use tidegate_promise::block::{tell_left, wake_sleepers};

use super::handed_back::HandedBack;

/// Whether an executor has left tasks.
#[derive(Debug)]
pub struct Left {
    left: AtomicBool,
    /// Somebody has taken what was handed back: it may begin elsewhere.
    taken: Arc<AtomicBool>,
}

impl Left {
    /// Of an executor that hands back there.
    pub fn of(handed_back: &HandedBack) -> Self {
        Self {
            left: AtomicBool::new(false),
            taken: handed_back.taken(),
        }
    }

    /// Says that what has not begun never will, unless somebody takes it, to whoever waits for it.
    /// Listeners hear when the last report goes.
    pub fn leave(&self, id: ExecutorId) {
        self.tell(id, false);
    }

    /// The same of an executor that is stuck: what has not begun cannot even be taken, and
    /// listeners hear so, too, on this thread.
    pub fn give_up(&self, id: ExecutorId) {
        self.tell(id, true);
    }

    fn tell(&self, id: ExecutorId, give_up: bool) {
        // ORDERING: SeqCst: with the fence in `wake_sleepers` and the locks in `tell_left`, whoever
        // looked before this has left a record or an entry, and is woken.
        if !self.left.swap(true, Ordering::SeqCst) {
            wake_sleepers(id);
            tell_left(id, give_up);
        }
    }

    /// Whether it has, and nobody has taken them.
    pub fn is_left(&self) -> bool {
        // ORDERING: Acquire pairs with the swap in `tell`.
        self.left.load(Ordering::Acquire) && !self.taken.load(Ordering::Relaxed)
    }
}
