//! The events of a call, with the names that Hystrix gives them, and the set of events of one call.

use std::fmt;

/// Declares the kinds of events, each with its name.
macro_rules! events {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
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
            $($(#[$doc])* $kind,)*
        }

        impl Event {
            /// The number of kinds.
            pub const COUNT: usize = [$($name),*].len();

            /// All kinds, in the order of their declaration.
            pub const ALL: [Event; Self::COUNT] = [$(Self::$kind),*];

            /// Returns the name that Hystrix gives this event. `RATE_LIMITED` and the last four kinds
            /// do not exist in Hystrix.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

events! {
    /// The work returned a value.
    Success = "SUCCESS",
    /// The work failed or panicked.
    Failure = "FAILURE",
    /// The timeout expired before the work ended.
    Timeout = "TIMEOUT",
    /// The work reported that the caller's request is invalid.
    BadRequest = "BAD_REQUEST",
    /// The breaker was open.
    ShortCircuited = "SHORT_CIRCUITED",
    /// The thread bulkhead was full.
    PoolRejected = "THREAD_POOL_REJECTED",
    /// All permits were held.
    PermitsRejected = "SEMAPHORE_REJECTED",
    /// The rate limit was reached.
    RateLimited = "RATE_LIMITED",
    /// The fallback returned a value.
    FallbackSuccess = "FALLBACK_SUCCESS",
    /// The fallback failed, panicked or timed out.
    FallbackFailure = "FALLBACK_FAILURE",
    /// All permits of the fallback were held, or it would have blocked a thread that must not wait.
    FallbackRejection = "FALLBACK_REJECTION",
    /// Fallbacks are switched off.
    FallbackDisabled = "FALLBACK_DISABLED",
    /// The command has no fallback.
    FallbackMissing = "FALLBACK_MISSING",
    /// An error reached the caller.
    ExceptionThrown = "EXCEPTION_THROWN",
    /// The result came from the request cache.
    ResponseFromCache = "RESPONSE_FROM_CACHE",
    /// The caller cancelled or dropped the call before it had a result.
    Cancelled = "CANCELLED",
    /// The call was answered by a batch of a collapser.
    Collapsed = "COLLAPSED",
    /// The timeout expired while the call still waited in a queue.
    ExpiredInQueue = "EXPIRED_IN_QUEUE",
    /// The work was tried again.
    Retried = "RETRIED",
    /// A second attempt was started beside a slow first one.
    Hedged = "HEDGED",
    /// The thread bulkhead rejected the call at the adjustable bound of its queue, not at the
    /// queue's capacity. Always recorded together with `PoolRejected`.
    ThresholdReached = "QUEUE_THRESHOLD_REACHED",
}

impl Event {
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
    fn events_are_listed_in_the_order_of_the_kinds() {
        let events = EventSet::of(&[Event::FallbackSuccess, Event::Failure]);
        let names: Vec<_> = events.iter().collect();
        assert_eq!(names, [Event::Failure, Event::FallbackSuccess]);
        assert!(events.executed() && !EventSet::none().executed());
        assert!(EventSet::none().is_empty());
    }
}
