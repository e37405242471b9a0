//! The queues through which other threads send work to an event loop, and its doorbell.
//!
//! Tasks arrive in a lane (a queue from many producers to one consumer) with a bound, signals in a
//! lane without a bound. A producer first pushes, then rings the doorbell. The doorbell tells the
//! producer whether the event loop sleeps and has to be woken.

use std::sync::Arc;

use tidegate_core::internal::prim::{AtomicU32, Ordering};
use tidegate_core::internal::{Doorbell, SignalLane, Sleeper, TaskLane};

/// The number of signals pushed without a wake-up at which the event loop is woken after all.
pub(crate) const SILENT: u32 = 1024;

/// The lanes and the doorbell of one event loop.
pub(crate) struct Mailbox {
    pub(crate) lane: Arc<TaskLane>,
    pub(crate) signals: SignalLane,
    pub(crate) bell: Doorbell,
    /// The number of signals pushed without waking the event loop since it last took them.
    silent: AtomicU32,
    /// Wakes the driver; called if the doorbell says that the event loop sleeps.
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

    /// Returns `true` if neither a task nor a signal is waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.lane.is_empty() && self.signals.is_empty()
    }

    /// Counts a signal that was pushed without waking the event loop. Returns the new count.
    pub(crate) fn count_silent(&self) -> u32 {
        // Relaxed: an approximate count. The event loop resets it each time it takes the signals.
        self.silent.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Resets the count of silent signals.
    pub(crate) fn reset_silent(&self) {
        self.silent.store(0, Ordering::Relaxed);
    }

    /// Resets the count of silent signals if it is not zero; called in every turn.
    #[inline]
    pub(crate) fn reset_silent_if_any(&self) {
        // Reads before it writes: the counter shares a cache line with fields that producers read,
        // and it is almost always zero.
        if self.silent.load(Ordering::Relaxed) != 0 {
            self.reset_silent();
        }
    }
}
