//! The number of occurrences of each event, and the cells that count them.

use crate::event::{Event, EventSet};

/// The number of occurrences of each event.
///
/// ```
/// use tidegate_isolate::{Event, EventCounts};
///
/// assert_eq!(EventCounts::default()[Event::Success], 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    counts: [u64; Event::COUNT],
}

impl EventCounts {
    /// Creates the counts from the cells. `ExceptionThrown` is derived from the counts of the
    /// events that end in an error; its own cell counts only the errors without such an event.
    pub(crate) fn new(cells: [u64; CELLS]) -> Self {
        let mut counts: [u64; Event::COUNT] = std::array::from_fn(|at| cells[at]);
        for plain in PlainRejection::ALL {
            let count = cells[plain.cell()];
            counts[plain.event() as usize] += count;
            counts[Event::FallbackMissing as usize] += count;
        }
        let thrown = [
            Event::BadRequest,
            Event::FallbackFailure,
            Event::FallbackRejection,
            Event::FallbackDisabled,
            Event::FallbackMissing,
        ];
        let thrown: u64 = thrown.iter().map(|event| counts[*event as usize]).sum();
        counts[Event::ExceptionThrown as usize] += thrown;
        Self { counts }
    }

    /// Returns every event with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> {
        Event::ALL.into_iter().zip(self.counts)
    }

    /// Returns the number of calls that count for the health of the dependency: successes,
    /// failures, timeouts and rejections by a bulkhead.
    pub fn health_total(&self) -> u64 {
        self[Event::Success] + self.health_errors()
    }

    /// Returns how many calls of `health_total` did not succeed.
    pub fn health_errors(&self) -> u64 {
        self[Event::Failure]
            + self[Event::Timeout]
            + self[Event::PoolRejected]
            + self[Event::PermitsRejected]
    }

    /// Returns the errors as a percentage of the total, truncated; 0 if nothing was counted.
    pub fn error_percent(&self) -> u64 {
        (self.health_errors() * 100)
            .checked_div(self.health_total())
            .unwrap_or(0)
    }
}

impl std::ops::Index<Event> for EventCounts {
    type Output = u64;

    fn index(&self, event: Event) -> &u64 {
        &self.counts[event as usize]
    }
}

/// A rejection by a command without a fallback. One cell counts both the rejection and the missing
/// fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainRejection {
    Permits,
    Pool,
    Open,
}

impl PlainRejection {
    const ALL: [PlainRejection; 3] = [Self::Permits, Self::Pool, Self::Open];

    #[inline]
    pub(super) const fn cell(self) -> usize {
        Event::COUNT + self as usize
    }

    #[inline]
    const fn event(self) -> Event {
        match self {
            Self::Permits => Event::PermitsRejected,
            Self::Pool => Event::PoolRejected,
            Self::Open => Event::ShortCircuited,
        }
    }

    /// Returns the events of such a call.
    #[inline]
    pub(crate) const fn events(self) -> EventSet {
        EventSet::of_three(self.event(), Event::FallbackMissing, Event::ExceptionThrown)
    }
}

/// One cell for each event and one for each plain rejection.
pub(super) const CELLS: usize = Event::COUNT + PlainRejection::ALL.len();
