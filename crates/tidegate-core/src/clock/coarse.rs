//! A clock that is late by two ticks at most, and cheaper to read than any other.
//!
//! The system notes the time at each of its ticks, one to ten milliseconds apart, where every
//! process can read it: a few loads, less than half the price of a cycle counter. It serves where
//! a moment is only sorted into something much longer, such as a bucket of a window.
//!
//! # How wrong it can be
//!
//! It is never ahead of its [`Clock`]. It is behind by the time since the last tick, and by what the
//! system leaves over at a tick: it counts whole ones only. That is less than two ticks together
//! ([`CoarseClock::error_bound`]), unless the machine kept the system from ticking: then as long as
//! that lasted comes on top. Readings never go back.
//!
//! On a manual clock and where the system has no such time, every reading is the
//! [`FastClock`]'s, and the bound is zero.

use std::time::Duration;

use super::fast::FastClock;
use super::handle::Clock;
use crate::sys::tick;

/// The cheapest reading of a [`Clock`], late by at most two ticks of the system.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Clock, CoarseClock, ManualClock};
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

/// The ticks of the system.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// What the system's own scale says at the clock's origin, or a little after it.
    origin: u64,
    /// From one to the next, in nanoseconds.
    length: u64,
}

impl CoarseClock {
    /// The coarse reading of `clock`.
    pub fn new(clock: &Clock) -> Self {
        Self {
            fast: FastClock::new(clock),
            ticks: Ticks::of(clock),
        }
    }

    /// The coarse reading of `clock` where it is late by no more than `bound`, and an exact
    /// one where it would be.
    pub fn within(clock: &Clock, bound: Duration) -> Self {
        let mut coarse = Self::new(clock);
        if coarse.error_bound() > bound {
            coarse.ticks = None;
        }
        coarse
    }

    /// The moment of the last tick, in whole ones, in nanoseconds since the clock's origin. Never less than an
    /// earlier reading.
    #[inline]
    pub fn nanos(&self) -> u64 {
        match self.ticks {
            Some(ticks) => tick::coarse().saturating_sub(ticks.origin),
            None => self.fast.nanos(),
        }
    }

    /// How far a reading can be behind the clock; zero where it is the [`FastClock`]'s.
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
        // The clock is asked first: the later the other answers, the later the origin seems, and
        // the more a reading is behind. So none is ahead, and the closest try is the lowest.
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
    //! Never ahead, never back, and behind by two ticks at most.

    use super::*;
    use crate::{ManualClock, as_nanos};

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
        // Over several ticks, however long they are.
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
        // The clock is read first: being held up in between makes the difference smaller. That
        // the whole machine was held up cannot be told, so one good reading has to do.
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
