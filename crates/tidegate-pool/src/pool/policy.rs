//! What happens to a job for which a pool has neither a thread nor room.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::RejectWith;

/// What a pool does with a user job that it cannot take.
///
/// A stopped pool always refuses; the policy is about full ones.
///
/// ```
/// use tidegate_pool::{PoolPolicy, WorkerPool};
///
/// let pool = WorkerPool::builder("workers").policy(PoolPolicy::CallerRuns).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub enum PoolPolicy {
    /// Gives the job back at once.
    #[default]
    Fail,
    /// Waits for `pause` and tries again, up to `attempts` times; then gives the job back. On a
    /// thread of the pool itself and on any that must not block, it gives it back at once. The
    /// job's token ends the wait.
    Backoff {
        /// How often to try again; at least once.
        attempts: u32,
        /// How long to wait before each.
        pause: Duration,
    },
    /// Runs the job on the submitter's thread: a submitter that is too fast pays for it. A
    /// thread that must not block gets a job that may back instead.
    CallerRuns,
    /// Takes the oldest waiting job out to make room (with another queue: whichever that
    /// chooses). Its completion fails as [`Displaced`].
    DropOldest,
    /// Asks the closure: it gets the refusal and either deals with the task or passes it on. It
    /// runs on the submitter's thread.
    With(RejectWith),
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

/// The failure of a job that was accepted and then had to make room, or that its queue gave up.
///
/// ```
/// use tidegate_pool::Displaced;
/// use tidegate_promise::Failure;
///
/// let failure = Failure::new(Displaced);
/// assert!(failure.downcast_ref::<Displaced>().is_some());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Displaced;

impl fmt::Display for Displaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job was displaced from a full queue; submit it again or shed load")
    }
}

tidegate_core::debug_as_display!(Displaced);

impl Error for Displaced {}

thread_local! {
    /// Whether what this thread drops was displaced: how the news reaches a closure's promise
    /// without a word in every task.
    static DISPLACING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `drop` with the thread's drops counting as displacements.
pub(crate) fn displacing(drop: impl FnOnce()) {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            DISPLACING.set(self.0);
        }
    }
    let _restore = Restore(DISPLACING.replace(true));
    drop();
}

pub(crate) fn is_displacing() -> bool {
    DISPLACING.try_with(Cell::get).unwrap_or(false)
}
