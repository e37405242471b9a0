//! The errors that building and using an event loop can return.

use std::error::Error;
use std::fmt;
use std::io;

use tidegate_pool::ThreadBudgetError;
use tidegate_timer::wheel::WheelError;

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
            Self::Closed => f.write_str(
                "the loop has closed and runs no more hooks; run the work of the hook \
                 directly",
            ),
        }
    }
}

impl Error for ShutdownHookError {}

tidegate_core::debug_as_display!(ShutdownHookError);

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

/// Why `block_on` did not return the output of its future.
#[non_exhaustive]
pub enum BlockOnError {
    /// The calling thread drives an event loop. The future did not run.
    OnLoop {
        /// The name of the event loop.
        name: String,
    },
    /// The calling thread must not wait. The future did not run.
    Forbidden,
    /// The event loop could not be built. The future did not run.
    Build(BuildError),
    /// The event loop was shut down before the future was ready. The future was dropped.
    Shutdown,
}

impl fmt::Display for BlockOnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnLoop { name } => write!(
                f,
                "`block_on` was called on the thread of the event loop `{name}`, which would \
                 stop meanwhile; await the future there, or spawn it"
            ),
            Self::Forbidden => f.write_str(
                "this thread must not wait for a future; call `block_on` on another thread",
            ),
            Self::Build(why) => write!(f, "`block_on` has no event loop: {why}"),
            Self::Shutdown => f.write_str(
                "the event loop of `block_on` was shut down before its future was ready; let \
                 the future end instead of shutting the loop down",
            ),
        }
    }
}

impl Error for BlockOnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Build(why) => Some(why),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(BlockOnError);

impl From<BuildError> for BlockOnError {
    fn from(cause: BuildError) -> Self {
        Self::Build(cause)
    }
}

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
    NoThreads(ThreadBudgetError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLoops { asked, most } => write!(
                f,
                "{asked} loops are too many; use at most {most}, or 0 for twice the \
                 processors"
            ),
            Self::NoAttempts => f.write_str(
                "a back-off needs at least one attempt; use `RejectPolicy::Fail` for none",
            ),
            Self::BadTick(_) => {
                f.write_str("the tick of the coarse timers is not supported; change `coarse_tick`")
            }
            Self::BadScaling(what) => write!(f, "{what}"),
            Self::Driver(_) => f.write_str("the loop's driver could not be created"),
            Self::NoThreads(_) => f.write_str(
                "the pool is too small for the loops; raise its `max` or use fewer loops",
            ),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::BadTick(why) => Some(why),
            Self::Driver(why) => Some(why),
            Self::NoThreads(why) => Some(why),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(BuildError);
