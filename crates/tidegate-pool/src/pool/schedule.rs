//! The methods of a pool that schedule tasks.

use super::handle::WorkerPool;
use crate::schedule::schedule_methods;

schedule_methods! {
    /// Runs `run` once on a thread of the pool, `after` from now. A delay that is too long to
    /// represent never ends.
    ///
    /// When the time has come, the task is submitted like any other job, but no
    /// [`PoolPolicy`](crate::PoolPolicy) applies: there is no caller that could wait or run it. If
    /// the pool has neither a thread nor a place in the queue for it, or can start no thread, it is
    /// refused. The refusal is reported to `on_unhandled` and counted, and the completion fails with
    /// a `Rejected<()>`.
    ///
    /// A shutdown of the pool cancels scheduled tasks that are not due yet. Those that are due are
    /// accepted jobs: they run or are handed back.
    ///
    /// # Errors
    ///
    /// The closure, if the pool takes no more jobs, or if no thread can be started for its timer.
    ///
    /// # Threads
    ///
    /// Can be called from any thread. `run` runs on a thread of the pool, never early. Cancelling
    /// the completion drops `run` at once, on the cancelling thread. The first scheduled task starts
    /// one thread for the timer, which ends with the pool and runs no task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::ManualClock;
    /// use tidegate_pool::WorkerPool;
    ///
    /// let clock = ManualClock::new();
    /// let pool = WorkerPool::builder("workers").clock(&clock).build()?;
    /// let report = pool.schedule(Duration::from_secs(60), || "the report")?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(report.wait()?, "the report");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    WorkerPool
}
