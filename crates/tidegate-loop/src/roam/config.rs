//! The threads and the strategy that drive roaming loops.

use std::fmt;
use std::sync::Arc;

use tidegate_pool::TryExecutor;
use tidegate_pool::strategy::{Adaptive, Monitor, Strategy};

use super::loop_pool::LoopPool;
use super::producer::LoopProducer;
use crate::errors::BuildError;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Roaming;
use crate::state::shared::Shared;

/// Creates the strategy of one event loop.
type BuildStrategy =
    Arc<dyn Fn(LoopProducer, Arc<dyn TryExecutor>) -> Arc<dyn Strategy> + Send + Sync>;

/// The threads and the strategy that drive roaming loops.
///
/// A roaming loop keeps one thread of the pool for as long as it has something to wait for. The
/// pool needs as many additional threads as tasks may block at the same time. The default strategy,
/// [`Adaptive`], never lets a task block the last thread that could drive the loop. With a monitor
/// ([`RoamingConfig::late`]), tasks run as long as one thread of the pool is not blocked, and the
/// loops continue even if all of them are blocked.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_loop::{EventLoop, RoamingConfig};
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::strategy::Monitor;
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let config = RoamingConfig::new(pool).late(&Monitor::start("io")?);
/// let home = EventLoop::builder("home").build_roaming(&config)?;
/// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RoamingConfig {
    pool: Arc<dyn TryExecutor>,
    build: BuildStrategy,
    manual: bool,
}

impl RoamingConfig {
    /// Uses the threads of `pool`. The strategy is [`Adaptive`] with eager hand-over.
    pub fn new(pool: Arc<dyn TryExecutor>) -> Self {
        Self {
            pool,
            build: Arc::new(|producer, pool| Arc::new(Adaptive::new(producer, pool))),
            manual: false,
        }
    }

    /// Makes the loops hand over late, watched by `monitor`. The strategy is [`Adaptive`] with this
    /// monitor; it replaces the one that was chosen before.
    pub fn late(self, monitor: &Monitor) -> Self {
        let monitor = monitor.clone();
        self.strategy(move |producer, pool| {
            Adaptive::builder(producer, pool).late(&monitor).build()
        })
    }

    /// Chooses the strategy: `build` creates it for each event loop, from the loop as a producer
    /// and the pool.
    ///
    /// | strategy | on an event loop |
    /// |---|---|
    /// | [`Adaptive`] | the default, and the one to use; see also [`RoamingConfig::late`] |
    /// | [`ProduceExecuteConsume`](tidegate_pool::strategy::ProduceExecuteConsume) | the loop's thread only waits for events and gives away each task that may block: no task delays the next one, but each costs a hand-off |
    /// | [`EatWhatYouKill`](tidegate_pool::strategy::EatWhatYouKill) | runs tasks on the loop's thread, and gives them away while the pool is low on threads |
    /// | [`ExecuteProduceConsume`](tidegate_pool::strategy::ExecuteProduceConsume) | runs tasks on the loop's thread while a helper takes the loop over. **The loop stands still** while a task blocks and the helper waits for a thread of the pool |
    /// | [`ProduceConsume`](tidegate_pool::strategy::ProduceConsume) | runs tasks on the loop's thread. **The loop stands still** while a task blocks; a [`Watchdog`](crate::Watchdog) reports it |
    ///
    /// A strategy of your own implements [`Strategy`], whose documentation has the contract.
    ///
    /// The pool that `build` gets belongs to one event loop: a panic on it is reported to the hook
    /// of the loop. If the policy of the pool is
    /// [`PoolPolicy::CallerRuns`](tidegate_pool::PoolPolicy::CallerRuns), a task that is given away
    /// and does not fit into the queue runs on the loop's thread, and the loop stands still
    /// meanwhile.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate_loop::{EventLoop, RoamingConfig};
    /// use tidegate_pool::WorkerPool;
    /// use tidegate_pool::strategy::{EatWhatYouKill, ProduceExecuteConsume};
    ///
    /// let pool = Arc::new(WorkerPool::builder("workers").max(8).build()?);
    /// let config = RoamingConfig::new(pool);
    ///
    /// let only_produces =
    ///     config.clone().strategy(|producer, pool| ProduceExecuteConsume::new(producer, pool));
    /// let home = EventLoop::builder("home").build_roaming(&only_produces)?;
    /// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
    /// assert_eq!(home.strategy().name(), "ProduceExecuteConsume");
    ///
    /// let eats = config.strategy(|producer, pool| {
    ///     let strategy = EatWhatYouKill::new(producer, pool);
    ///     strategy.low_threads(2);
    ///     strategy
    /// });
    /// let other = EventLoop::builder("other").build_roaming(&eats)?;
    /// assert_eq!(other.submit(|| 1 + 1)?.wait()?, 2);
    /// println!("{}", other.strategy().metrics());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strategy<S: Strategy>(
        mut self,
        build: impl Fn(LoopProducer, Arc<dyn TryExecutor>) -> S + Send + Sync + 'static,
    ) -> Self {
        self.build = Arc::new(move |producer, pool| Arc::new(build(producer, pool)));
        self
    }

    /// Makes the loop never wait: a caller of [`Strategy::produce`] on
    /// [`EventLoop::strategy`](crate::EventLoop::strategy) gets its thread back when there is
    /// nothing to do. For tests.
    pub fn manual(mut self) -> Self {
        self.manual = true;
        self
    }

    /// Creates the strategy that drives the event loop of `shared`.
    pub(crate) fn drive(&self, shared: &Arc<Shared>) -> Result<(), BuildError> {
        // A loop that waits keeps a thread of the pool.
        let lease = match self.manual {
            true => None,
            false => {
                let lease = self.pool.lease_threads(&shared.name, 1);
                lease.map_err(BuildError::NoThreads)?.map(Arc::new)
            }
        };
        // The loop keeps it as well, and ends it: the strategy may outlive the loop.
        shared.thread.keep_lease(lease.clone());
        let pool = Arc::new(LoopPool::new(&self.pool, shared, lease));
        let producer = LoopProducer::new(shared, self.manual);
        let strategy = (self.build)(producer, pool);
        let name = strategy.name();
        shared.thread.drive_by(strategy, name);
        Ok(())
    }
}

impl fmt::Debug for RoamingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoamingConfig")
            .field("pool", &self.pool.name())
            .finish_non_exhaustive()
    }
}

impl EventLoop<Roaming> {
    /// Returns the strategy that drives this event loop.
    ///
    /// Use it for its metrics. A shutdown of the strategy ends the event loop with
    /// [`ShutdownError::BadStrategy`](crate::ShutdownError::BadStrategy).
    pub fn strategy(&self) -> Arc<dyn Strategy> {
        let strategy = self.shared.thread.strategy();
        strategy.unwrap_or_else(|| unreachable!("a roaming event loop is built with a strategy"))
    }
}
