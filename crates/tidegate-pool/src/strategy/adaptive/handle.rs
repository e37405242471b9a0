//! The adaptive strategy: its handle and its builder.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::pool::{Lease, OverBudget, TryExecutor};
use crate::strategy::engine::{Engine, Options};
use crate::strategy::handle::strategy_handle;
use crate::strategy::monitor::{Monitor, Watched};
use crate::strategy::producer::Producer;

use super::choice::{Choice, Interrupt};

/// Chooses for each task between running it here, running it here without blocking, giving it
/// away, and running it here while another thread produces.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::{Adaptive, Monitor, Strategy, WorkerPool};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let monitor = Monitor::start("io")?;
/// let strategy = Adaptive::builder(|| None, pool).late(&monitor).build();
/// strategy.produce();
/// println!("{}", strategy.counts());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Adaptive<P> {
    engine: Arc<Engine<P, Choice>>,
}

/// Describes an [`Adaptive`] strategy.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::{Adaptive, Options, Strategy, WorkerPool};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let options = Options::new().on_refused(|refused| eprintln!("{refused}"));
/// let eager = Adaptive::builder(|| None, pool).options(options).build();
/// eager.produce();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdaptiveBuilder<P> {
    producer: P,
    pool: Arc<dyn TryExecutor>,
    options: Options,
    monitor: Option<Monitor>,
    lease: Option<Lease>,
    interrupt: Option<Interrupt>,
}

impl<P: Producer> Adaptive<P> {
    /// A strategy over `producer` whose threads come from `pool`, handing over eagerly.
    pub fn new(producer: P, pool: Arc<dyn TryExecutor>) -> Self {
        Self::builder(producer, pool).build()
    }

    /// Describes a strategy over `producer` whose threads come from `pool`.
    pub fn builder(producer: P, pool: Arc<dyn TryExecutor>) -> AdaptiveBuilder<P> {
        AdaptiveBuilder {
            producer,
            pool,
            options: Options::new(),
            monitor: None,
            lease: None,
            interrupt: None,
        }
    }

    /// Switches late hand-over off or on again, from the next task on. Without a monitor it is
    /// always off.
    pub fn set_late(&self, on: bool) {
        self.engine.rule.late_on.store(on, Ordering::Relaxed);
    }

    /// Whether it hands over late.
    pub fn is_late(&self) -> bool {
        self.engine.rule.watch().is_some()
    }
}

impl<P: Producer> AdaptiveBuilder<P> {
    /// Hands over late, with `monitor` watching. The strategy keeps the monitor running.
    pub fn late(mut self, monitor: &Monitor) -> Self {
        self.monitor = Some(monitor.clone());
        self
    }

    /// What else it is told.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// For a producer that waits inside [`Producer::produce`] and so keeps a thread of the pool as
    /// long as it has something to wait for: leases that thread in the name of `who`, so that a
    /// pool with too few threads says so now, and its room is true. The lease ends with the
    /// strategy.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when no thread would be left for tasks.
    pub fn lease(mut self, who: &str) -> Result<Self, OverBudget> {
        self.lease = self.pool.lease_threads(who, 1)?;
        Ok(self)
    }

    /// How a producer that waits inside is made to return with a task that does not insist on never
    /// blocking, so that its thread can be had for tasks that wait for one.
    #[doc(hidden)]
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// Makes the strategy.
    pub fn build(self) -> Adaptive<P> {
        if let Some(lease) = &self.lease {
            lease.uses(false);
        }
        let pool = Arc::clone(&self.pool);
        let rule = Choice::new(pool, self.monitor, self.lease, self.interrupt);
        let engine = Engine::new(self.producer, rule, self.pool, self.options);
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
