//! The builder of a group.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Clock, OnUnhandled, ThreadBuilder, Unhandled};
use tidegate_loop::{
    BuildError, Choose, EventLoopGroup, EventLoopGroupBuilder, LoopProducer, RejectPolicy, Roaming,
    RoamingConfig, Scaling, TurnBudget,
};
use tidegate_pool::strategy::{Monitor, Strategy};
use tidegate_pool::{TryExecutor, WorkerPool};

use super::net_group::NetGroup;
use crate::reactor::{PollDriver, RoamingDriver};
use crate::sys::SystemPoller;

/// The builder of a [`NetGroup`]. Ends with [`build`](NetGroupBuilder::build) for pinned loops, or
/// with [`build_roaming`](NetGroupBuilder::build_roaming) for roaming ones.
///
/// ```
/// use tidegate_core::OnUnhandled;
/// use tidegate_loop::Choose;
/// use tidegate_net::NetGroup;
///
/// let hook = OnUnhandled::new(|place, what| println!("{place}: {what}"));
/// let group = NetGroup::builder("io").loops(2).choose(Choose::LessBusy).report_to(hook).build()?;
/// assert_eq!(group.io_metrics().len(), 2);
/// # Ok::<(), tidegate_loop::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct NetGroupBuilder {
    name: String,
    pub(super) loops: EventLoopGroupBuilder,
    monitor: Option<Monitor>,
    strategy: Option<ChooseStrategy>,
}

/// Sets the strategy that [`NetGroupBuilder::strategy`] chose.
struct ChooseStrategy(Box<dyn FnOnce(RoamingConfig) -> RoamingConfig + Send>);

impl fmt::Debug for ChooseStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChooseStrategy")
    }
}

impl NetGroup {
    /// Returns the builder of a group whose event loops are called `name-0`, `name-1` and so on.
    pub fn builder(name: impl Into<String>) -> NetGroupBuilder {
        let name = name.into();
        NetGroupBuilder {
            loops: EventLoopGroup::builder(name.clone()),
            name,
            monitor: None,
            strategy: None,
        }
    }
}

impl NetGroupBuilder {
    /// Sets the number of event loops; 0, the default, means twice the number of processors.
    pub fn loops(self, loops: usize) -> Self {
        self.with_loops(|builder| builder.loops(loops))
    }

    /// Sets how the loop of the next connection is chosen.
    pub fn choose(self, how: Choose) -> Self {
        self.with_loops(|builder| builder.choose(how))
    }

    /// Makes the number of active event loops follow the load.
    pub fn scaling(self, scaling: Scaling) -> Self {
        self.with_loops(|builder| builder.scaling(scaling))
    }

