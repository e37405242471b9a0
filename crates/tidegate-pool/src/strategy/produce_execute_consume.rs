//! Produce, execute, consume: one thread produces, others consume.
//!
//! The producing thread runs tasks that never block. All others go to the executor, and production
//! continues without waiting. The order between tasks is that of the executor.

use std::sync::Arc;

use tidegate_core::executor::{Need, Work};
use tidegate_core::{Blocking, Executor, Task};

use crate::strategy::raw::ProducerGuard;

use super::engine::{Engine, Rule};
use super::handle::strategy_handle;
use super::producer::Producer;

/// Gives each task that may block to an executor.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::strategy::{ProduceExecuteConsume, Strategy};
/// use tidegate_core::{Task, ThreadBuilder};
/// use tidegate_core::thread::ThreadPerTask;
///
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let mut left = 2;
/// let producer = move || {
///     left -= 1;
///     let sender = sender.clone();
///     (left >= 0).then(|| Task::new(move || sender.send(std::thread::current().id()).unwrap()))
/// };
/// let threads = Arc::new(ThreadPerTask::new(ThreadBuilder::new("job")));
/// let strategy = ProduceExecuteConsume::new(producer, threads);
/// strategy.produce();
/// assert_ne!(receiver.recv()?, std::thread::current().id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ProduceExecuteConsume<P> {
    engine: Arc<Engine<P, Pec>>,
}

impl<P: Producer> ProduceExecuteConsume<P> {
    /// Creates a strategy for `producer` whose tasks go to `executor`.
    pub fn new(producer: P, executor: Arc<dyn Executor>) -> Self {
        Self {
            engine: Engine::new(producer, Pec, executor),
        }
    }
}

strategy_handle!(ProduceExecuteConsume, "ProduceExecuteConsume");

struct Pec;

impl<P: Producer> Rule<P> for Pec {
    fn consume<'a>(
        engine: &'a Arc<Engine<P, Self>>,
        held: ProducerGuard<'a, P>,
        task: Task,
        _tagged: bool,
    ) -> Option<ProducerGuard<'a, P>> {
        Some(match task.blocking() {
            Blocking::Never => engine.produce_consume(held, task),
            Blocking::Adapts | Blocking::May => engine.produce_execute_consume(held, task),
        })
    }

    fn task_needs(&self, executor: &dyn Executor) -> Vec<Need> {
        executor.needs(Work::Given)
    }
}
