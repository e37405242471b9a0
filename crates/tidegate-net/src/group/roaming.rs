//! Groups of roaming loops with I/O: how they are built, and how channels are placed on them.
//!
//! Only with the feature `roaming`; without it, `no_roaming.rs` is here.

use std::fmt;
use std::io;
use std::sync::Arc;

use tidegate_loop::{BuildError, EventLoop, LoopProducer, Roaming, RoamingConfig};
use tidegate_pool::strategy::{Monitor, Strategy, StrategyMetrics};
use tidegate_pool::{TryExecutor, WorkerPool};

use super::builder::NetGroupBuilder;
use super::net_group::NetGroup;
use super::placement::{ChannelPlacement, ChannelPlacer, Unwatched};
use crate::channel::ChannelCore;
use crate::pipeline::{Erased, Pipeline};
use crate::reactor::{IoSource, RoamingDriver, Update};
use crate::sys::SystemPoller;

/// The settings of a builder for roaming loops.
#[derive(Debug, Default)]
pub(super) struct RoamingSettings {
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

/// Creates `loops` event loops with I/O on the threads of `workers`. A channel moves to the thread
/// that runs its handlers, and while one of them blocks, another thread goes on with the loop. The
/// strategy is [`Adaptive`](tidegate_pool::strategy::Adaptive) with late hand-over.
///
/// Each loop keeps one thread of the pool; the others are for handlers that block. If all the
/// others are blocked, the monitor's own threads keep the loops going, and handlers run as long as
/// one thread of the pool is not blocked. End the loops before the pool.
///
/// # Errors
///
/// [`BuildError`] if the pool is too small for so many loops, or if a poller or the monitor's
/// thread cannot be created.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let workers = WorkerPool::builder("workers").core(4).max(64).build()?;
/// let group = tidegate_net::roaming("io", 2, &workers)?;
/// assert_eq!(group.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn roaming(
    name: impl Into<String>,
    loops: usize,
    workers: &WorkerPool,
) -> Result<NetGroup<Roaming>, BuildError> {
    NetGroup::builder(name).loops(loops).build_roaming(workers)
}

impl NetGroup<Roaming> {
    /// Returns the decisions of each loop's strategy, in the order of the loops: how many tasks ran
    /// in place, were given away, or were handed over late.
    pub fn metrics(&self) -> Vec<StrategyMetrics> {
        let strategies = self.loops.iter().map(EventLoop::strategy);
        strategies.map(|strategy| strategy.metrics()).collect()
    }
}

impl NetGroupBuilder {
    /// Makes roaming event loops share `monitor` with others. Without one they start a monitor of
    /// their own. Has no effect together with [`strategy`](NetGroupBuilder::strategy).
    pub fn monitor(mut self, monitor: &Monitor) -> Self {
        self.roaming.monitor = Some(monitor.clone());
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
        self.roaming.strategy = Some(ChooseStrategy(Box::new(choose)));
        self
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
        let RoamingSettings { monitor, strategy } = std::mem::take(&mut self.roaming);
        let config = match (strategy, monitor) {
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
        let mut group = NetGroup::new(loops, watches, roams, &inboxes);
        group.network = self.network;
        Ok(group)
    }
}

impl ChannelPlacement for Roaming {
    fn place(placer: ChannelPlacer) {
        let ChannelPlacer {
            transport,
            parts,
            checked,
            start,
        } = placer;
        let Some(roam) = parts.io.shared.roam().cloned() else {
            return;
        };
        let unwatched = Unwatched::of(&parts, &start);
        let pipeline = Pipeline::<dyn Erased + Send>::new(parts, checked);
        let make = move |token| -> Box<dyn IoSource + Send> {
            Box::new(ChannelCore::new(transport, pipeline, start, token))
        };
        // A loop that has ended drops it, which fails the promise of a connect.
        let done = move |registered: io::Result<()>| {
            if let Err(why) = registered {
                unwatched.report(&why);
            }
        };
        let _ = roam.push(Update::Register(Box::new(make), Box::new(done)));
    }
}
