//! The rule of 2015: eat what you kill while threads are plenty, hand over when they are few.
//!
//! This is what articles describe as "EatWhatYouKill". Jetty left it within two years for the
//! choice that [`Adaptive`](crate::Adaptive) makes; it is here so that the articles can be
//! reproduced. One fault of the original is left out: it looks at the threads for each task, so
//! it leaves the low mode when threads are back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::{Blocking, Task};

use crate::pool::TryExecutor;
use crate::strategy::raw::Held;

use super::engine::{Engine, Options, Rule};
use super::execute_produce_consume::eat;
use super::handle::strategy_handle;
use super::producer::Producer;

/// Threads to be had, at or below which a pool counts as low.
pub const DEFAULT_LOW_THREADS: usize = 1;

/// Is [`ExecuteProduceConsume`](crate::ExecuteProduceConsume) while the pool has threads, and
/// [`ProduceExecuteConsume`](crate::ProduceExecuteConsume) while it is low on them.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::{EatWhatYouKill, Strategy, WorkerPool};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let strategy = EatWhatYouKill::new(|| None, pool);
/// strategy.low_threads(3);
/// strategy.produce();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EatWhatYouKill<P> {
    engine: Arc<Engine<P, Ewyk>>,
}

impl<P: Producer> EatWhatYouKill<P> {
    /// A strategy over `producer` whose helpers and tasks go to `pool`.
    pub fn new(producer: P, pool: Arc<dyn TryExecutor>) -> Self {
        Self::with(producer, pool, Options::new())
    }

    /// The same with options.
    pub fn with(producer: P, pool: Arc<dyn TryExecutor>, options: Options) -> Self {
        let rule = Ewyk {
            pool: Arc::clone(&pool),
            low: AtomicUsize::new(DEFAULT_LOW_THREADS),
        };
        Self {
            engine: Engine::new(producer, rule, pool, options),
        }
    }

    /// Threads to be had (idle, or that may start), at or below which the pool counts as low;
    /// [`DEFAULT_LOW_THREADS`] if nothing is said. From the next task on.
    pub fn low_threads(&self, threads: usize) {
        self.engine.rule.low.store(threads, Ordering::Relaxed);
    }

    /// Whether the pool counts as low at this moment.
    pub fn is_low(&self) -> bool {
        self.engine.rule.is_low()
    }
}

strategy_handle!(EatWhatYouKill, "EatWhatYouKill");

struct Ewyk {
    pool: Arc<dyn TryExecutor>,
    low: AtomicUsize,
}

impl Ewyk {
    fn is_low(&self) -> bool {
        let room = self.pool.room();
        room.idle.saturating_add(room.may_start) <= self.low.load(Ordering::Relaxed)
    }
}

impl<P: Producer> Rule<P> for Ewyk {
    fn consume<'a>(
        engine: &'a Arc<Engine<P, Self>>,
        held: Held<'a, P>,
        task: Task,
        tagged: bool,
    ) -> Option<Held<'a, P>> {
        match (task.blocking(), tagged) {
            (Blocking::Never, _) | (Blocking::Adapts, true) => {
                Some(engine.produce_consume(held, task))
            }
            (Blocking::May, true) => Some(engine.produce_execute_consume(held, task)),
            _ if engine.rule.is_low() => Some(engine.produce_execute_consume(held, task)),
            (Blocking::Adapts | Blocking::May, false) => eat(engine, held, task),
        }
    }
}
