//! The errors that building and using an event loop can return.

use std::error::Error;
use std::fmt;
use std::io;

use tidegate_pool::OverBudget;
use tidegate_timer::wheel::WheelError;

/// Why a periodic task was not scheduled.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeriodError {
    /// The period is zero: the task would run without end.
    Zero,
    /// The event loop is shutting down.
    Closed,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zero => "a period of zero would run without end; give it at least 1 ns",
            Self::Closed => "the loop is shutting down; schedule on another one",
        })
    }
}

tidegate_core::debug_as_display!(PeriodError);

impl Error for PeriodError {}

/// Why a shutdown hook was not added.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownHookError {
    /// Another hook has the same name.
    Duplicate {
        /// The name.
        name: String,
    },
    /// The event loop has closed: a hook added now would never run.
    Closed,
}

impl fmt::Display for ShutdownHookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { name } => write!(
                f,
                "there is a shutdown hook called `{name}` already; remove it first or choose \
                 another name"
            ),
            Self::Closed => {
                f.write_str("the loop has closed and runs no more hooks; do the work right here")
            }
        }
    }
}

tidegate_core::debug_as_display!(ShutdownHookError);

impl Error for ShutdownHookError {}

/// The error of `spawn_local` if the caller is not on the event loop's thread, or the event loop
/// accepts no more work. Returns the future to the caller.
pub struct NotOnLoop<F>(pub F);

impl<F> fmt::Debug for NotOnLoop<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<F> fmt::Display for NotOnLoop<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "`spawn_local` works on the loop's own running thread only; use `spawn` elsewhere",
        )
    }
}

impl<F> Error for NotOnLoop<F> {}

/// Why an event loop or a group could not be built.
#[non_exhaustive]
pub enum BuildError {
    /// The requested number of event loops is above the maximum.
    TooManyLoops {
        /// The requested number.
        asked: usize,
        /// The maximum.
        most: usize,
    },
    /// The back-off has zero attempts.
    NoAttempts,
    /// The timer wheel does not support this tick.
    BadTick(WheelError),
    /// The settings of a scaling group contradict each other; the text says how.
    BadScaling(&'static str),
    /// A driver could not be created.
    Driver(io::Error),
    /// The pool does not have enough threads for the event loops.
    NoThreads(OverBudget),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLoops { asked, most } => write!(
                f,
                "{asked} loops are too many; use at most {most}, or 0 for twice the processors"
            ),
            Self::NoAttempts => f.write_str(
                "a back-off needs at least one attempt; use `RejectPolicy::Fail` for none",
            ),
            Self::BadTick(why) => write!(f, "the loop's timeouts cannot be counted: {why}"),
            Self::BadScaling(what) => f.write_str(what),
            Self::Driver(_) => f.write_str("the loop's driver could not be made"),
            Self::NoThreads(why) => write!(f, "the pool is too small for the loops: {why}"),
        }
    }
}

tidegate_core::debug_as_display!(BuildError);

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Driver(error) => Some(error),
            _ => None,
        }
    }
}
