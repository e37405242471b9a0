//! Produce, consume: one thread does both.
//!
//! The producing thread runs each task before it produces the next one, strictly in order,
//! regardless of the task's kind. A task that blocks also blocks production: that is the contract.
//! On its own thread, this is an event loop as in Netty.

use std::sync::Arc;

use tidegate_core::{Executor, Task};

use crate::strategy::raw::ProducerGuard;

use super::engine::{Engine, Rule};
use super::handle::strategy_handle;
use super::producer::Producer;

/// Runs each task on the thread that produced it, before the next one is produced.
///
/// A task that blocks stops production until it returns. If the producer is an event loop, the loop
/// stands still meanwhile: its timers are late and its other connections wait. A watchdog reports
/// such a loop. A wait of a task for its own event loop would never end, so it is refused.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::ImmediateExecutor;
/// use tidegate_pool::strategy::{ProduceConsume, Strategy};
/// use tidegate_core::Task;
///
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let mut words = ["kill", "eat"].into_iter();
/// let producer = move || {
///     let (word, sender) = (words.next()?, sender.clone());
///     Some(Task::new(move || sender.send(word).unwrap()))
/// };
/// let strategy = ProduceConsume::new(producer, Arc::new(ImmediateExecutor::new()));
/// strategy.produce();
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["kill", "eat"]);
/// ```
pub struct ProduceConsume<P> {
    engine: Arc<Engine<P, Pc>>,
}

impl<P: Producer> ProduceConsume<P> {
    /// Creates a strategy for `producer`. Rounds started by
    /// [`dispatch`](crate::strategy::Strategy::dispatch) run on `executor`.
    pub fn new(producer: P, executor: Arc<dyn Executor>) -> Self {
        Self {
            engine: Engine::new(producer, Pc, executor),
        }
    }
}

strategy_handle!(ProduceConsume, "ProduceConsume");

struct Pc;

impl<P: Producer> Rule<P> for Pc {
    const KEEPS_PRODUCER: bool = true;

    fn consume<'a>(
        engine: &'a Arc<Engine<P, Self>>,
        held: ProducerGuard<'a, P>,
        task: Task,
        _tagged: bool,
    ) -> Option<ProducerGuard<'a, P>> {
        Some(engine.produce_consume(held, task))
    }
}
