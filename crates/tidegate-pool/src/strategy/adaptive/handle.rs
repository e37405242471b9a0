//! The adaptive strategy: its handle and its builder.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::pool::{Lease, ThreadBudgetError, TryExecutor};
use crate::strategy::engine::Engine;
use crate::strategy::handle::strategy_handle;
use crate::strategy::monitor::{Monitor, Watched};
use crate::strategy::producer::Producer;

use super::choice::Choice;

/// Decides for each task whether to run it here, to run it here without blocking, to give it to the
/// executor, or to run it here while another thread produces.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::strategy::{Adaptive, Monitor, Strategy};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let monitor = Monitor::start("io")?;
/// let strategy = Adaptive::builder(|| None, pool).late(&monitor).build();
/// strategy.produce();
/// println!("{}", strategy.metrics());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Adaptive<P> {
    engine: Arc<Engine<P, Choice>>,
}

/// A builder for an [`Adaptive`] strategy.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::strategy::{Adaptive, Strategy};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let eager = Adaptive::builder(|| None, pool).lease("io")?.build();
/// eager.produce();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct AdaptiveBuilder<P> {
    producer: P,
    pool: Arc<dyn TryExecutor>,
    monitor: Option<Monitor>,
    lease: Option<Lease>,
}

impl<P: Producer> Adaptive<P> {
    /// Creates a strategy for `producer` with the threads of `pool` and eager hand-over.
    pub fn new(producer: P, pool: Arc<dyn TryExecutor>) -> Self {
        Self::builder(producer, pool).build()
    }

    /// Creates a builder for a strategy for `producer` with the threads of `pool`.
    pub fn builder(producer: P, pool: Arc<dyn TryExecutor>) -> AdaptiveBuilder<P> {
        AdaptiveBuilder {
            producer,
            pool,
            monitor: None,
            lease: None,
        }
    }
}

impl<P: Producer> AdaptiveBuilder<P> {
    /// Enables late hand-over with `monitor`. The strategy keeps the monitor running.
    pub fn late(mut self, monitor: &Monitor) -> Self {
        self.monitor = Some(monitor.clone());
        self
    }

    /// Leases one thread of the pool in the name of `holder`. Use it for a producer that waits
    /// inside [`Producer::produce`] and so occupies a thread of the pool. A pool with too few
    /// threads then fails now, and its number of free threads is correct. The lease ends with the
    /// strategy.
    ///
    /// # Errors
    ///
    /// [`ThreadBudgetError`] if no thread would be left for tasks.
    pub fn lease(mut self, holder: &str) -> Result<Self, ThreadBudgetError> {
        self.lease = self.pool.lease_threads(holder, 1)?;
        Ok(self)
    }

    /// Builds the strategy.
    pub fn build(self) -> Adaptive<P> {
        let lease = self.lease.map(Arc::new);
        let lease = lease.or_else(|| self.pool.own_lease());
        if let Some(lease) = &lease {
            lease.set_in_use(false);
        }
        let pool = Arc::clone(&self.pool);
        let rule = Choice::new(pool, self.monitor, lease, self.producer.interrupter());
        let engine = Engine::new(self.producer, rule, self.pool);
        if let Some(watch) = engine.rule.any_watch() {
            let weak = Arc::downgrade(&engine);
            let weak: Weak<dyn Watched> = weak;
            watch.add(weak);
        }
        Adaptive { engine }
    }
}

impl<P> fmt::Debug for AdaptiveBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveBuilder")
            .field("late", &self.monitor.is_some())
            .finish_non_exhaustive()
    }
}

strategy_handle!(Adaptive, "Adaptive");
