//! The builder of an event loop.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::TaskLane;
use tidegate_core::{Clock, OnUnhandled, ThreadBuilder, Unhandled};
use tidegate_pool::internal::{self, default_bound};

use super::event_loop::EventLoop;
use super::manual::ManualLoop;
use super::placement::{Pinned, Placement, Roaming};
use crate::core::budget::TurnBudget;
use crate::core::driver::{Driver, ParkDriver};
use crate::core::loop_core::Core;
use crate::errors::BuildError;
use crate::roam::config::RoamingConfig;
use crate::schedule::coarse_timers;
use crate::state::settings::Settings;
use crate::state::shared::{Drive, Parts, Shared};
use crate::submit::reject::RejectPolicy;

/// A builder for an [`EventLoop`].
///
/// ```
/// use tidegate_loop::{EventLoop, RejectPolicy};
///
/// let home = EventLoop::builder("home").bound(1024).reject(RejectPolicy::Fail).build()?;
/// assert_eq!(home.name(), "home");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EventLoopBuilder {
    pub(crate) name: String,
    clock: Clock,
    bound: usize,
    reject: RejectPolicy,
    threads: Option<ThreadBuilder>,
    on_unhandled: OnUnhandled,
    time_tasks: bool,
    coarse_tick: Duration,
    budget: TurnBudget,
    pub(crate) idle_stop: u64,
}

impl EventLoop {
    /// Creates a builder for an event loop called `name`.
    pub fn builder(name: impl Into<String>) -> EventLoopBuilder {
        EventLoopBuilder::new(name)
    }
}

