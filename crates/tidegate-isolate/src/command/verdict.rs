//! What the holder of an entry reports about its call, and what an adaptive limit learns from it.

use super::ending::Ended;

/// The outcome of a call, as the holder of its [`Entry`](crate::Entry) reports it.
///
/// ```
/// use tidegate_isolate::Verdict;
///
/// assert_eq!(Verdict::from(true), Verdict::Success);
/// assert_eq!(Verdict::from(false), Verdict::Failure);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The dependency did what the caller requested.
    Success,
    /// The dependency failed.
    Failure,
    /// The request was invalid, or the result says nothing about the health of the dependency. The
    /// breaker does not count the call.
    Ignored,
}

impl From<bool> for Verdict {
    fn from(is_success: bool) -> Self {
        if is_success {
            Self::Success
        } else {
            Self::Failure
        }
    }
}

impl From<Verdict> for Ended {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Success => Self::Success,
            Verdict::Failure => Self::Failure,
            Verdict::Ignored => Self::Ignored,
        }
    }
}

/// What the adaptive limit learns from the end of a call.
#[derive(Clone, Copy)]
pub(super) enum Sample {
    None,
    /// The latency of a call that is late: how fast a dependency fails says nothing about its room.
    IfLate,
    /// The latency of the call.
    Latency,
    /// The same; the call was given up.
    Dropped,
}

impl From<Verdict> for Sample {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Success => Self::Latency,
            Verdict::Failure | Verdict::Ignored => Self::IfLate,
        }
    }
}
