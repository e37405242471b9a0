//! The threads and the strategy that drive roaming loops.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Blocking, RejectReason, Rejected, Task};
use tidegate_pool::internal::InterruptFn;
use tidegate_pool::strategy::{Adaptive, Monitor, ProduceExecuteConsume, Strategy};
use tidegate_pool::{ThreadBudgetError, TryExecutor};

use super::loop_pool::LoopPool;
use super::producer::LoopProducer;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Roaming;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;

/// The threads that drive roaming loops: a pool, and a monitor if the loops hand over late.
///
/// A roaming loop keeps one thread of the pool for as long as it has something to wait for. The
/// pool needs as many additional threads as tasks may block at the same time. With a monitor, tasks
/// run as long as one thread of the pool is not blocked, and the loops continue even if all of them
/// are blocked.
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
    monitor: Option<Monitor>,
    only_produce: bool,
    manual: bool,
}

impl RoamingConfig {
    /// Uses the threads of `pool`; the loops hand over eagerly.
    pub fn new(pool: Arc<dyn TryExecutor>) -> Self {
        Self {
            pool,
            monitor: None,
            only_produce: false,
            manual: false,
        }
    }

    /// Makes the loops hand over late, watched by `monitor`.
    pub fn late(mut self, monitor: &Monitor) -> Self {
        self.monitor = Some(monitor.clone());
        self
    }

    /// Makes the thread of a loop only produce: each task that may block goes to the pool,
    /// regardless of the monitor. The strategy is [`ProduceExecuteConsume`] instead of
    /// [`Adaptive`]. No task is delayed by the task before it, but every task costs a hand-off.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate_loop::{EventLoop, RoamingConfig};
    /// use tidegate_pool::WorkerPool;
    ///
    /// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
    /// let config = RoamingConfig::new(pool).only_produce();
    /// let home = EventLoop::builder("home").build_roaming(&config)?;
    /// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
    /// assert_eq!(home.strategy().name(), "ProduceExecuteConsume");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only_produce(mut self) -> Self {
        self.only_produce = true;
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
    pub(crate) fn drive(
        &self,
        shared: &Arc<Shared>,
    ) -> Result<Arc<dyn Strategy>, ThreadBudgetError> {
        let producer = LoopProducer::new(shared, self.manual);
        // `ProduceExecuteConsume` waits inside the producer and so keeps a thread. `Adaptive` takes
        // its own lease below.
        let leased = self.only_produce && !self.manual;
        let lease = match leased {
            true => self.pool.lease_threads(&shared.name, 1)?,
            false => None,
        };
        let pool = Arc::new(LoopPool::new(&self.pool, shared, lease));
        let weak = Arc::downgrade(shared);
        let on_refused = move |refused: Rejected<Task>| {
            let driver = |shared: Arc<Shared>| shared.handed_out.is_of_driver();
            // A refused task of the driver is dropped, which returns the work to the driver. A
            // submitted task was accepted and must not be lost: it runs here, where it must not
            // block, unless the pool is closed.
            if refused.why() == RejectReason::Closed || weak.upgrade().is_none_or(driver) {
                drop(refused);
            } else {
                Blocking::forbid(|| refused.into_inner().run());
            }
        };
        if self.only_produce {
            let builder = ProduceExecuteConsume::builder(producer, pool);
            return Ok(Arc::new(builder.on_refused(on_refused).build()));
        }
        let builder = Adaptive::builder(producer, pool).on_refused(on_refused);
        let builder = match &self.monitor {
            Some(monitor) => builder.late(monitor),
            None => builder,
        };
        let builder = match self.manual {
            true => builder,
            false => builder.lease(&shared.name)?,
        };
        Ok(Arc::new(builder.interrupt(interrupt(shared)).build()))
    }
}

/// Returns a closure that ends the wait of an event loop's thread, with a task that does nothing.
fn interrupt(shared: &Arc<Shared>) -> InterruptFn {
    let weak = Arc::downgrade(shared);
    Box::new(move || {
        let Some(shared) = weak.upgrade() else {
            return;
        };
        let task = Task::of(Blocking::Adapts, || ());
        // If the lane is full, the event loop has work and does not wait.
        if shared.state.get() < Lifecycle::ShuttingDown && shared.mailbox.lane.push(task).is_ok() {
            shared.ring();
        }
    })
}

impl fmt::Debug for RoamingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoamingConfig")
            .field("pool", &self.pool.name())
            .field("late", &self.monitor.is_some())
            .field("only_produce", &self.only_produce)
            .finish()
    }
}

impl EventLoop<Roaming> {
    /// Returns the strategy that drives this event loop.
    pub fn strategy(&self) -> Arc<dyn Strategy> {
        let strategy = self.shared.thread.strategy();
        strategy.unwrap_or_else(|| unreachable!("a roaming event loop is built with a strategy"))
    }
}
