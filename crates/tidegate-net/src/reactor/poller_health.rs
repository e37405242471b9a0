//! Tracks the health of a poller: failures, and waits that end for no reason.

use std::io;

use tidegate_core::Clock;
use tidegate_core::internal::Sleeper;
use tidegate_loop::internal::Health;

use crate::metrics::Counters;

/// Failed polls in a row at which the loop gives up and loses its place in the group.
pub(crate) const FAILURES: u32 = 16;
/// Failures in a row after which a fresh poller replaces this one.
pub(crate) const RENEW_AFTER: u32 = 4;
/// Waits in a row that end for no reason, after which the poller counts as spinning.
pub(crate) const SPINS: u32 = 512;

/// The health of a poller.
#[derive(Debug, Default)]
pub(crate) struct PollerHealth {
    failures: u32,
    /// Waits in a row that ended for no reason, and the wake-ups seen so far.
    spins: u32,
    wakes: u64,
    /// The poller is reported as unhealthy.
    unhealthy: bool,
    health: Health,
}

impl PollerHealth {
    pub(crate) fn health(&self) -> Health {
        self.health.clone()
    }

    /// Records that a poll succeeded.
    #[inline]
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }

    /// Records that a poll failed. Returns `true` if it is time for a fresh poller.
    ///
    /// # Panics
    ///
    /// After [`FAILURES`] in a row: the loop gives up, with the last error in the message.
    #[cold]
    pub(crate) fn failed(&mut self, why: &io::Error, counters: &Counters) -> bool {
        self.failures += 1;
        counters.poll_failures.add(1);
        self.mark_unhealthy();
        assert!(
            self.failures < FAILURES,
            "the poller failed {FAILURES} times in a row, the last time with: {why}"
        );
        self.failures.is_multiple_of(RENEW_AFTER)
    }

    /// Records that a wait has ended, with or without an event (`ready`). Checks whether there was
    /// a reason: an event, a wake-up, or the deadline. Returns `true` if it is time for a fresh
    /// poller.
    #[inline]
    pub(crate) fn waited(
        &mut self,
        ready: bool,
        waker: &dyn Sleeper,
        clock: &Clock,
        deadline: Option<u64>,
    ) -> bool {
        if self.unhealthy && self.failures == 0 {
            self.unhealthy = false;
            self.health.recover(clock);
        }
        let wakes = waker.wakes();
        let reason = ready || wakes != self.wakes || self.failures > 0;
        if reason || deadline.is_some_and(|at| clock.nanos() >= at) {
            self.wakes = wakes;
            self.spins = 0;
            return false;
        }
        self.spins += 1;
        if self.spins < SPINS {
            return false;
        }
        self.spins = 0;
        self.mark_unhealthy();
        true
    }

    fn mark_unhealthy(&mut self) {
        self.unhealthy = true;
        self.health.mark_failing();
    }
}
