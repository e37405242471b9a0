//! At most one event per second for each key.

use std::sync::atomic::{AtomicU64, Ordering};

/// The least time between two events of one limit, in nanoseconds.
const SPACING: u64 = 1_000_000_000;

/// Passes one event per second and counts the others. Each key has one of its own.
///
/// Events of one key that come from several threads at once
/// compete for one word, so exactly one of them passes.
#[derive(Debug, Default)]
pub struct EventLimit {
    /// The time in nanoseconds from which the next event may pass.
    next: AtomicU64,
    left_out: AtomicU64,
}

impl EventLimit {
    /// Creates a limit whose first event passes.
    pub const fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Returns the number of events left out since the last one that passed, if an event may pass
    /// at the time `now` in nanoseconds. Returns `None`, and counts the event, if it may not.
    pub fn pass(&self, now: u64) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(SPACING);
        let passes = now >= next
            && self
                .next
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if passes {
            Some(self.left_out.swap(0, Ordering::Relaxed))
        } else {
            self.leave_out();
            None
        }
    }

    /// Counts an event that is left out.
    pub fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! One event per second, and no event is neither shown nor counted.

    use super::*;

    #[test]
    fn one_event_passes_in_a_second_and_the_next_one_has_the_count() {
        let limit = EventLimit::new();
        let start = 7;
        assert_eq!(limit.pass(start), Some(0), "the first");
        assert_eq!(limit.pass(start), None);
        assert_eq!(limit.pass(start + SPACING - 1), None, "still in the second");
        assert_eq!(limit.pass(start + SPACING), Some(2));
        assert_eq!(limit.pass(start + SPACING), None);
        limit.leave_out();
        assert_eq!(limit.pass(start + 4 * SPACING), Some(2), "counted once");
        assert_eq!(limit.pass(start), None, "a clock that lags behind");
    }

    #[test]
    fn threads_that_compete_show_or_count_each_event_once() {
        let limit = EventLimit::new();
        let seconds = 5;
        let (threads, each) = (4, 100);
        let mut shown = 0;
        let mut counted = 0;
        for second in 0..seconds {
            let now = SPACING * second;
            std::thread::scope(|scope| {
                let pass = || {
                    let passed: Vec<u64> = (0..each).filter_map(|_| limit.pass(now)).collect();
                    (passed.len() as u64, passed.iter().sum::<u64>())
                };
                let running: Vec<_> = (0..threads).map(|_| scope.spawn(pass)).collect();
                for thread in running {
                    let (passed, left_out) = thread.join().expect("no panic");
                    shown += passed;
                    counted += left_out;
                }
            });
        }
        assert_eq!(shown, seconds, "one per second");
        let last = limit.pass(SPACING * seconds);
        counted += last.expect("a new second");
        assert_eq!(shown + counted, seconds * threads * each);
    }
}
