//! The call results that a breaker judges: those of the last N calls, and what is read from a window of
//! time.

use std::collections::VecDeque;

use super::config::BreakerWindow;

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

pub(crate) fn reading([total, errors, slow]: [u64; 3]) -> Reading {
    Reading {
        total,
        errors,
        slow,
    }
}

/// The results of the last calls. Protected by the lock of the breaker, so that a result, the sums and
/// the judgement of one call are never mixed with those of another.
#[derive(Debug)]
pub(super) struct LastCalls {
    most: usize,
    /// For each call, if it failed and if it was slow; the oldest first.
    calls: VecDeque<(bool, bool)>,
    sums: Reading,
}

impl LastCalls {
    /// Creates an empty window. Without a number of calls, the breaker judges a window of time.
    pub(super) fn new(window: BreakerWindow) -> Self {
        let most = match window {
            BreakerWindow::Count(calls) => calls as usize,
            BreakerWindow::Time(_) => 0,
        };
        Self {
            most,
            calls: VecDeque::with_capacity(most),
            sums: Reading::default(),
        }
    }

    /// Adds a call, in place of the oldest one if there are enough. Returns the counts.
    pub(super) fn add(&mut self, error: bool, slow: bool) -> Reading {
        if self.calls.len() == self.most
            && let Some((error, slow)) = self.calls.pop_front()
        {
            self.sums.total -= 1;
            self.sums.errors -= u64::from(error);
            self.sums.slow -= u64::from(slow);
        }
        self.calls.push_back((error, slow));
        self.sums.total += 1;
        self.sums.errors += u64::from(error);
        self.sums.slow += u64::from(slow);
        self.sums
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
        self.sums = Reading::default();
    }

    #[cfg(test)]
    pub(super) fn reading(&self) -> Reading {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    //! The window holds the results of the last calls only.

    use super::*;

    #[test]
    fn only_the_last_calls_count() {
        let mut last = LastCalls::new(BreakerWindow::Count(3));
        for (error, slow) in [(true, true), (true, false), (false, true), (false, false)] {
            last.add(error, slow);
        }
        assert_eq!(last.reading(), reading([3, 1, 1]));
        last.clear();
        assert_eq!(last.add(false, true), reading([1, 0, 1]));
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
