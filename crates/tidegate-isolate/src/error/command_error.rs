//! The error of a call: its cause, and the outcome of the fallback.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_promise::{AbandonedError, WaitError};

use super::cause::{Cause, Rejection};
use crate::event::EventSet;
use crate::key::{ErrorKey, Key};

/// The error of a call of a command: the first cause, and the outcome of the fallback.
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
/// # The error type of the work
///
/// A `CommandError<E>` is an [`Error`] if `E` is one, and `E` is then its source. `?` converts it
/// into `Box<dyn Error + Send + Sync>` and everything else that takes any error.
///
/// `Box<dyn Error + Send + Sync>`, `anyhow::Error` and `String` are not errors themselves: they do not
/// implement [`Error`]. A command may have them as `E`. Its errors can be printed and matched on, but
/// `?` does not convert them. [`CommandError::map_failure`] makes them errors again, and
/// [`std::io::Error::other`] takes all of these types:
///
/// ```
/// use std::error::Error;
/// use std::io;
/// use tidegate_isolate::{Command, Isolation};
///
/// type BoxError = Box<dyn Error + Send + Sync>;
///
/// fn price(prices: &Command<u32, BoxError>) -> Result<u32, BoxError> {
///     let result = prices.run(|_cancel| Ok("42 cents".parse()?)); // `?` inside the work
///     Ok(result.map_err(|error| error.map_failure(io::Error::other))?)
/// }
///
/// let isolation = Isolation::builder().build()?;
/// let prices = Command::builder("prices").group("catalog").build(&isolation)?;
/// let error = price(&prices).unwrap_err();
/// let text = "command prices failed: invalid digit found in string; it has no fallback";
/// assert_eq!(error.to_string(), text);
/// assert!(error.source().is_some());
/// # Ok::<(), BoxError>(())
/// ```
///
/// An error is created for every rejection, so it is small and a rejection allocates nothing: the
/// fallback's own error is boxed, and the key is reused per thread (see [`Key`]).
#[derive(Clone, PartialEq, Eq)]
pub struct CommandError<E> {
    command: ErrorKey,
    cause: Cause<E>,
    /// The fallback's own error, if it ran.
    fallback_error: Option<Box<FallbackError<E>>>,
    fallback: Tried,
    events: EventSet,
}

/// The outcome of the fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    No,
    Rejected,
    Disabled,
    Missing,
    /// The fallback ran and did not end with a value.
    Stored,
}

/// Why the fallback did not return a value either.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FallbackError<E> {
    /// The fallback returned an error.
    Failed(E),
    /// The fallback panicked, with this message.
    Panicked(String),
    /// The fallback is a future and was not ready after this long.
    TimedOut(Duration),
    /// The fallback is a future, was not ready at once, and this thread must not wait for it.
    Waiting,
    /// All permits of the fallback are held.
    Rejected,
    /// Fallbacks are switched off for this command.
    Disabled,
    /// The command has no fallback.
    Missing,
}

impl<E: fmt::Display> fmt::Display for FallbackError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => write!(f, "its fallback failed: {why}"),
            Self::Panicked(message) => write!(f, "its fallback panicked: {message}"),
            Self::TimedOut(after) => write!(f, "its fallback timed out after {after:?}"),
            Self::Waiting => f.write_str(
                "its fallback is not ready and this thread must not wait: use `run_async`",
            ),
            Self::Rejected => f.write_str("all permits of its fallback are held"),
            Self::Disabled => f.write_str("its fallback is switched off"),
            Self::Missing => f.write_str("it has no fallback"),
        }
    }
}

impl<E: Error + 'static> Error for FallbackError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(why) => Some(why),
            _ => None,
        }
    }
}

impl<E> CommandError<E> {
    /// Creates an error of the command `command` with this cause and no fallback tried.
    pub fn new(command: impl Into<Key>, cause: Cause<E>) -> Self {
        Self {
            command: ErrorKey::new(command.into()),
            cause,
            fallback_error: None,
            fallback: Tried::No,
            events: EventSet::none(),
        }
    }

