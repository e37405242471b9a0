//! The home of the answers of a shared run.
//!
//! A wait for such an answer is checked twice: against the pool whose threads it comes from, if
//! there is one, and against the shared runs that wait for each other. Inside of the run itself it
//! is refused. Listeners run on the thread that completes.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::{
    Clock, Executor, ExecutorId, Refusal, Rejected, Signal, Task, Unhandled, WaitRefused,
};

use super::circles::{self, RunId};
use crate::Key;

/// Stands for a shared run.
pub(super) struct RunHome {
    run: RunId,
    command: Key,
    /// The pool on which it runs; none with permits.
    pool: Option<Arc<dyn Executor>>,
    id: ExecutorId,
    clock: Clock,
}

impl RunHome {
    pub(super) fn of(run: RunId, command: &Key, pool: Option<Arc<dyn Executor>>) -> Arc<Self> {
        let id = pool
            .as_ref()
            .map_or_else(ExecutorId::next, |pool| pool.id());
        Arc::new(Self {
            run,
            command: command.clone(),
            pool,
            id,
            clock: Clock::system(),
        })
    }
}

impl Executor for RunHome {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        match &self.pool {
            Some(pool) => pool.execute(task),
            None => Err(Rejected::new(task, Refusal::Closed)),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match &self.pool {
            Some(pool) => pool.signal(signal),
            None => Err(Rejected::new(signal, Refusal::Closed)),
        }
    }

    /// Every thread is at home: listeners run where the answer is told.
    fn is_current(&self) -> bool {
        true
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.command
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.pool.as_ref().map_or(usize::MAX, |pool| pool.width())
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefused> {
        match circles::wait_for(self.run) {
            Some(waits) if waits.is_recorded() => Ok(Some(Box::new(waits))),
            Some(_) => Ok(None),
            None => {
                let run = format!("a shared run of {}", self.command);
                Err(WaitRefused::circle(vec![run]))
            }
        }
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        match &self.pool {
            Some(pool) => pool.unhandled(what),
            None => tidegate_core::OnUnhandled::stderr().tell(&self.command, what),
        }
    }
}
