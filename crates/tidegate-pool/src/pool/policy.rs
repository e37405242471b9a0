//! The policies for a job that gets neither a thread nor a place in the queue.

use std::fmt;
use std::time::Duration;

use tidegate_core::executor::RejectHandler;

/// What a pool does with a user job that it cannot take.
///
/// The policy applies to a full pool. A stopped pool always refuses.
///
/// ```
/// use tidegate_pool::{PoolPolicy, WorkerPool};
///
/// let pool = WorkerPool::builder("workers").policy(PoolPolicy::CallerRuns).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub enum PoolPolicy {
    /// Returns the job to the submitter at once.
    #[default]
    Fail,
    /// Waits for `pause` and tries again, up to `attempts` times; then returns the job. On a thread
    /// of the pool itself, also in a task of an ordered view, and on any thread that must not block, it returns the job at once.
    /// Cancelling the job's token ends the wait.
    Backoff {
        /// The number of attempts after the first one; at least one.
        attempts: u32,
        /// The pause before each attempt.
        pause: Duration,
    },
    /// Runs the job on the submitter's thread, which slows a fast submitter down. On a thread that
    /// must not block, a job that may block is returned instead.
    CallerRuns,
    /// Drops the oldest queued job to make room. A custom queue chooses the job itself. The
    /// completion of that job fails with [`DisplacedError`](crate::DisplacedError).
    DropOldest,
    /// Calls the closure with the refusal on the submitter's thread. The closure either handles the
    /// task or passes the refusal on.
    With(RejectHandler),
}

impl fmt::Debug for PoolPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail => f.write_str("Fail"),
            Self::Backoff { attempts, pause } => f
                .debug_struct("Backoff")
                .field("attempts", attempts)
                .field("pause", pause)
                .finish(),
            Self::CallerRuns => f.write_str("CallerRuns"),
            Self::DropOldest => f.write_str("DropOldest"),
            Self::With(_) => f.write_str("With(..)"),
        }
    }
}
