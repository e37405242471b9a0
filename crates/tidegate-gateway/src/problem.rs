//! Problems of the gateway, reported through `tracing`: each kind at most once a second, with the
//! number of reports that were left out.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tidegate::Clock;
use tidegate_core::internal::lock;
use tracing::Level;

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

/// Returns why an address cannot be used, and what to do about it where that is known.
pub(crate) fn advised(why: &impl ToString) -> String {
    let why = why.to_string();
    // The message around it says that, too.
    let inner = why.strip_prefix("cannot listen on ");
    let inner = inner.and_then(|inner| inner.split_once(": "));
    let why = inner.map_or(why.clone(), |(_, inner)| inner.to_owned());
    match why.contains("already in use") {
        true => format!("{why}; end the program that listens there, or set another address"),
        false => why,
    }
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
            let text = text.as_ref();
            tracing::event!(name: "problem", target: "tidegate", Level::WARN, kind, left_out, "{text}");
        }
    }

    /// Counts a report. Returns the number of those that were left out if it is its turn.
    fn count(&self, kind: &'static str) -> Option<u64> {
        let now = self.clock.nanos();
        let mut kinds = lock(&self.kinds);
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
    use tidegate_testkit::Recorder;

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

    #[test]
    fn the_advice_does_not_repeat_what_was_tried() {
        let why = "cannot listen on [::1]:80: Address already in use (os error 98)";
        let advised = super::advised(&why);
        assert!(advised.starts_with("Address already in use"), "{advised}");
        assert!(advised.ends_with("or set another address"), "{advised}");
        assert_eq!(super::advised(&"it is closed: gone"), "it is closed: gone");
    }

    #[test]
    fn a_report_is_an_event_of_tracing() {
        let clock = ManualClock::new();
        let problems = Problems::new(clock.clone().into());
        let recorder = Recorder::new();
        tracing::subscriber::with_default(recorder.clone(), || {
            for _ in 0..3 {
                problems.report("disk", "the disk is full");
            }
            clock.advance(Duration::from_secs(1));
            problems.report("disk", "the disk is full");
        });
        let events = recorder.events("problem");
        let left_out: Vec<_> = events.iter().map(|event| event.field("left_out")).collect();
        assert_eq!(left_out, [Some("0"), Some("2")]);
        assert_eq!(events[0].field("message"), Some("the disk is full"));
        assert_eq!(events[0].field("kind"), Some("disk"));
    }
}
