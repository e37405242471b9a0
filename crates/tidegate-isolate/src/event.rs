//! The events of a call, with the names that Hystrix gives them, and the set of events of one call.

use std::fmt;

/// An event of a call.
///
/// ```
/// use tidegate_isolate::Event;
///
/// assert_eq!(Event::ShortCircuited.name(), "SHORT_CIRCUITED");
/// assert!(Event::Success.is_terminal() && !Event::Failure.is_terminal());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Event {
    /// The work returned a value.
    Success,
    /// The work failed or panicked.
    Failure,
    /// The timeout expired before the work ended.
    Timeout,
    /// The work reported that the caller's request is invalid.
    BadRequest,
    /// The breaker was open.
    ShortCircuited,
    /// The thread bulkhead was full.
    PoolRejected,
    /// All permits were held.
    PermitsRejected,
    /// The rate limit was reached.
    RateLimited,
    /// The fallback returned a value.
    FallbackSuccess,
    /// The fallback failed, panicked or timed out.
    FallbackFailure,
    /// All permits of the fallback were held, or it would have blocked a thread that must not wait.
    FallbackRejection,
    /// Fallbacks are switched off.
    FallbackDisabled,
    /// The command has no fallback.
    FallbackMissing,
    /// An error reached the caller.
    ExceptionThrown,
    /// The result came from the request cache.
    ResponseFromCache,
    /// The caller cancelled or dropped the call before it had a result.
    Cancelled,
    /// The call was answered by a batch of a collapser.
    Collapsed,
    /// The timeout expired while the call still waited in a queue.
    ExpiredInQueue,
    /// The work was tried again.
    Retried,
    /// A second attempt was started beside a slow first one.
    Hedged,
    /// The thread bulkhead rejected the call at the adjustable bound of its queue, not at the
    /// queue's capacity. Always recorded together with `PoolRejected`.
    ThresholdReached,
}

impl Event {
    /// The number of kinds.
    pub const COUNT: usize = 21;

    /// All kinds, in the order of their declaration.
    pub const ALL: [Event; Self::COUNT] = [
        Self::Success,
        Self::Failure,
        Self::Timeout,
        Self::BadRequest,
        Self::ShortCircuited,
        Self::PoolRejected,
        Self::PermitsRejected,
        Self::RateLimited,
        Self::FallbackSuccess,
        Self::FallbackFailure,
        Self::FallbackRejection,
        Self::FallbackDisabled,
        Self::FallbackMissing,
        Self::ExceptionThrown,
        Self::ResponseFromCache,
        Self::Cancelled,
        Self::Collapsed,
        Self::ExpiredInQueue,
        Self::Retried,
        Self::Hedged,
        Self::ThresholdReached,
    ];

    /// Returns the name that Hystrix gives this event. `RATE_LIMITED` and the last four kinds do
    /// not exist in Hystrix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Failure => "FAILURE",
            Self::Timeout => "TIMEOUT",
            Self::BadRequest => "BAD_REQUEST",
            Self::ShortCircuited => "SHORT_CIRCUITED",
            Self::PoolRejected => "THREAD_POOL_REJECTED",
            Self::PermitsRejected => "SEMAPHORE_REJECTED",
            Self::RateLimited => "RATE_LIMITED",
            Self::FallbackSuccess => "FALLBACK_SUCCESS",
            Self::FallbackFailure => "FALLBACK_FAILURE",
            Self::FallbackRejection => "FALLBACK_REJECTION",
            Self::FallbackDisabled => "FALLBACK_DISABLED",
            Self::FallbackMissing => "FALLBACK_MISSING",
            Self::ExceptionThrown => "EXCEPTION_THROWN",
            Self::ResponseFromCache => "RESPONSE_FROM_CACHE",
            Self::Cancelled => "CANCELLED",
            Self::Collapsed => "COLLAPSED",
            Self::ExpiredInQueue => "EXPIRED_IN_QUEUE",
            Self::Retried => "RETRIED",
            Self::Hedged => "HEDGED",
            Self::ThresholdReached => "QUEUE_THRESHOLD_REACHED",
        }
    }

    /// Returns `true` if no event other than `ExceptionThrown` can follow this one.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Success
                | Self::BadRequest
                | Self::FallbackSuccess
                | Self::FallbackFailure
                | Self::FallbackRejection
                | Self::FallbackDisabled
                | Self::FallbackMissing
                | Self::ResponseFromCache
                | Self::Cancelled
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The set of events of one call. Iterates in the order in which the kinds are declared, not in the
/// order of time.
///
/// ```
/// use tidegate_isolate::{Event, EventSet};
///
/// let events = EventSet::of(&[Event::FallbackSuccess, Event::Timeout]);
/// assert_eq!(events.to_string(), "[TIMEOUT, FALLBACK_SUCCESS]");
/// assert!(events.contains(Event::Timeout));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventSet {
    bits: u32,
}

impl EventSet {
    /// Creates an empty set.
    pub const fn none() -> Self {
        Self { bits: 0 }
    }

    /// Creates a set of the given events.
    pub fn of(events: &[Event]) -> Self {
        let mut all = Self::none();
        for event in events {
            all.add(*event);
        }
        all
    }

    #[inline]
    pub(crate) const fn of_three(one: Event, two: Event, three: Event) -> Self {
        Self {
            bits: 1 << one as u8 | 1 << two as u8 | 1 << three as u8,
        }
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        self.bits |= 1 << event as u8;
    }

    /// Returns the events of this set that are not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        let bits = self.bits & !other.bits;
        Self { bits }
    }

    /// Returns `true` if the set contains `event`.
    pub fn contains(self, event: Event) -> bool {
        self.bits & (1 << event as u8) != 0
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Returns `true` if the work itself ran, so that its latency is meaningful.
    pub fn executed(self) -> bool {
        [
            Event::Success,
            Event::Failure,
            Event::Timeout,
            Event::BadRequest,
        ]
        .into_iter()
        .any(|event| self.contains(event))
    }

    /// Returns the events in the order in which the kinds are declared.
    pub fn iter(self) -> impl Iterator<Item = Event> {
        Event::ALL
            .into_iter()
            .filter(move |event| self.contains(*event))
    }
}

impl fmt::Display for EventSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, event) in self.iter().enumerate() {
            let gap = if at == 0 { "" } else { ", " };
            write!(f, "{gap}{event}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    //! The kinds are numbered in the order of `ALL`, and a set iterates in that order.

    use super::*;

    #[test]
    fn all_kinds_are_listed_in_the_order_of_their_numbers() {
        for (at, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, at);
        }
    }

    #[test]
    fn events_are_listed_in_the_order_of_the_kinds() {
        let events = EventSet::of(&[Event::FallbackSuccess, Event::Failure]);
        let names: Vec<_> = events.iter().collect();
        assert_eq!(names, [Event::Failure, Event::FallbackSuccess]);
        assert!(events.executed() && !EventSet::none().executed());
        assert!(EventSet::none().is_empty());
    }
}
