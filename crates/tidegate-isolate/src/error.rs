//! What a call can end with instead of an answer, and what is wrong with a configuration.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_promise::Abandoned;

use crate::key::Whose;
use crate::{Event, Events, Key};

/// Why a call of a command has no answer: the first cause, and what became of the fallback.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{Cause, CommandError};
///
/// let error = CommandError::<String>::new("prices", Cause::TimedOut(Duration::from_millis(80)));
/// assert!(error.is_timed_out());
/// assert_eq!(error.to_string(), "command prices timed out after 80ms; no fallback was tried");
/// ```
///
/// It is made for every refusal, so it is small and allocates nothing then: what a fallback said
/// lies in a box, and the key is borrowed from the thread (see [`Key`]).
#[derive(Clone, PartialEq, Eq)]
pub struct CommandError<E> {
    whose: Whose,
    cause: Cause<E>,
    /// What the fallback itself said, if it ran.
    said: Option<Box<FallbackError<E>>>,
    fallback: Tried,
    events: Events,
}

/// What became of the fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    No,
    Rejected,
    Disabled,
    Missing,
    /// It ran, and said why not.
    Said,
}

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

/// Why the fallback has no answer either.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FallbackError<E> {
    /// The fallback answered with an error.
    Failed(E),
    /// The fallback panicked, with this message.
    Panicked(String),
    /// All permits of the fallback are held.
    Rejected,
    /// Fallbacks are switched off for this command.
    Disabled,
    /// The command has none.
    Missing,
}

impl<E> CommandError<E> {
    /// An error of the command `command` with this cause and no fallback tried.
    pub fn new(command: impl Into<Key>, cause: Cause<E>) -> Self {
        Self {
            whose: Whose::new(command.into()),
            cause,
            said: None,
            fallback: Tried::No,
            events: Events::none(),
        }
    }

    /// The error of a call that was refused by a command without a fallback.
    #[inline]
    pub(crate) fn plain(command: &Key, cause: Cause<E>, events: Events) -> Self {
        Self {
            whose: Whose::of(command),
            cause,
            said: None,
            fallback: Tried::Missing,
            events,
        }
    }

    pub(crate) fn with_fallback(mut self, error: FallbackError<E>) -> Self {
        self.fallback = match error {
            FallbackError::Rejected => Tried::Rejected,
            FallbackError::Disabled => Tried::Disabled,
            FallbackError::Missing => Tried::Missing,
            said @ (FallbackError::Failed(_) | FallbackError::Panicked(_)) => {
                self.said = Some(Box::new(said));
                Tried::Said
            }
        };
        self
    }

    pub(crate) fn with_events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// The key of the command.
    pub fn command(&self) -> &Key {
        self.whose.key()
    }

    /// What went wrong first.
    pub fn cause(&self) -> &Cause<E> {
        &self.cause
    }

    /// What went wrong first, by value.
    pub fn into_cause(self) -> Cause<E> {
        self.cause
    }

    /// Why the fallback has no answer either, if one was tried.
    pub fn fallback(&self) -> Option<&FallbackError<E>> {
        match self.fallback {
            Tried::No => None,
            Tried::Rejected => Some(&FallbackError::Rejected),
            Tried::Disabled => Some(&FallbackError::Disabled),
            Tried::Missing => Some(&FallbackError::Missing),
            Tried::Said => self.said.as_deref(),
        }
    }

    /// What had happened when the error was made.
    pub fn events(&self) -> Events {
        self.events
    }

    /// The error of the work itself, if it ran and failed.
    pub fn failure(&self) -> Option<&E> {
        match &self.cause {
            Cause::Failed(error) | Cause::BadRequest(error) => Some(error),
            _ => None,
        }
    }

    /// Whether there was no room.
    pub fn is_rejected(&self) -> bool {
        matches!(self.cause, Cause::Rejected(_))
    }

    /// Whether the time was over.
    pub fn is_timed_out(&self) -> bool {
        matches!(self.cause, Cause::TimedOut(_))
    }

    /// Whether the breaker was open.
    pub fn is_short_circuited(&self) -> bool {
        matches!(self.cause, Cause::ShortCircuited(_))
    }

    /// Whether the caller left.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled)
    }

    /// Whether the work failed or panicked.
    pub fn is_failed(&self) -> bool {
        matches!(self.cause, Cause::Failed(_) | Cause::Panicked(_))
    }

    /// Whether the work says that the caller is wrong.
    pub fn is_bad_request(&self) -> bool {
        matches!(self.cause, Cause::BadRequest(_))
    }

    /// When a caller may try again, where the refusal says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            Cause::ShortCircuited(after) => after,
            Cause::Rejected(Refused::Rate(after)) => Some(after),
            _ => None,
        }
    }
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

impl<E> From<Abandoned> for CommandError<E> {
    fn from(_: Abandoned) -> Self {
        Self::new("(abandoned)", Cause::Cancelled)
    }
}

impl<E: fmt::Display> fmt::Display for CommandError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {} {}; ", self.command(), self.cause)?;
        match self.fallback() {
            None => f.write_str("no fallback was tried"),
            Some(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for CommandError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandError")
            .field("command", self.command())
            .field("cause", &self.cause)
            .field("fallback", &self.fallback())
            .field("events", &self.events.to_string())
            .finish()
    }
}

impl<E: Error + 'static> Error for CommandError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure().map(|error| error as _)
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

impl<E: fmt::Display> fmt::Display for FallbackError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "its fallback failed: {error}"),
            Self::Panicked(message) => write!(f, "its fallback panicked: {message}"),
            Self::Rejected => f.write_str("all permits of its fallback are held"),
            Self::Disabled => f.write_str("its fallback is switched off"),
            Self::Missing => f.write_str("it has no fallback"),
        }
    }
}

/// A setting that makes no sense: which property of which key, and why.
///
/// ```
/// use tidegate_isolate::Invalid;
///
/// let invalid = Invalid::new("prices", "coreSize", "0", "a pool needs a thread");
/// assert_eq!(invalid.to_string(), "prices: coreSize is 0: a pool needs a thread");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Invalid {
    key: String,
    property: String,
    value: String,
    reason: String,
}

impl Invalid {
    /// The property `property` of `key` must not be `value`, for this reason.
    pub fn new(
        key: impl Into<String>,
        property: impl Into<String>,
        value: impl fmt::Display,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            property: property.into(),
            value: value.to_string(),
            reason: reason.into(),
        }
    }

    /// The key of the command, pool or collapser.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The property.
    pub fn property(&self) -> &str {
        &self.property
    }

    /// Why it was refused.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn of_key(mut self, key: &str) -> Self {
        self.key = key.to_owned();
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            property,
            value,
            reason,
        } = self;
        write!(f, "{key}: {property} is {value}: {reason}")
    }
}

tidegate_core::debug_as_display!(Invalid);

impl Error for Invalid {}
