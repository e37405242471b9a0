//! Execute, produce, consume: the original "eat what you kill".
//!
//! The thread that produced a task runs it while its data is still in the cache. Before that, it
//! requests one helper from the executor to continue producing. At most one helper is pending at a
//! time. After the task, the thread and the helper race, and the first one produces.
//!
//! If the helper is refused, the task runs anyway, and production waits for its end or for another
//! call of `produce`. A thread that is tagged as non-blocking never runs a task that may block; it
//! gives the task to the executor.

use std::sync::Arc;

use tidegate_core::internal::discard;
use tidegate_core::{Blocking, Executor, Task};

use crate::strategy::raw::ProducerGuard;

use super::engine::{Engine, Helper, Rule};
use super::handle::strategy_handle;
use super::metrics::raise;
use super::producer::Producer;

/// Runs each task on the thread that produced it, while a helper continues producing.
///
/// A helper that the executor refuses, or that waits in its queue, does not produce: if the task
/// blocks, production waits for its end. If the producer is an event loop, the loop stands still
/// meanwhile. So the executor needs a thread for each task that may block at the same time, and one
/// more.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::strategy::{ExecuteProduceConsume, Strategy};
/// use tidegate_core::{Task, ThreadBuilder};
/// use tidegate_core::thread::ThreadPerTask;
///
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let mut only = Some(Task::new(move || sender.send(std::thread::current().id()).unwrap()));
/// let threads = Arc::new(ThreadPerTask::new(ThreadBuilder::new("helper")));
/// let strategy = ExecuteProduceConsume::new(move || only.take(), threads);
/// strategy.produce();
/// assert_eq!(receiver.recv()?, std::thread::current().id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExecuteProduceConsume<P> {
    engine: Arc<Engine<P, Epc>>,
}

impl<P: Producer> ExecuteProduceConsume<P> {
    /// Creates a strategy for `producer` whose helpers come from `executor`.
    pub fn new(producer: P, executor: Arc<dyn Executor>) -> Self {
        Self {
            engine: Engine::new(producer, Epc, executor),
        }
    }
}

strategy_handle!(ExecuteProduceConsume, "ExecuteProduceConsume");

struct Epc;

impl<P: Producer> Rule<P> for Epc {
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
            (Blocking::Adapts | Blocking::May, false) => run_with_helper(engine, held, task),
        }
    }
}

/// Requests a helper and runs the task on this thread.
pub(super) fn run_with_helper<'a, P: Producer, R: Rule<P>>(
    engine: &'a Arc<Engine<P, R>>,
    held: ProducerGuard<'a, P>,
    task: Task,
) -> Option<ProducerGuard<'a, P>> {
    let loan = held.lend(true);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    // Not a task of the user: a full queue does not refuse it, and a pool whose policy is to run a
    // job on the submitting thread does not run it here, where it would wait inside the producer.
    if loan.bring_helper
        && let Err(refused) = engine.executor.execute_internal(Helper::task(engine))
    {
        raise(&engine.counters.helpers_refused);
        // Dropping the helper clears the pending mark in the cell.
        drop(refused);
    }
    engine.execute_produce_consume(task)
}
