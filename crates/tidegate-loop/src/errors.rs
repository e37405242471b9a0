//! The errors that building and using an event loop can return.

use std::error::Error;
use std::fmt;
use std::io;

use tidegate_pool::ThreadBudgetError;
use tidegate_timer::wheel::WheelError;

/// Why a shutdown hook was not added.
#[derive(Clone, PartialEq, Eq, tidegate_macros::Error)]
#[non_exhaustive]
pub enum ShutdownHookError {
    /// Another hook has the same name.
    #[error(
        "there is a shutdown hook called `{name}` already; remove it first or choose another name"
    )]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The event loop has closed: a hook added now would never run.
    #[error("the loop has closed and runs no more hooks; run the work of the hook directly")]
    Closed,
}

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
#[derive(tidegate_macros::Error)]
#[non_exhaustive]
pub enum BlockOnError {
    /// The calling thread drives an event loop. The future did not run.
    #[error(
        "`block_on` was called on the thread of the event loop `{name}`, which would stop \
         meanwhile; await the future there, or spawn it"
    )]
    OnLoop {
        /// The name of the event loop.
        name: String,
    },
    /// The calling thread must not wait. The future did not run.
    #[error("this thread must not wait for a future; call `block_on` on another thread")]
    Forbidden,
    /// The event loop could not be built. The future did not run.
    #[error("`block_on` has no event loop: {0}")]
    Build(#[source] BuildError),
    /// The event loop was shut down before the future was ready. The future was dropped.
    #[error(
        "the event loop of `block_on` was shut down before its future was ready; let the future \
         end instead of shutting the loop down"
    )]
    Shutdown,
}

tidegate_core::debug_as_display!(BlockOnError);

impl From<BuildError> for BlockOnError {
    fn from(cause: BuildError) -> Self {
        Self::Build(cause)
    }
}

/// Why an event loop or a group could not be built.
#[derive(tidegate_macros::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The requested number of event loops is above the maximum.
    #[error("{asked} loops are too many; use at most {most}, or 0 for twice the processors")]
    TooManyLoops {
        /// The requested number.
        asked: usize,
        /// The maximum.
        most: usize,
    },
    /// The back-off has zero attempts.
    #[error("a back-off needs at least one attempt; use `RejectPolicy::Fail` for none")]
    NoAttempts,
    /// The timer wheel does not support this tick.
    #[error("the tick of the coarse timers is not supported; change `coarse_tick`")]
    BadTick(#[source] WheelError),
    /// The settings of a scaling group contradict each other; the text says how.
    #[error("{0}")]
    BadScaling(&'static str),
    /// A driver could not be created.
    #[error("the loop's driver could not be created")]
    Driver(#[source] io::Error),
    /// The pool does not have enough threads for the event loops.
    #[error("the pool is too small for the loops; raise its `max` or use fewer loops")]
    NoThreads(#[source] ThreadBudgetError),
    /// The strategy of a roaming loop could not be built.
    #[error("the loop's strategy was not built: {fault}; mend it or use another strategy")]
    Strategy {
        /// What happened.
        fault: String,
    },
}

tidegate_core::debug_as_display!(BuildError);
