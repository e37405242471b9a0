//! A clock that is late by at most two ticks, and cheaper to read than any other.
//!
//! At each of its ticks, one to ten milliseconds apart, the system stores the time where every
//! process can read it. A reading is a few loads and costs less than half of a read of the cycle
//! counter. Use it where times are only sorted into much longer spans, such as the buckets of a
//! window.
//!
//! # Accuracy
//!
//! The coarse clock is never ahead of its [`Clock`]. It is behind by the time since the last tick,
//! plus a remainder, because the system counts only whole ticks. Both together are less than two
//! ticks ([`CoarseClock::error_bound`]), unless the machine delayed the system's ticks; that delay
//! comes on top. Readings never go back.
//!
//! On a manual clock, and where the system has no such time, every reading is that of the
//! [`FastClock`], and the bound is zero.

use std::time::Duration;

use super::fast::FastClock;
use super::handle::Clock;
use crate::sys::tick;

/// The cheapest reading of a [`Clock`], late by at most two ticks of the system.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Clock, ManualClock};
/// use tidegate_core::internal::CoarseClock;
///
/// let manual = ManualClock::new();
/// let coarse = CoarseClock::new(&Clock::from(&manual));
/// manual.advance(Duration::from_millis(5));
/// assert_eq!(coarse.nanos(), 5_000_000); // a manual clock is exact
/// assert_eq!(coarse.error_bound(), Duration::ZERO);
///
/// let clock = Clock::system();
/// let coarse = CoarseClock::new(&clock);
/// assert!(coarse.nanos() <= clock.nanos());
/// ```
#[derive(Clone, Debug)]
pub struct CoarseClock {
    fast: FastClock,
    ticks: Option<Ticks>,
}

/// The system's ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// The system's own monotonic time at the clock's origin, or a little after it.
    origin: u64,
    /// The time from one tick to the next, in nanoseconds.
    length: u64,
}

impl CoarseClock {
    /// Creates the coarse reading of `clock`.
    pub fn new(clock: &Clock) -> Self {
        Self {
            fast: FastClock::new(clock),
            ticks: Ticks::of(clock),
        }
    }

    /// Creates the coarse reading of `clock` if it is late by at most `bound`, and an exact reading
    /// otherwise.
    pub fn within(clock: &Clock, bound: Duration) -> Self {
        let mut coarse = Self::new(clock);
        if coarse.error_bound() > bound {
            coarse.ticks = None;
        }
        coarse
    }

    /// Returns the time of the last tick, rounded down to whole ticks, in nanoseconds since the
    /// clock's origin. Never less than an earlier reading.
    #[inline]
    pub fn nanos(&self) -> u64 {
        match self.ticks {
            Some(ticks) => tick::coarse().saturating_sub(ticks.origin),
            None => self.fast.nanos(),
        }
    }

    /// Returns how far a reading can be behind the clock; zero where it is that of the
    /// [`FastClock`].
    pub fn error_bound(&self) -> Duration {
        Duration::from_nanos(self.ticks.map_or(0, |ticks| 2 * ticks.length))
    }
}

impl Ticks {
    fn of(clock: &Clock) -> Option<Self> {
        if clock.is_manual() {
            return None;
        }
        let length = tick::length()?;
        // The clock is read first: a delay before the second read makes the origin seem later, and
        // the readings further behind. So no reading is ahead, and the lowest of the tries is the
        // closest.
        let tries = (0..3).map(|_| {
            let nanos = clock.nanos();
            tick::fine().saturating_sub(nanos)
        });
        let origin = tries.min()?;
        Some(Self { origin, length })
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Readings are never ahead, never go back, and are at most two ticks behind.

    use super::*;
    use crate::ManualClock;
    use crate::clock::as_nanos;

    #[test]
    fn a_manual_clock_is_read_as_it_is() {
        let manual = ManualClock::new();
        let coarse = CoarseClock::new(&Clock::from(&manual));
        manual.advance(Duration::from_nanos(7));
        assert_eq!((coarse.nanos(), coarse.error_bound()), (7, Duration::ZERO));
    }

    #[test]
    fn readings_are_never_ahead_and_never_go_back() {
        let clock = Clock::system();
        let coarse = CoarseClock::new(&clock);
        // Runs over several ticks, however long they are.
        let end = clock.nanos() + 5 * as_nanos(coarse.error_bound()).max(1_000_000);
        let mut last = 0;
        while clock.nanos() < end {
            let now = coarse.nanos();
            assert!(now >= last, "{now} after {last}");
            if coarse.ticks.is_some() {
                assert!(now <= clock.nanos(), "{now} has not come yet");
            }
            last = now;
        }
    }

    #[test]
    fn a_reading_is_behind_by_two_ticks_at_most() {
        let clock = Clock::system();
        let coarse = CoarseClock::new(&clock);
        // The clock is read first: a delay in between makes the difference smaller. A delay of the
        // whole machine cannot be detected, so one good reading suffices.
        let slack = 100_000;
        let bound = as_nanos(coarse.error_bound()) + slack;
        let near = (0..1_000).any(|_| {
            let now = clock.nanos();
            now <= coarse.nanos() + bound
        });
        assert!(near, "never within {bound} ns of the clock");
    }

    #[test]
    fn a_bound_that_ticks_cannot_keep_gives_exact_readings() {
        let clock = Clock::system();
        let exact = CoarseClock::within(&clock, Duration::from_nanos(1));
        assert_eq!(exact.error_bound(), Duration::ZERO);
        assert!(exact.ticks.is_none());
        let hour = Duration::from_secs(3600);
        let coarse = CoarseClock::within(&clock, hour);
        assert_eq!(coarse.ticks.is_some(), tick::length().is_some());
    }
}
