//! Why a call has no answer of its own: every cause, and every bound that can refuse a call.

use std::fmt;
use std::time::Duration;

use crate::event::Event;

/// What went wrong first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause<E> {
    /// There was no room; nothing was run.
    Rejected(Refused),
    /// The time was over; it was this long.
    TimedOut(Duration),
    /// The breaker was open; try again after this long, if that is known.
    ShortCircuited(Option<Duration>),
    /// The caller left, or the command was shut down.
    Cancelled,
    /// The work answered with an error.
    Failed(E),
    /// The work panicked, with this message.
    Panicked(String),
    /// The work says that the caller is wrong. No fallback is tried and no breaker hears of it.
    BadRequest(E),
    /// A hook refused the call before it began.
    Hook(String),
    /// The call has a cache key and belongs to no request; nothing was run, and no fallback is
    /// tried.
    NoRequest,
}

/// Which bound refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// All permits are held.
    Permits,
    /// All threads are busy and the queue is full.
    Pool,
    /// All threads are busy, and as many calls wait as the live bound of the queue allows:
    /// [`PoolConfig::rejection_threshold`](crate::PoolConfig::rejection_threshold).
    Threshold,
    /// What is left of threads and places is kept for calls that matter more:
    /// [`PoolConfig::partitions`](crate::PoolConfig::partitions).
    Reserved,
    /// The rate limit is reached; the next call may come after this long.
    Rate(Duration),
    /// A blocking wait is not allowed on this thread.
    Waiting,
    /// The command has threads; work that borrows, or is a future, could not move there.
    InPlace,
    /// The command's isolation was shut down.
    Closed,
    /// Too many ended calls wait for a thread that tells their callers: fallbacks, listeners or
    /// batches of this command do not return.
    Backlog,
    /// Waiting would close a circle: the call is made inside of what it would wait for.
    Circle,
}

impl<E> Cause<E> {
    /// What this cause is counted as.
    pub fn event(&self) -> Event {
        match self {
            Self::Rejected(
                Refused::Pool
                | Refused::Threshold
                | Refused::Reserved
                | Refused::Closed
                | Refused::Backlog,
            ) => Event::PoolRejected,
            Self::Rejected(Refused::Rate(_)) => Event::RateLimited,
            Self::Rejected(_) => Event::PermitsRejected,
            Self::TimedOut(_) => Event::Timeout,
            Self::ShortCircuited(_) => Event::ShortCircuited,
            Self::Cancelled => Event::Cancelled,
            Self::Failed(_) | Self::Panicked(_) | Self::Hook(_) | Self::NoRequest => Event::Failure,
            Self::BadRequest(_) => Event::BadRequest,
        }
    }

    /// Whether a fallback may answer instead.
    pub(crate) fn allows_fallback(&self) -> bool {
        !matches!(
            self,
            Self::BadRequest(_) | Self::Cancelled | Self::Hook(_) | Self::NoRequest
        )
    }

    /// Whether another attempt of the same call may do better.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Failed(_) | Self::Panicked(_) | Self::TimedOut(_) => true,
            // The others are refused for as long as the caller is where it is.
            Self::Rejected(refused) => matches!(
                refused,
                Refused::Permits
                    | Refused::Pool
                    | Refused::Threshold
                    | Refused::Reserved
                    | Refused::Backlog
                    | Refused::Rate(_)
            ),
            _ => false,
        }
    }
}

impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(by) => write!(f, "was rejected: {by}"),
            Self::TimedOut(after) => write!(f, "timed out after {after:?}"),
            Self::ShortCircuited(None) => f.write_str("was short-circuited: its breaker is open"),
            Self::ShortCircuited(Some(after)) => write!(
                f,
                "was short-circuited: its breaker is open, try again in {after:?}"
            ),
            Self::Cancelled => f.write_str("was cancelled"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::BadRequest(error) => write!(f, "was called wrongly: {error}"),
            Self::Hook(message) => write!(f, "was refused by a hook: {message}"),
            Self::NoRequest => {
                f.write_str("has a cache key and no request: enter a RequestContext first")
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permits => f.write_str("all permits are held, try again later"),
            Self::Pool => f.write_str("all threads are busy and the queue is full"),
            Self::Threshold => f.write_str(
                "all threads are busy and as many calls wait as queueSizeRejectionThreshold allows",
            ),
            Self::Reserved => f.write_str(
                "the threads and places that are left are kept for calls that matter more",
            ),
            Self::Rate(after) => write!(f, "the rate limit is reached, try again in {after:?}"),
            Self::Waiting => f.write_str("this thread must not wait: use `queue` or `run_async`"),
            Self::InPlace => {
                f.write_str("it runs on threads of its bulkhead: use `run` or `queue`")
            }
            Self::Closed => f.write_str("its isolation was shut down"),
            Self::Backlog => f.write_str(
                "too many ended calls wait for its fallbacks, listeners or batches to return",
            ),
            Self::Circle => f.write_str(
                "it is called inside of what it would wait for: do not wait, or use `queue`",
            ),
        }
    }
}