impl EventLoopBuilder {
    /// The default for the maximum number of tasks that may wait.
    pub const DEFAULT_BOUND: usize = internal::DEFAULT_BOUND;
    /// The environment variable that overrides [`EventLoopBuilder::DEFAULT_BOUND`].
    pub const BOUND_VARIABLE: &str = internal::BOUND_VARIABLE;
    /// The default resolution of coarse timers.
    pub const DEFAULT_COARSE_TICK: Duration = Duration::from_millis(1);

    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            clock: Clock::system(),
            bound: default_bound(),
            reject: RejectPolicy::default(),
            threads: None,
            on_unhandled: OnUnhandled::default(),
            time_tasks: false,
            coarse_tick: Self::DEFAULT_COARSE_TICK,
            budget: TurnBudget::default(),
            idle_stop: 0,
        }
    }

    /// Sets the clock that the event loop uses.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Sets the maximum number of tasks that may wait; at least 16. The default is
    /// [`EventLoopBuilder::DEFAULT_BOUND`].
    pub fn bound(mut self, tasks: usize) -> Self {
        self.bound = tasks;
        self
    }

    /// Sets what happens to a task that does not fit into the queue.
    pub fn reject(mut self, policy: RejectPolicy) -> Self {
        self.reject = policy;
        self
    }

    /// Sets how the event loop's thread is started.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets a hook that is called with panics of tasks, listeners and shutdown hooks, and with
    /// listeners that ran on another thread because the event loop had terminated. The hook gets
    /// the event loop's name and runs on a thread of its own; see [`OnUnhandled`].
    pub fn on_unhandled(self, hook: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.report_to(OnUnhandled::new(hook))
    }

    /// Sets a hook that several event loops can share. The default is [`OnUnhandled::default`].
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.on_unhandled = hook;
        self
    }

    /// Measures the run time of every task. This costs two clock reads per task. Reports of slow
    /// tasks to `tracing` are then exact.
    pub fn time_tasks(mut self, yes: bool) -> Self {
        self.time_tasks = yes;
        self
    }

    /// Sets the resolution of coarse timers ([`EventLoop::schedule_coarse`], `sleep`): they fire up
    /// to one tick late. The default is [`EventLoopBuilder::DEFAULT_COARSE_TICK`].
    pub fn coarse_tick(mut self, tick: Duration) -> Self {
        self.coarse_tick = tick;
        self
    }

    /// Sets how long a turn may spend on each kind of work.
    pub fn turn_budget(mut self, budget: TurnBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Builds the event loop. Its thread starts with the first task.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the settings contradict each other.
    pub fn build(self) -> Result<EventLoop, BuildError> {
        self.build_with_driver(ParkDriver::new())
    }

    /// Builds an event loop that waits on `driver`.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopBuilder::build`].
    #[doc(hidden)]
    pub fn build_with_driver<D: Driver>(self, driver: D) -> Result<EventLoop, BuildError> {
        let (shared, core) = self.parts::<Pinned, D>(driver, false)?;
        drop(shared.core.put(Box::new(core)));
        Ok(EventLoop::from_shared(shared))
    }

    /// Builds an event loop without a thread of its own. The owner of the returned [`ManualLoop`]
    /// runs its turns, on the thread that called this method. For tests, and for programs that
    /// manage their own threads.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopBuilder::build`].
    pub fn build_manual(self) -> Result<(EventLoop, ManualLoop), BuildError> {
        self.build_manual_with_driver(ParkDriver::new())
    }

    /// [`EventLoopBuilder::build_manual`] with a `driver`. The turns also run the driver's work.
    /// The event loop waits on the driver only in [`ManualLoop::block_on`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoopBuilder::build`].
    #[doc(hidden)]
    pub fn build_manual_with_driver<D: Driver>(
        self,
        driver: D,
    ) -> Result<(EventLoop, ManualLoop), BuildError> {
        let (shared, core) = self.parts::<Pinned, _>(driver, false)?;
        shared.thread.drive_manually();
        let manual_loop = ManualLoop::new(Arc::clone(&shared), core);
        Ok((EventLoop::from_shared(shared), manual_loop))
    }

    /// Builds a roaming event loop that a strategy drives on the threads of `config`. While a task
    /// that may block runs, another thread continues with the event loop. Timers, listeners,
    /// futures and tasks made with [`Task::non_blocking`](tidegate_core::Task::non_blocking) run on
    /// the event loop itself, one at a time, and a blocking wait inside them is refused.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopBuilder::build`], and [`BuildError::NoThreads`] if the pool has no thread
    /// that the event loop can keep, or [`BuildError::Strategy`] if the strategy could not be built.
    pub fn build_roaming(self, config: &RoamingConfig) -> Result<EventLoop<Roaming>, BuildError> {
        self.build_roaming_with_driver(ParkDriver::new(), config)
    }

    /// [`EventLoopBuilder::build_roaming`] with a `driver`.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopBuilder::build_roaming`].
    #[doc(hidden)]
    pub fn build_roaming_with_driver<D: Driver>(
        self,
        driver: D,
        config: &RoamingConfig,
    ) -> Result<EventLoop<Roaming>, BuildError> {
        let (shared, core) = self.parts::<Roaming, D>(driver, true)?;
        drop(shared.core.put(Box::new(core)));
        config.drive(&shared)?;
        Ok(EventLoop::from_shared(shared))
    }

    /// Returns a copy of the builder for the group's loop number `at`.
    pub(crate) fn numbered(&self, at: usize) -> Self {
        let mut one = self.clone();
        one.name = format!("{}-{at}", self.name);
        one
    }

    /// Sets the thread builder to its default if none was given: threads with the name of the loop.
    fn with_threads(mut self) -> Self {
        let threads = self.threads.take();
        self.threads = Some(threads.unwrap_or_else(|| ThreadBuilder::new(&*self.name)));
        self
    }

    fn parts<P: Placement, D: Driver>(
        self,
        driver: D,
        driven: bool,
    ) -> Result<(Arc<Shared>, Box<dyn Drive>), BuildError> {
        if matches!(self.reject, RejectPolicy::Backoff { attempts: 0, .. }) {
            return Err(BuildError::NoAttempts);
        }
        coarse_timers::check_tick(self.coarse_tick)?;
        let (lane, end) = TaskLane::new(self.bound);
        let this = self.with_threads();
        let shared = Shared::new(Parts {
            settings: Settings {
                time_tasks: this.time_tasks,
                coarse_tick: this.coarse_tick,
                spans: this.budget.into(),
                spin: !this.clock.is_manual(),
                pinned: P::PINNED,
                driven,
                idle_stop: this.idle_stop,
            },
            name: this.name,
            clock: this.clock,
            lane,
            waker: driver.waker(),
            health: driver.health(),
            driver: driver.view(),
            reject: this.reject,
            on_unhandled: this.on_unhandled.clone(),
            threads: this
                .threads
                .map(|threads| threads.or_report_to(&this.on_unhandled)),
        });
        Ok((shared, Box::new(Core::new(driver, end))))
    }
}

impl std::fmt::Debug for EventLoopBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLoopBuilder")
            .field("name", &self.name)
            .field("bound", &self.bound)
            .field("reject", &self.reject)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! The limits of a queue bound.

    use super::*;

    #[test]
    fn a_bound_is_never_less_than_sixteen_nor_more_than_the_lane_can_hold() {
        for (asked, got) in [(0, 16), (15, 16), (17, 17), (usize::MAX, 1 << 30)] {
            assert_eq!(TaskLane::new(asked).0.bound(), got);
        }
    }
}
