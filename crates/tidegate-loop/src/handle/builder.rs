//! The builder of an event loop.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::{Sleeper, TaskLane, TaskLaneReceiver};
use tidegate_core::{Clock, OnUnhandled, ThreadBuilder, Unhandled};
use tidegate_pool::internal::{self, default_bound};

use super::event_loop::EventLoop;
use super::manual::ManualLoop;
use super::placement::{Pinned, Placement};
use crate::core::budget::TurnBudget;
use crate::core::driver::{Driver, ParkDriver};
use crate::core::loop_core::Core;
use crate::errors::BuildError;
use crate::schedule::coarse_timers;
use crate::shutdown::end_watch::EndWatch;
use crate::state::health::Health;
use crate::state::settings::Settings;
use crate::state::shared::{Drive, DriverView, Parts, Shared};
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
    /// Watches the shutdowns of the event loops that clones of this builder build.
    end_watch: Arc<EndWatch>,
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
        let clock = Clock::system();
        Self {
            name: name.into(),
            end_watch: EndWatch::new(&clock),
            clock,
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
        self.end_watch = EndWatch::new(&self.clock);
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

    /// Creates the state and the core of an event loop with placement `P`. A strategy will drive it
    /// if it is `driven`.
    pub(crate) fn parts<P: Placement, D: Driver>(
        self,
        driver: D,
        driven: bool,
    ) -> Result<(Arc<Shared>, Box<dyn Drive>), BuildError> {
        let of_driver = (driver.waker(), driver.health(), driver.view());
        let (shared, end) = self.shared(P::PINNED, driven, of_driver)?;
        Ok((shared, Box::new(Core::new(driver, end))))
    }

    /// The part of `parts` that depends on no type.
    fn shared(
        self,
        pinned: bool,
        driven: bool,
        (waker, health, driver): (Arc<dyn Sleeper>, Health, Option<Arc<dyn DriverView>>),
    ) -> Result<(Arc<Shared>, TaskLaneReceiver), BuildError> {
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
                pinned,
                driven,
                idle_stop: this.idle_stop,
            },
            name: this.name,
            clock: this.clock,
            lane,
            waker,
            health,
            driver,
            reject: this.reject,
            on_unhandled: this.on_unhandled.clone(),
            threads: this
                .threads
                .map(|threads| threads.or_report_to(&this.on_unhandled)),
            end_watch: this.end_watch,
        });
        Ok((shared, end))
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
