//! The interface by which a clock wakes a sleeping thread.

use crate::Parker;

/// A sleeping thread, as a clock sees it: something that can be woken.
pub trait Sleeper: Send + Sync + 'static {
    /// Wakes the sleeper, or makes its next sleep end at once.
    fn wake(&self);

    /// Returns the number of calls of `wake` so far, from all callers.
    fn wakes(&self) -> u64;

    /// Returns `true` if a wakeup is pending.
    fn is_notified(&self) -> bool;
}

impl Sleeper for Parker {
    fn wake(&self) {
        self.unpark();
    }

    fn wakes(&self) -> u64 {
        Parker::wakes(self)
    }

    fn is_notified(&self) -> bool {
        Parker::is_notified(self)
    }
}
