//! How a loop's driver fares, for whoever chooses among loops.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::prim::{AtomicU64, Ordering};
use tidegate_core::{Clock, as_nanos};

/// How long a loop whose driver has recovered gets no new work while others can take it.
pub const CONVALESCENCE: Duration = Duration::from_secs(1);

/// How a [`Driver`](crate::Driver) fares. Clones are views of the same state.
///
/// A group gives new work to an ailing loop only if no other can take it. A driver says that it is
/// ailing when what it waits on fails, and that it recovers when that works again: the loop then
/// counts as well after [`CONVALESCENCE`].
///
/// ```
/// use tidegate_loop::{CONVALESCENCE, Health};
/// use tidegate_core::{Clock, ManualClock};
///
/// let manual = ManualClock::new();
/// let clock = Clock::from(&manual);
/// let health = Health::new();
/// health.ail();
/// assert!(health.is_ailing(&clock));
/// health.recover(&clock);
/// assert!(health.is_ailing(&clock));
/// manual.advance(CONVALESCENCE);
/// assert!(!health.is_ailing(&clock));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The nanosecond at which it counts as well; 0 if it is, the greatest if that is open.
    well_at: Arc<AtomicU64>,
}

impl Health {
    /// A driver that is well.
    pub fn new() -> Self {
        Self::default()
    }

    /// Something is wrong, for as long as nothing else is said.
    pub fn ail(&self) {
        self.well_at.store(u64::MAX, Ordering::Relaxed);
    }

    /// It works again.
    pub fn recover(&self, clock: &Clock) {
        let at = clock.nanos().saturating_add(as_nanos(CONVALESCENCE));
        self.well_at.store(at, Ordering::Relaxed);
    }

    /// Whether new work should go elsewhere.
    pub fn is_ailing(&self, clock: &Clock) -> bool {
        let at = self.well_at.load(Ordering::Relaxed);
        // No look at the clock for a driver that has always been well.
        at != 0 && clock.nanos() < at
    }
}
