//! An executor that provides a thread at once or not at all, as strategies need it.

use std::sync::Arc;

use tidegate_core::{Executor, Rejected, Task};

use super::budget::ThreadBudgetError;
use super::headroom::Headroom;
use super::lease::Lease;

/// An executor with reserved threads.
pub trait TryExecutor: Executor + Headroom {
    /// Gives `task` to a thread that is already idle. Never queues and never waits.
    ///
    /// # Errors
    ///
    /// Returns the task if no thread is idle at this moment. The executor may then start a thread
    /// for the next call.
    fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>>;

    /// Leases some of the executor's threads to `holder` until the lease is dropped. Returns `None`
    /// if the executor does not track its threads.
    ///
    /// # Errors
    ///
    /// [`ThreadBudgetError`] if no thread would be left for tasks. It names each lease holder.
    fn lease_threads(
        &self,
        holder: &str,
        threads: usize,
    ) -> Result<Option<Lease>, ThreadBudgetError> {
        let _ = (holder, threads);
        Ok(None)
    }

    /// Returns the lease that this executor holds for the producer of its strategy, to one caller.
    #[doc(hidden)]
    fn own_lease(&self) -> Option<Arc<Lease>> {
        None
    }
}
