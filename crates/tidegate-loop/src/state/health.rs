//! The health of an event loop's driver. A group reads it when it chooses a loop for new work.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Clock;
use tidegate_core::internal::as_nanos;
use tidegate_core::internal::prim::{AtomicU64, Ordering};

/// The health of a [`Driver`](crate::internal::Driver). Clones share one state.
///
/// A group gives new work to an unhealthy event loop only if no other can take it. A driver calls
/// [`Health::mark_failing`] when the resource it waits on fails, and [`Health::recover`] when it
/// works again. The event loop counts as healthy [`Health::RECOVERY_PERIOD`] after the recovery.
///
/// ```
/// use tidegate_loop::internal::Health;
/// use tidegate_core::{Clock, ManualClock};
///
/// let manual = ManualClock::new();
/// let clock = Clock::from(&manual);
/// let health = Health::new();
/// health.mark_failing();
/// assert!(health.is_unhealthy(&clock));
/// health.recover(&clock);
/// assert!(health.is_unhealthy(&clock));
/// manual.advance(Health::RECOVERY_PERIOD);
/// assert!(!health.is_unhealthy(&clock));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The nanosecond from which the driver counts as healthy. 0 if it never failed, `u64::MAX` if
    /// it has not recovered.
    healthy_at: Arc<AtomicU64>,
}

impl Health {
    /// How long after its driver has recovered an event loop gets no new work if others can take
    /// it.
    pub const RECOVERY_PERIOD: Duration = Duration::from_secs(1);

    /// Creates the state of a healthy driver.
    pub fn new() -> Self {
        Self::default()
    }

    /// Marks the driver as failing until [`Health::recover`] is called.
    pub fn mark_failing(&self) {
        self.healthy_at.store(u64::MAX, Ordering::Relaxed);
    }

    /// Marks the driver as recovered.
    pub fn recover(&self, clock: &Clock) {
        let at = clock
            .nanos()
            .saturating_add(as_nanos(Self::RECOVERY_PERIOD));
        self.healthy_at.store(at, Ordering::Relaxed);
    }

    /// Returns `true` if new work should go to another event loop.
    pub fn is_unhealthy(&self, clock: &Clock) -> bool {
        let at = self.healthy_at.load(Ordering::Relaxed);
        // Does not read the clock for a driver that never failed.
        at != 0 && clock.nanos() < at
    }
}
