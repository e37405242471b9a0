//! The methods of an ordered view that schedule tasks.

use super::view::OrderedView;
use crate::schedule::schedule_methods;

schedule_methods! {
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
    OrderedView
}
