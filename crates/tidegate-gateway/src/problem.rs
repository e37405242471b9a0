//! Problems of the gateway, reported through `tracing`: each kind at most once a second, with the
//! number of reports that were left out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tidegate::Clock;

/// The time between two reports of a kind, in nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// Reports problems.
///
/// ```
/// use tidegate::Clock;
/// use tidegate_gateway::problem::Problems;
///
/// let problems = Problems::new(Clock::system());
/// problems.report("disk", "the disk is full");
/// problems.report("disk", "the disk is full"); // counted, and left out
/// ```
#[derive(Debug)]
pub struct Problems {
    clock: Clock,
    kinds: Mutex<BTreeMap<&'static str, Kind>>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    reported: u64,
    left_out: u64,
}

impl Problems {
    /// Creates a reporter without reports.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            kinds: Mutex::default(),
        }
    }

    /// Reports a problem of a kind, unless one of this kind was reported less than a second ago.
    /// The text must not contain a secret.
    pub fn report(&self, kind: &'static str, text: impl AsRef<str>) {
        // The subscriber is not called with the lock held.
        if let Some(left_out) = self.count(kind) {
            tracing::warn!(target: "tidegate", kind, left_out, "{}", text.as_ref());
        }
    }

    /// Counts a report. Returns the number of those that were left out if it is its turn.
    fn count(&self, kind: &'static str) -> Option<u64> {
        let now = self.clock.nanos();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kinds.get_mut(kind);
        let Some(known) = known else {
            let first = Kind {
                reported: now,
                left_out: 0,
            };
            kinds.insert(kind, first);
            return Some(0);
        };
        if now.saturating_sub(known.reported) < PERIOD {
            known.left_out += 1;
            return None;
        }
        known.reported = now;
        Some(std::mem::take(&mut known.left_out))
    }
}

#[cfg(test)]
mod tests {
    //! Reports on a manual clock.

    use std::time::Duration;

    use tidegate::ManualClock;

    use super::Problems;

    #[test]
    fn a_kind_is_reported_once_a_second_with_the_number_left_out() {
        let clock = ManualClock::new();
        let problems = Problems::new(clock.clone().into());
        assert_eq!(problems.count("disk"), Some(0));
        assert_eq!(problems.count("disk"), None);
        assert_eq!(problems.count("peer"), Some(0));
        clock.advance(Duration::from_millis(999));
        assert_eq!(problems.count("disk"), None);
        clock.advance(Duration::from_millis(1));
        assert_eq!(problems.count("disk"), Some(2));
        assert_eq!(problems.count("disk"), None);
    }
}
