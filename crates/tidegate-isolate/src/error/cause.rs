//! Why a call did not return the work's value: every cause, and every limit that can reject a call.

use std::fmt;
use std::time::Duration;

use crate::event::Event;

/// The first reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause<E> {
    /// A limit rejected the call; the work did not run.
    Rejected(Rejection),
    /// The call timed out after this long.
    TimedOut(Duration),
    /// The breaker was open; the caller may retry after this long, if that is known.
    ShortCircuited(Option<Duration>),
    /// The caller cancelled the call, or the command was shut down.
    Cancelled,
    /// The work returned an error.
    Failed(E),
    /// The work panicked, with this message.
    Panicked(String),
    /// The work reported that the caller's request is invalid. No fallback is tried, and the
    /// breaker does not count the call.
    BadRequest(E),
    /// A hook rejected the call before it started.
    Hook(String),
    /// The call has a cache key but belongs to no request. The work did not run, and no fallback is
    /// tried.
    NoRequest,
}

/// The limit that rejected a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// All permits are held.
    Permits,
    /// All threads are busy and the queue is full.
    Pool,
    /// All threads are busy, and as many calls wait as the adjustable bound of the queue allows:
    /// [`PoolConfig::rejection_threshold`](crate::PoolConfig::rejection_threshold).
    Threshold,
    /// The remaining threads and queue places are reserved for more critical calls:
    /// [`PoolConfig::partitions`](crate::PoolConfig::partitions).
    Reserved,
    /// The rate limit is reached; the next call may start after this long.
    Rate(Duration),
    /// A blocking wait is not allowed on this thread.
    Waiting,
    /// The command has threads of its own, and work that borrows data or is a future cannot move
    /// there.
    InPlace,
    /// The pool has no thread for the call: its thread factory gave none, or its executor refused.
    NoThread,
    /// The command's isolation was shut down.
    Closed,
    /// Too many ended calls wait for a thread that passes their results to the callers, because
    /// fallbacks, listeners or batches of this command do not return.
    Backlog,
    /// Waiting would deadlock: the call is made inside the work that it would wait for.
    Deadlock,
}

impl<E> Cause<E> {
    /// Returns the event that this cause is counted as.
    pub fn event(&self) -> Event {
        match self {
            Self::Rejected(
                Rejection::Pool
                | Rejection::Threshold
                | Rejection::Reserved
                | Rejection::NoThread
                | Rejection::Closed
                | Rejection::Backlog,
            ) => Event::PoolRejected,
            Self::Rejected(Rejection::Rate(_)) => Event::RateLimited,
            Self::Rejected(_) => Event::PermitsRejected,
            Self::TimedOut(_) => Event::Timeout,
            Self::ShortCircuited(_) => Event::ShortCircuited,
            Self::Cancelled => Event::Cancelled,
            Self::Failed(_) | Self::Panicked(_) | Self::Hook(_) | Self::NoRequest => Event::Failure,
            Self::BadRequest(_) => Event::BadRequest,
        }
    }

    /// Returns the HTTP status and the gRPC code with which a server answers.
    pub(super) fn statuses(&self) -> (u16, i32) {
        match self {
            Self::TimedOut(_) => (504, 4),
            Self::Rejected(Rejection::Rate(_)) => (429, 8),
            Self::Failed(_) | Self::BadRequest(_) | Self::Panicked(_) => (500, 13),
            // The program is wrong; trying again does not help.
            Self::Rejected(Rejection::InPlace) | Self::NoRequest => (500, 13),
            Self::Rejected(_) | Self::ShortCircuited(_) | Self::Cancelled | Self::Hook(_) => {
                (503, 14)
            }
        }
    }

    /// Converts the work's own error.
    pub(super) fn map_failure<F>(self, convert: impl FnOnce(E) -> F) -> Cause<F> {
        match self {
            Self::Rejected(refused) => Cause::Rejected(refused),
            Self::TimedOut(after) => Cause::TimedOut(after),
            Self::ShortCircuited(after) => Cause::ShortCircuited(after),
            Self::Cancelled => Cause::Cancelled,
            Self::Failed(error) => Cause::Failed(convert(error)),
            Self::Panicked(message) => Cause::Panicked(message),
            Self::BadRequest(error) => Cause::BadRequest(convert(error)),
            Self::Hook(message) => Cause::Hook(message),
            Self::NoRequest => Cause::NoRequest,
        }
    }

    /// Returns `true` if a fallback may replace the result.
    pub(crate) fn allows_fallback(&self) -> bool {
        !matches!(
            self,
            Self::BadRequest(_) | Self::Cancelled | Self::Hook(_) | Self::NoRequest
        )
    }

    /// Returns `true` if another attempt of the same call may succeed.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::Failed(_) | Self::Panicked(_) | Self::TimedOut(_) => true,
            // A retry by the same caller would get the other rejections again.
            Self::Rejected(refused) => matches!(
                refused,
                Rejection::Permits
                    | Rejection::Pool
                    | Rejection::Threshold
                    | Rejection::Reserved
                    | Rejection::NoThread
                    | Rejection::Backlog
                    | Rejection::Rate(_)
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
                "was short-circuited: its breaker is open, try again in {:?}",
                for_readers(*after)
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

/// Returns a time without what is below a millisecond, unless that is all of it.
pub(crate) fn for_readers(time: Duration) -> Duration {
    match time.as_millis() {
        0 => time,
        whole => Duration::from_millis(u64::try_from(whole).unwrap_or(u64::MAX)),
    }
}

impl fmt::Display for Rejection {
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
            Self::NoThread => f.write_str(
                "its pool got no thread; see its thread factory or executor, or the system's limits",
            ),
            Self::Closed => f.write_str("its isolation was shut down"),
            Self::Backlog => f.write_str(
                "too many ended calls wait for its fallbacks, listeners or batches to return",
            ),
            Self::Deadlock => f.write_str(
                "waiting would deadlock, because it is called inside the work that it would wait \
                 for: do not wait there, or use `queue`",
            ),
        }
    }
}
