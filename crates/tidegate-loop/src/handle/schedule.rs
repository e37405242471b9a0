//! The methods of an event loop that schedule tasks.

use std::time::Duration;

use tidegate_core::{Rejected, Task};
use tidegate_pool::internal::Period;
use tidegate_pool::{Missed, PeriodError};
use tidegate_promise::Completion;

use super::event_loop::EventLoop;
use super::placement::Placement;
use crate::schedule::coarse_timer::{self, CoarseTimer};
use crate::schedule::scheduled_task;

impl<P: Placement> EventLoop<P> {
    /// Runs `run` once, `after` from now. A delay that is too long to represent never ends.
    ///
    /// # Errors
    ///
    /// The closure, if the event loop is shutting down.
    ///
    /// # Threads
    ///
    /// May be called from any thread. `run` runs on the event loop, never early. Cancelling the
    /// completion drops `run` at once.
    pub fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(scheduled_task::once(&self.shared, after, run))
    }

    /// Runs `run` once, `after` from now and up to one tick late. For large numbers of timers that
    /// rarely fire, such as the idle time of connections: it costs less than
    /// [`EventLoop::schedule`], does not keep the order of equal deadlines, and has no result. The
    /// handle cancels the timer or resets it.
    ///
    /// # Errors
    ///
    /// The closure, if the event loop is shutting down.
    ///
    /// # Threads
    ///
    /// May be called from any thread. `run` runs on the event loop, never early. Cancelling drops
    /// `run` at once. If the event loop ends first, `run` is dropped and the handle reports the
    /// timer as cancelled.
    pub fn schedule_coarse<F>(&self, after: Duration, run: F) -> Result<CoarseTimer, Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(coarse_timer::add(&self.shared, after, Task::new(run)))
    }

    /// Runs `run` after `first` and then every `period`, measured from start to start. Missed runs
    /// are made up for. The completion never succeeds: it ends as cancelled, or as failed if `run`
    /// panics.
    ///
    /// # Errors
    ///
    /// [`PeriodError`] if the period is zero or the event loop is shutting down.
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

    /// [`EventLoop::schedule_at_fixed_rate`] with a policy for missed runs.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::schedule_at_fixed_rate`].
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
        self.repeat(first, Period::rate(period, missed)?, run)
    }

    /// Runs `run` after `first`, and then again `pause` after the end of each run.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::schedule_at_fixed_rate`].
    pub fn schedule_with_fixed_delay<F>(
        &self,
        first: Duration,
        pause: Duration,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        self.repeat(first, Period::delay(pause)?, run)
    }

    fn repeat<F>(
        &self,
        first: Duration,
        every: Period,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(scheduled_task::repeat(&self.shared, first, every, run))
    }
}
