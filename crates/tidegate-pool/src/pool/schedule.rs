//! The methods of a pool that schedule tasks.

use std::time::Duration;

use tidegate_core::Rejected;
use tidegate_promise::Completion;

use super::handle::WorkerPool;
use crate::schedule::{Missed, Period, PeriodError, once, repeat};

impl WorkerPool {
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
    pub fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        once(&self.shared, after, run)
    }

    /// Runs `run` after `first` and then every `period`, measured from start to start. Missed runs
    /// are made up for. A run never overlaps the previous one. The completion never succeeds: it
    /// ends as cancelled, or as failed if `run` panics.
    ///
    /// A run that the pool refuses is reported and counted as for [`WorkerPool::schedule`] and is
    /// left out. So is a run for which there is no thread. The task stays scheduled.
    ///
    /// # Errors
    ///
    /// [`PeriodError`] if the period is zero, the pool takes no more jobs, or no thread can be
    /// started for its timer.
    pub fn schedule_at_fixed_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        self.schedule_at_rate(first, period, Missed::default(), run)
    }

    /// [`WorkerPool::schedule_at_fixed_rate`] with a policy for missed runs.
    ///
    /// # Errors
    ///
    /// As for [`WorkerPool::schedule_at_fixed_rate`].
    pub fn schedule_at_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        missed: Missed,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        repeat(&self.shared, first, Period::rate(period, missed)?, run)
    }

    /// Runs `run` after `first`, and then again `pause` after the end of each run.
    ///
    /// # Errors
    ///
    /// As for [`WorkerPool::schedule_at_fixed_rate`].
    pub fn schedule_with_fixed_delay<F>(
        &self,
        first: Duration,
        pause: Duration,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        repeat(&self.shared, first, Period::delay(pause)?, run)
    }
}
