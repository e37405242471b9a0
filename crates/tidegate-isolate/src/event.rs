//! What can happen to a call, as Hystrix names it, and the list of what did.

use std::fmt;

/// One thing that happened in a call.
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
    /// The work answered.
    Success,
    /// The work failed or panicked.
    Failure,
    /// The time was over first.
    Timeout,
    /// The work said that the caller is wrong.
    BadRequest,
    /// The breaker was open.
    ShortCircuited,
    /// The thread bulkhead was full.
    PoolRejected,
    /// All permits were held.
    PermitsRejected,
    /// The rate limit was reached.
    RateLimited,
    /// The fallback answered.
    FallbackSuccess,
    /// The fallback failed or panicked.
    FallbackFailure,
    /// All permits of the fallback were held.
    FallbackRejection,
    /// Fallbacks are switched off.
    FallbackDisabled,
    /// There is no fallback.
    FallbackMissing,
    /// An error reached the caller.
    ExceptionThrown,
    /// The answer came from the request cache.
    ResponseFromCache,
    /// The caller left before there was an outcome.
    Cancelled,
    /// The call was answered by a batch.
    Collapsed,
    /// The time was over while the call still waited in a queue.
    ExpiredInQueue,
    /// The work was tried again.
    Retried,
    /// A second attempt was started beside a slow first one.
    Hedged,
    /// The thread bulkhead refused at the live bound of its queue, not at its end. Comes with
    /// `PoolRejected`.
    ThresholdReached,
}

impl Event {
    /// How many kinds there are.
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

    /// The name that Hystrix gives it; `RATE_LIMITED` and the last four kinds are ours.
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

    /// Whether nothing can follow it but `ExceptionThrown`.
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

/// The set of what happened in one call. Told in the order of the kinds, not of time.
///
/// ```
/// use tidegate_isolate::{Event, Events};
///
/// let events = Events::of(&[Event::FallbackSuccess, Event::Timeout]);
/// assert_eq!(events.to_string(), "[TIMEOUT, FALLBACK_SUCCESS]");
/// assert!(events.contains(Event::Timeout));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Events {
    bits: u32,
}

impl Events {
    /// Nothing happened.
    pub const fn none() -> Self {
        Self { bits: 0 }
    }

    /// The set of these.
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

    /// Adds one.
    pub fn add(&mut self, event: Event) {
        self.bits |= 1 << event as u8;
    }

    /// Whether it happened.
    pub fn contains(self, event: Event) -> bool {
        self.bits & (1 << event as u8) != 0
    }

    /// Whether nothing happened.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Whether the work itself ran, so that its latency says something.
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

    /// What happened, in the order of the kinds.
    pub fn iter(self) -> impl Iterator<Item = Event> {
        Event::ALL
            .into_iter()
            .filter(move |event| self.contains(*event))
    }
}

impl fmt::Display for Events {
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
    //! The kinds are numbered as they are listed, and a set is told in that order.

    use super::*;

    #[test]
    fn all_kinds_are_listed_in_the_order_of_their_numbers() {
        for (at, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, at);
        }
    }

    #[test]
    fn events_are_told_in_the_order_of_the_kinds() {
        let events = Events::of(&[Event::FallbackSuccess, Event::Failure]);
        let names: Vec<_> = events.iter().collect();
        assert_eq!(names, [Event::Failure, Event::FallbackSuccess]);
        assert!(events.executed() && !Events::none().executed());
        assert!(Events::none().is_empty());
    }
}