    /// Creates the error of a call that was rejected by a command without a fallback.
    #[inline]
    pub(crate) fn plain(command: &Key, cause: Cause<E>, events: EventSet) -> Self {
        Self {
            command: ErrorKey::of(command),
            cause,
            fallback_error: None,
            fallback: Tried::Missing,
            events,
        }
    }

    pub(crate) fn with_fallback(mut self, error: FallbackError<E>) -> Self {
        self.fallback = match error {
            FallbackError::Rejected => Tried::Rejected,
            FallbackError::Disabled => Tried::Disabled,
            FallbackError::Missing => Tried::Missing,
            fallback_error => {
                self.fallback_error = Some(Box::new(fallback_error));
                Tried::Stored
            }
        };
        self
    }

    pub(crate) fn with_events(mut self, events: EventSet) -> Self {
        self.events = events;
        self
    }

    /// Returns the key of the command.
    pub fn command(&self) -> &Key {
        self.command.key()
    }

    /// Returns the first reason why the call failed.
    pub fn cause(&self) -> &Cause<E> {
        &self.cause
    }

    /// Consumes the error and returns the first reason why the call failed.
    pub fn into_cause(self) -> Cause<E> {
        self.cause
    }

    /// Converts the work's own error, in the cause and in the error of the fallback. Everything else
    /// stays as it is.
    pub fn map_failure<F>(self, mut convert: impl FnMut(E) -> F) -> CommandError<F> {
        let cause = self.cause.map_failure(&mut convert);
        let fallback_error = self.fallback_error.map(|error| {
            Box::new(match *error {
                FallbackError::Failed(error) => FallbackError::Failed(convert(error)),
                FallbackError::Panicked(message) => FallbackError::Panicked(message),
                FallbackError::TimedOut(after) => FallbackError::TimedOut(after),
                FallbackError::Waiting => FallbackError::Waiting,
                FallbackError::Rejected => FallbackError::Rejected,
                FallbackError::Disabled => FallbackError::Disabled,
                FallbackError::Missing => FallbackError::Missing,
            })
        });
        CommandError {
            command: self.command,
            cause,
            fallback_error,
            fallback: self.fallback,
            events: self.events,
        }
    }

    /// Returns why the fallback did not return a value either, or `None` if no fallback was tried.
    pub fn fallback(&self) -> Option<&FallbackError<E>> {
        match self.fallback {
            Tried::No => None,
            Tried::Rejected => Some(&FallbackError::Rejected),
            Tried::Disabled => Some(&FallbackError::Disabled),
            Tried::Missing => Some(&FallbackError::Missing),
            Tried::Stored => self.fallback_error.as_deref(),
        }
    }

    /// Returns the events of the call up to the creation of this error.
    pub fn events(&self) -> EventSet {
        self.events
    }

    /// Returns the work's own error, if the work ran and failed.
    pub fn failure(&self) -> Option<&E> {
        match &self.cause {
            Cause::Failed(error) | Cause::BadRequest(error) => Some(error),
            _ => None,
        }
    }

    /// Returns `true` if a limit rejected the call.
    pub fn is_rejected(&self) -> bool {
        matches!(self.cause, Cause::Rejected(_))
    }

    /// Returns `true` if the call timed out.
    pub fn is_timed_out(&self) -> bool {
        matches!(self.cause, Cause::TimedOut(_))
    }

    /// Returns `true` if the breaker was open.
    pub fn is_short_circuited(&self) -> bool {
        matches!(self.cause, Cause::ShortCircuited(_))
    }

