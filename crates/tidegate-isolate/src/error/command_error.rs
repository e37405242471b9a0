//! The error of a call: its cause, and what became of the fallback.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_promise::Abandoned;

use super::cause::{Cause, Refused};
use crate::event::Events;
use crate::key::{Key, Whose};

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
