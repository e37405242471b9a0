//! What a clock needs to know of a thread that sleeps.

use crate::Parker;

/// Something that sleeps and can be woken: what a clock needs to know of it.
pub trait Sleeper: Send + Sync + 'static {
    /// Wakes it, or makes its next sleep end at once.
    fn wake(&self);

    /// Calls of `wake` so far, from whomever.
    fn wakes(&self) -> u64;

    /// Whether a wakeup is pending.
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