    /// Returns `true` if the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled)
    }

    /// Returns `true` if the work failed or panicked.
    pub fn is_failed(&self) -> bool {
        matches!(self.cause, Cause::Failed(_) | Cause::Panicked(_))
    }

    /// Returns `true` if the work reported that the caller's request is invalid.
    pub fn is_bad_request(&self) -> bool {
        matches!(self.cause, Cause::BadRequest(_))
    }

    /// Returns the HTTP status with which a server answers for this error.
    ///
    /// | cause | [`http_status`](CommandError::http_status) | [`grpc_code`](CommandError::grpc_code) |
    /// |---|---|---|
    /// | a limit rejected the call, the breaker is open, or the call was cancelled | 503 | 14, `UNAVAILABLE` |
    /// | the rate limit is reached | 429 | 8, `RESOURCE_EXHAUSTED` |
    /// | the call timed out | 504 | 4, `DEADLINE_EXCEEDED` |
    /// | the work failed or panicked, or the command is set up for other calls | 500 | 13, `INTERNAL` |
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_isolate::{Cause, CommandError};
    ///
    /// let slow = CommandError::<String>::new("prices", Cause::TimedOut(Duration::from_secs(1)));
    /// assert_eq!((slow.http_status(), slow.grpc_code()), (504, 4));
    /// ```
    pub fn http_status(&self) -> u16 {
        self.cause.statuses().0
    }

    /// Returns the code of the gRPC status with which a server answers for this error; the table is at
    /// [`http_status`](CommandError::http_status). With tonic:
    /// `Status::new(error.grpc_code().into(), error.to_string())`.
    pub fn grpc_code(&self) -> i32 {
        self.cause.statuses().1
    }

    /// Returns the time after which the caller may retry, if the rejection states it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            Cause::ShortCircuited(after) => after,
            Cause::Rejected(Rejection::Rate(after)) => Some(after),
            _ => None,
        }
    }
}

/// The error of a call that was waited for as a completion, as
/// [`Command::queue`](crate::Command::queue) returns one. Where there is none, the call ended as
/// cancelled.
impl<E> From<WaitError<CommandError<E>>> for CommandError<E> {
    fn from(error: WaitError<CommandError<E>>) -> Self {
        let failed = error.failure();
        failed.unwrap_or_else(|| Self::new("(queued)", Cause::Cancelled))
    }
}

impl<E> From<AbandonedError> for CommandError<E> {
    fn from(_: AbandonedError) -> Self {
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

#[cfg(test)]
mod tests {
    //! Conversion of the work's own error.

    use super::*;
    use crate::event::Event;

    #[test]
    fn converts_the_failures_of_work_and_fallback_and_keeps_the_rest() {
        let mut events = EventSet::none();
        events.add(Event::Failure);
        let error = CommandError::new("prices", Cause::Failed("down"))
            .with_fallback(FallbackError::Failed("no replica"))
            .with_events(events);
        let converted = error.clone().map_failure(str::to_owned);
        assert_eq!(converted.to_string(), error.to_string());
        assert_eq!(converted.failure().map(String::as_str), Some("down"));
        let fallback = FallbackError::Failed("no replica".to_owned());
        assert_eq!(converted.fallback(), Some(&fallback));
        assert_eq!(
            (converted.command().as_str(), converted.events()),
            ("prices", events)
        );
    }

    #[test]
    fn converts_nothing_if_the_work_did_not_fail() {
        let causes = [
            Cause::Rejected(Rejection::Permits),
            Cause::TimedOut(Duration::from_secs(1)),
            Cause::ShortCircuited(Some(Duration::from_secs(5))),
            Cause::Cancelled,
            Cause::Panicked("oh".to_owned()),
            Cause::Hook("not today".to_owned()),
            Cause::NoRequest,
        ];
        let others = [
            FallbackError::Panicked("no".to_owned()),
            FallbackError::TimedOut(Duration::from_secs(1)),
            FallbackError::Waiting,
            FallbackError::Rejected,
            FallbackError::Disabled,
            FallbackError::Missing,
        ];
        for cause in causes {
            for other in others.clone() {
                let error = CommandError::<&str>::new("prices", cause.clone()).with_fallback(other);
                let same = error
                    .clone()
                    .map_failure(|_| -> &str { unreachable!("none failed") });
                assert_eq!(same, error);
            }
        }
    }
}
