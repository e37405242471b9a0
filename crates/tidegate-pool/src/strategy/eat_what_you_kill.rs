//! The rule of 2015: run a task on the thread that produced it while many threads are free, and
//! give it to the executor when few are.
//!
//! This is what articles describe as "EatWhatYouKill". Jetty replaced it within two years by the
//! rule that [`Adaptive`](crate::strategy::Adaptive) uses. It is kept here so that the articles can
//! be reproduced. One fault of the original is corrected: this version checks the threads for each
//! task, so it leaves the low mode when threads are free again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::executor::{Need, Work};
use tidegate_core::{Blocking, Dump, Executor, Task};

use crate::pool::TryExecutor;
use crate::strategy::raw::ProducerGuard;

use super::engine::{Engine, Rule};
use super::execute_produce_consume::run_with_helper;
use super::handle::strategy_handle;
use super::producer::Producer;

/// The default number of free threads at or below which a pool counts as low on threads.
const DEFAULT_LOW_THREADS: usize = 1;

/// Acts as [`ExecuteProduceConsume`](crate::strategy::ExecuteProduceConsume) while the pool has
/// free threads, and as [`ProduceExecuteConsume`](crate::strategy::ProduceExecuteConsume) while it
/// is low on them: its thread then only produces and gives every task that may block away.
///
/// The pool is checked for each task that may block, so the mode changes while the strategy runs.
/// [`StrategyMetrics::mode_switches`](crate::strategy::StrategyMetrics::mode_switches) counts the
/// changes, and `low_on_threads` shows the current mode. The free threads are counted, not
/// reserved: if other jobs take them before the helper arrives, production waits for the end of the
/// task. [`Adaptive`](crate::strategy::Adaptive) has no such gap.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::strategy::{EatWhatYouKill, Strategy};
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
    /// Creates a strategy for `producer` whose helpers and tasks go to `pool`.
    pub fn new(producer: P, pool: Arc<dyn TryExecutor>) -> Self {
        let rule = Ewyk {
            pool: Arc::clone(&pool),
            low: AtomicUsize::new(DEFAULT_LOW_THREADS),
        };
        Self {
            engine: Engine::new(producer, rule, pool),
        }
    }

    /// Sets the number of free threads (idle, or that may start) at or below which the pool counts
    /// as low; applies from the next task on. The default is 1.
    pub fn low_threads(&self, threads: usize) {
        self.engine.rule.low.store(threads, Ordering::Relaxed);
    }

    /// Returns `true` if the pool counts as low at this moment.
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
        let room = self.pool.free_threads();
        room.idle.saturating_add(room.may_start) <= self.low.load(Ordering::Relaxed)
    }
}

impl<P: Producer> Rule<P> for Ewyk {
    fn consume<'a>(
        engine: &'a Arc<Engine<P, Self>>,
        held: ProducerGuard<'a, P>,
        task: Task,
        tagged: bool,
    ) -> Option<ProducerGuard<'a, P>> {
        match (task.blocking(), tagged) {
            (Blocking::Never, _) | (Blocking::Adapts, true) => {
                Some(engine.produce_consume(held, task))
            }
            (Blocking::May, true) => Some(engine.produce_execute_consume(held, task)),
            (Blocking::Adapts | Blocking::May, false) => {
                let low = engine.rule.is_low();
                engine.counters.set_low_on_threads(low);
                match low {
                    true => Some(engine.produce_execute_consume(held, task)),
                    false => run_with_helper(engine, held, task),
                }
            }
        }
    }

    fn task_needs(&self, executor: &dyn Executor) -> Vec<Need> {
        executor.needs(Work::Given)
    }

    fn describe(&self, dump: Dump) -> Dump {
        dump.fact("pool_is_low", self.is_low())
            .fact("low_threads", self.low.load(Ordering::Relaxed))
    }
}
