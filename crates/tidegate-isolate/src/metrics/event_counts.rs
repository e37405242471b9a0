//! How often each event happened, with the cells in which it is counted.

use crate::event::{Event, Events};

/// How often each event happened.
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
    /// Errors that reach a caller are not counted apart: they follow from the other counts, but
    /// for those that had no such end.
    pub(crate) fn new(cells: [u64; CELLS]) -> Self {
        let mut counts: [u64; Event::COUNT] = std::array::from_fn(|at| cells[at]);
        for plain in Plain::ALL {
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

    /// Every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> {
        Event::ALL.into_iter().zip(self.counts)
    }

    /// Calls that count for the health of the dependency: successes, failures, timeouts and
    /// rejections by a bulkhead.
    pub fn health_total(&self) -> u64 {
        self[Event::Success] + self.health_errors()
    }

    /// Of these, the ones that did not succeed.
    pub fn health_errors(&self) -> u64 {
        self[Event::Failure]
            + self[Event::Timeout]
            + self[Event::PoolRejected]
            + self[Event::PermitsRejected]
    }

    /// Errors in percent of the total, truncated; 0 when nothing was counted.
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

/// A refusal by a command without a fallback: what says so and what says that there is no
/// fallback are one count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Permits,
    Pool,
    Open,
}

impl Plain {
    const ALL: [Plain; 3] = [Self::Permits, Self::Pool, Self::Open];

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

    /// What such a call is told to have gone through.
    #[inline]
    pub(crate) const fn events(self) -> Events {
        Events::of_three(self.event(), Event::FallbackMissing, Event::ExceptionThrown)
    }
}

/// One for each event, and the plain refusals.
pub(super) const CELLS: usize = Event::COUNT + Plain::ALL.len();
