//! The data that a call carries from its admission to its end: a ticket or a rejection, and a
//! verdict.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::error::for_readers;

/// The error of a call that the breaker denied because it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerOpenError {
    /// The time after which a call may pass again, if that is known: the rest of the breaker's sleep,
    /// and one nanosecond more.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for BreakerOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the breaker is open")?;
        match self.retry_after {
            Some(after) => write!(f, ", try again in {:?}", for_readers(after)),
            None => Ok(()),
        }
    }
}

impl Error for BreakerOpenError {}

/// The right of a call to pass, without a reference to its breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(super) generation: u64,
    pub(super) is_probe: bool,
}

impl Ticket {
    /// The ticket of a call that no breaker counts.
    pub(crate) const UNCOUNTED: Ticket = Ticket {
        generation: u64::MAX,
        is_probe: false,
    };

    /// Returns the number of the breaker's phase, and whether the call is a probe.
    #[inline]
    pub(crate) fn parts(self) -> (u64, bool) {
        (self.generation, self.is_probe)
    }

    /// The reverse of [`Ticket::parts`].
    pub(crate) fn from_parts((generation, is_probe): (u64, bool)) -> Self {
        Self {
            generation,
            is_probe,
        }
    }
}

/// How a call that passed the breaker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    Success,
    Failure,
    /// The dependency responded, and the result says nothing about its health.
    Ignored,
    /// The result is unknown: the caller dropped the call.
    Dropped,
}
