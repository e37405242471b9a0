//! The call results that a breaker judges: those of the last seconds, or the last N calls.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::config::BreakerWindow;
use crate::metrics::Counts;

/// The numbers of calls, failed calls and slow calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) total: u64,
    pub(crate) errors: u64,
    pub(crate) slow: u64,
}

impl Reading {
    /// Returns `part` as a percentage of the calls, truncated; 0 if there were no calls.
    fn percent(self, part: u64) -> u64 {
        (part * 100).checked_div(self.total).unwrap_or(0)
    }

    /// Returns `true` if there are enough calls and a rate reaches its threshold.
    pub(crate) fn is_bad(self, min_calls: u64, error_percent: u64, slow_percent: u64) -> bool {
        self.total >= min_calls
            && (self.percent(self.errors) >= error_percent
                || (self.slow > 0 && self.percent(self.slow) >= slow_percent))
    }
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and a pointer to it would cost every call"
)]
pub(crate) enum Health {
    Time(Counts<3>),
    Count(Ring),
}

impl Health {
    pub(crate) fn new(window: BreakerWindow) -> Self {
        match window {
            BreakerWindow::Time(window) => Self::Time(Counts::new(window)),
            BreakerWindow::Count(calls) => Self::Count(Ring::new(calls)),
        }
    }

    #[inline]
    pub(crate) fn add(&self, now: u64, error: bool, slow: bool) {
        match self {
            Self::Time(counts) => {
                counts.add(now, 0);
                if error {
                    counts.add(now, 1);
                }
                if slow {
                    counts.add(now, 2);
                }
            }
            Self::Count(ring) => ring.add(error, slow),
        }
    }

    pub(crate) fn restart(&self, now: u64) {
        match self {
            Self::Time(counts) => counts.restart(now),
            Self::Count(ring) => ring.clear(),
        }
    }

    /// Returns the counts of the window, including the open bucket.
    pub(crate) fn reading(&self, now: u64) -> Reading {
        match self {
            Self::Time(counts) => reading(counts.rolling(now)),
            Self::Count(ring) => ring.reading(),
        }
    }
}

pub(crate) fn reading([total, errors, slow]: [u64; 3]) -> Reading {
    Reading {
        total,
        errors,
        slow,
    }
}

const USED: u8 = 1;
const ERROR: u8 = 2;
const SLOW: u8 = 4;

/// The results of the last N calls. A thread that changes a slot also adds the difference to the
/// sums, so the sums match the slots once no change is in progress.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[AtomicU8]>,
    next: AtomicUsize,
    sums: [AtomicU64; 3],
}

impl Ring {
    fn new(calls: u32) -> Self {
        Self {
            slots: (0..calls.max(1)).map(|_| AtomicU8::new(0)).collect(),
            next: AtomicUsize::new(0),
            sums: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn add(&self, error: bool, slow: bool) {
        let new = USED | if error { ERROR } else { 0 } | if slow { SLOW } else { 0 };
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        self.replace(at, new);
    }

    fn clear(&self) {
        for at in 0..self.slots.len() {
            self.replace(at, 0);
        }
    }

    fn reading(&self) -> Reading {
        let sum = |at: usize| self.sums[at].load(Ordering::Relaxed);
        // A sum may lag behind its slots for a moment, and may even wrap below zero, so it is
        // bounded.
        let total = sum(0).min(self.slots.len() as u64);
        Reading {
            total,
            errors: sum(1).min(total),
            slow: sum(2).min(total),
        }
    }

    fn replace(&self, at: usize, new: u8) {
        let old = self.slots[at].swap(new, Ordering::Relaxed);
        for (sum, bit) in self.sums.iter().zip([USED, ERROR, SLOW]) {
            match (old & bit != 0, new & bit != 0) {
                (false, true) => sum.fetch_add(1, Ordering::Relaxed),
                (true, false) => sum.fetch_sub(1, Ordering::Relaxed),
                _ => 0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    //! The ring holds the results of the last calls only.

    use super::*;

    #[test]
    fn only_the_last_calls_count() {
        let ring = Ring::new(3);
        for error in [true, true, false, false] {
            ring.add(error, false);
        }
        let reading = ring.reading();
        assert_eq!((reading.total, reading.errors), (3, 1));
        ring.clear();
        assert_eq!(ring.reading(), Reading::default());
    }

    #[test]
    fn the_rates_are_truncated_and_wait_for_enough_calls() {
        let reading = |total, errors, slow| Reading {
            total,
            errors,
            slow,
        };
        assert!(reading(20, 10, 0).is_bad(20, 50, 100));
        assert!(!reading(19, 19, 0).is_bad(20, 50, 100));
        assert!(!reading(1000, 499, 0).is_bad(20, 50, 100), "49.9 is 49");
        assert!(reading(20, 0, 10).is_bad(20, 50, 50));
        assert!(!reading(0, 0, 0).is_bad(0, 50, 50));
    }
}
