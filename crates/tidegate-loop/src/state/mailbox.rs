//! What other threads leave for a loop, and how they wake it.
//!
//! Tasks come in a bounded lane, signals in one without a bound. Both are pushed first; then the
//! doorbell says whether the loop sleeps and has to be woken.

use std::sync::Arc;

use tidegate_core::prim::{AtomicU32, Ordering};
use tidegate_core::{Doorbell, SignalLane, Sleeper, TaskLane};

/// Signals pushed without waking a loop that wake it after all.
pub(crate) const SILENT: u32 = 1024;

/// The lanes of one loop and its doorbell.
pub(crate) struct Mailbox {
    pub(crate) lane: Arc<TaskLane>,
    pub(crate) signals: SignalLane,
    pub(crate) bell: Doorbell,
    /// Signals pushed without waking the loop since it last took them.
    silent: AtomicU32,
    /// Wakes the driver; called when the doorbell says that it sleeps.
    pub(crate) waker: Arc<dyn Sleeper>,
}

impl Mailbox {
    pub(crate) fn new(lane: Arc<TaskLane>, waker: Arc<dyn Sleeper>) -> Self {
        Self {
            lane,
            signals: SignalLane::new(),
            bell: Doorbell::new(),
            silent: AtomicU32::new(0),
            waker,
        }
    }

    /// Returns `true` if neither a task nor a signal waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lane.is_empty() && self.signals.is_empty()
    }

    /// Counts a signal that was pushed without waking the loop; returns how many there are.
    pub(crate) fn count_silent(&self) -> u32 {
        // Relaxed: a rough count. The loop sets it back whenever it looks.
        self.silent.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sets that count back.
    pub(crate) fn reset_silent(&self) {
        self.silent.store(0, Ordering::Relaxed);
    }

    /// The same for the loop's own turns.
    #[inline]
    pub(crate) fn reset_silent_if_any(&self) {
        // Looked at first: it lies on a line that producers read, and is hardly ever set.
        if self.silent.load(Ordering::Relaxed) != 0 {
            self.reset_silent();
        }
    }
}
