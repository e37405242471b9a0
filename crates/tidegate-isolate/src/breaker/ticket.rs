//! What a call carries from its admission to its end: a ticket, or the refusal; and its verdict.

use std::fmt;
use std::time::Duration;

/// The breaker is open: the call was not let through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// When a call may pass again, if that is known.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(after) => write!(f, "the breaker is open, try again in {after:?}"),
            None => f.write_str("the breaker is open"),
        }
    }
}

tidegate_core::debug_as_display!(Open);

impl std::error::Error for Open {}

/// What lets a call through, without a reference to its breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(super) generation: u64,
    pub(super) is_probe: bool,
}

impl Ticket {
    /// Of a call that no breaker hears of.
    pub(crate) const UNHEARD: Ticket = Ticket {
        generation: u64::MAX,
        is_probe: false,
    };
}

/// How a call that was let through ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    /// The dependency answered, and the answer says nothing about its health.
    Ignored,
    /// Nobody knows: the caller left.
    Dropped,
}