    /// Sets the clock of the event loops and of everything that they time.
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        self.with_loops(|builder| builder.clock(clock))
    }

    /// Sets how many tasks may wait on each event loop.
    pub fn bound(self, tasks: usize) -> Self {
        self.with_loops(|builder| builder.bound(tasks))
    }

    /// Sets what happens to a task that a full event loop has no room for.
    pub fn reject(self, policy: RejectPolicy) -> Self {
        self.with_loops(|builder| builder.reject(policy))
    }

    /// Sets how the threads of pinned event loops are started.
    pub fn threads(self, threads: ThreadBuilder) -> Self {
        self.with_loops(|builder| builder.threads(threads))
    }

    /// Sets the hook for unhandled errors: panics on the loops, errors that no handler takes,
    /// connections that were cut.
    pub fn on_unhandled(self, hook: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.with_loops(|builder| builder.on_unhandled(hook))
    }

    /// Sets a hook for unhandled errors that others share.
    pub fn report_to(self, hook: OnUnhandled) -> Self {
        self.with_loops(|builder| builder.report_to(hook))
    }

    /// Sets whether the duration of each task is measured.
    pub fn time_tasks(self, yes: bool) -> Self {
        self.with_loops(|builder| builder.time_tasks(yes))
    }

    /// Sets how long a turn spends on timers, tasks and I/O.
    pub fn turn_budget(self, budget: TurnBudget) -> Self {
        self.with_loops(|builder| builder.turn_budget(budget))
    }

    /// Makes roaming event loops share `monitor` with others. Without one they start a monitor of
    /// their own. Has no effect together with [`strategy`](NetGroupBuilder::strategy).
    pub fn monitor(mut self, monitor: &Monitor) -> Self {
        self.monitor = Some(monitor.clone());
        self
    }

    /// Chooses the strategy that drives roaming event loops, instead of
    /// [`Adaptive`](tidegate_pool::strategy::Adaptive) with a monitor. `build` creates it for each
    /// loop; [`RoamingConfig::strategy`] has a table of the strategies and what they do to a loop.
    ///
    /// ```
    /// use tidegate_net::NetGroup;
    /// use tidegate_pool::WorkerPool;
    /// use tidegate_pool::strategy::EatWhatYouKill;
    ///
    /// let workers = WorkerPool::builder("workers").core(4).max(64).build()?;
    /// let group = NetGroup::builder("io").loops(2).strategy(EatWhatYouKill::new);
    /// let group = group.build_roaming(&workers)?;
    /// println!("{}", group.metrics()[0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strategy<S: Strategy>(
        mut self,
        build: impl Fn(LoopProducer, Arc<dyn TryExecutor>) -> S + Send + Sync + 'static,
    ) -> Self {
        let choose = |config: RoamingConfig| config.strategy(build);
        self.strategy = Some(ChooseStrategy(Box::new(choose)));
        self
    }

    fn with_loops(
        mut self,
        set: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    ) -> Self {
        self.loops = set(self.loops);
        self
    }

    /// Builds pinned event loops, each on a thread of its own that a channel never leaves. See
    /// [`pinned`](crate::pinned).
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the settings contradict each other or a poller cannot be created.
    pub fn build(self) -> Result<NetGroup, BuildError> {
        let (mut watches, mut inboxes) = (Vec::new(), Vec::new());
        let loops = self.loops.build_with_driver(|_| {
            let driver = PollDriver::new(SystemPoller::new()?);
            watches.push(driver.watch());
            inboxes.push(Arc::clone(driver.inbox()));
            Ok(driver)
        })?;
        Ok(NetGroup::new(loops, watches, Vec::new(), &inboxes))
    }

    /// Builds roaming event loops on the threads of `workers`. See [`roaming`](crate::roaming).
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the settings contradict each other, if the pool is too small for so many
    /// loops, or if a poller or the monitor's thread cannot be created.
    ///
    /// ```
    /// use tidegate_net::NetGroup;
    /// use tidegate_pool::WorkerPool;
    ///
    /// let workers = WorkerPool::builder("workers").core(4).max(64).build()?;
    /// let group = NetGroup::builder("io").loops(2).build_roaming(&workers)?;
    /// assert_eq!(group.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_roaming(mut self, workers: &WorkerPool) -> Result<NetGroup<Roaming>, BuildError> {
        let config = RoamingConfig::new(Arc::new(workers.clone()));
        let config = match (self.strategy.take(), self.monitor.take()) {
            (Some(ChooseStrategy(choose)), _) => choose(config),
            (None, Some(monitor)) => config.late(&monitor),
            (None, None) => config.late(&Monitor::start(&self.name).map_err(BuildError::Driver)?),
        };
        self.build_roaming_with_config(&config)
    }

    /// Builds roaming event loops with the pool and strategy of `config`, which replaces those that
    /// [`monitor`](NetGroupBuilder::monitor) and [`strategy`](NetGroupBuilder::strategy) set.
    ///
    /// # Errors
    ///
    /// As for [`NetGroupBuilder::build_roaming`].
    pub fn build_roaming_with_config(
        self,
        config: &RoamingConfig,
    ) -> Result<NetGroup<Roaming>, BuildError> {
        let (mut watches, mut roams, mut inboxes) = (Vec::new(), Vec::new(), Vec::new());
        let driver = |_| {
            let driver = RoamingDriver::new(SystemPoller::new()?);
            watches.push(driver.watch());
            roams.push(Arc::clone(driver.roam()));
            inboxes.push(Arc::clone(driver.inbox()));
            Ok(driver)
        };
        let loops = self.loops.build_roaming_with_driver(driver, config)?;
        for (one, roam) in loops.iter().zip(&roams) {
            roam.set_timers(one.timers());
        }
        Ok(NetGroup::new(loops, watches, roams, &inboxes))
    }
}
