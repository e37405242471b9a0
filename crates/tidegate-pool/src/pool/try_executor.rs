//! An executor that can give a thread now or not at all: what a strategy asks of its pool.

use tidegate_core::{Executor, Rejected, Task};

use super::budget::OverBudget;
use super::headroom::Headroom;
use super::lease::Lease;

/// An executor that keeps threads in reserve.
pub trait TryExecutor: Executor + Headroom {
    /// Gives `task` to a thread that already waits for one. Never queues and never waits.
    ///
    /// # Errors
    ///
    /// The task itself, when no thread waits at this moment. A miss may start one for the
    /// next time.
    fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>>;

    /// Promises some of its threads to `who`, for as long as the lease lives. `None` from an
    /// executor that keeps no account of its threads.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when no thread would be left for tasks; it names who holds what.
    fn lease_threads(&self, who: &str, threads: usize) -> Result<Option<Lease>, OverBudget> {
        let _ = (who, threads);
        Ok(None)
    }
}
