//! The data that a call carries from its admission to its end: a ticket or a rejection, and a
//! verdict.

use std::fmt;
use std::time::Duration;

/// The error of a call that the breaker denied because it is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BreakerOpenError {
    /// The time after which a call may pass again, if that is known.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for BreakerOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(after) => write!(f, "the breaker is open, try again in {after:?}"),
            None => f.write_str("the breaker is open"),
        }
    }
}

tidegate_core::debug_as_display!(BreakerOpenError);

impl std::error::Error for BreakerOpenError {}

/// The right of a call to pass, without a reference to its breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(super) generation: u64,
    pub(super) is_probe: bool,
}

impl Ticket {
    /// The ticket of a call that no breaker counts.
    pub(crate) const UNHEARD: Ticket = Ticket {
        generation: u64::MAX,
        is_probe: false,
    };
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
