//! The methods of an ordered view that schedule tasks.

use std::time::Duration;

use tidegate_core::Rejected;
use tidegate_promise::Completion;

use super::view::OrderedView;
use crate::schedule::{Missed, Period, PeriodError, once, repeat};

impl OrderedView {
    /// Runs `run` once, in the order of this view, `after` from now. A delay that is too long to
    /// represent never ends.
    ///
    /// When the time has come, the task is submitted to the view like any other. If the view is
    /// full or the underlying executor refuses it, that is reported to the executor and counted
    /// ([`OrderedView::refused_tasks`]), and the completion fails with a `Rejected<()>`. The policy
    /// of a [`WorkerPool`](crate::WorkerPool) does not apply: there is no caller that could wait or
    /// run the task.
    ///
    /// A shutdown of the pool under the view cancels scheduled tasks that are not due yet. A task
    /// that is not due keeps its view, and with it the underlying executor, alive.
    ///
    /// # Errors
    ///
    /// The closure, if the pool takes no more jobs, or if no thread can be started for the timer.
    ///
    /// # Threads
    ///
    /// Can be called from any thread. `run` runs on a thread of the underlying executor, never
    /// early, and never at the same time as another task of this view. Cancelling the completion
    /// drops `run` at once, on the cancelling thread. All views over one pool share the timer of the
    /// pool and its thread; a view over another executor has a timer of its own.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tidegate_core::ManualClock;
    /// use tidegate_pool::{OrderedView, WorkerPool};
    ///
    /// let clock = ManualClock::new();
    /// let pool = WorkerPool::builder("workers").clock(&clock).build()?;
    /// let view = OrderedView::over(Arc::new(pool))?;
    /// let report = view.schedule(Duration::from_secs(60), || "the report")?;
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
    /// A run that is refused is reported and counted as for [`OrderedView::schedule`] and is
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

    /// [`OrderedView::schedule_at_fixed_rate`] with a policy for missed runs.
    ///
    /// # Errors
    ///
    /// As for [`OrderedView::schedule_at_fixed_rate`].
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
    /// As for [`OrderedView::schedule_at_fixed_rate`].
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
