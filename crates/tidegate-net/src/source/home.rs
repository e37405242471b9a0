//! The loop of an inbox, as the home of the completions of updates, registrations and closes.
//!
//! A blocking wait is checked against the home of its completion: a task that holds its loop, and
//! waits for an update of that loop, would wait for itself. Listeners still run on the completing
//! thread, and a completion does not keep the loop running.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::{
    Clock, Executor, OnUnhandled, RejectReason, Rejected, Task, Unhandled, WaitRefusedError,
};

/// The loop of an inbox. Does not keep it running.
pub(super) struct Home {
    id: ExecutorId,
    name: String,
    clock: Clock,
    executor: Weak<dyn Executor>,
    /// Gives the loop a thread if it has none.
    start: Box<dyn Fn() -> Result<(), RejectReason> + Send + Sync>,
}

impl Home {
    pub(super) fn of(
        executor: &Arc<dyn Executor>,
        start: impl Fn() -> Result<(), RejectReason> + Send + Sync + 'static,
    ) -> Self {
        Self {
            id: executor.id(),
            name: executor.name().to_owned(),
            clock: Clock::system(),
            executor: Arc::downgrade(executor),
            start: Box::new(start),
        }
    }

    /// Returns the loop, unless it is gone.
    pub(super) fn executor(&self) -> Option<Arc<dyn Executor>> {
        self.executor.upgrade()
    }

    /// Gives the loop a thread if it has none.
    pub(super) fn start(&self) -> Result<(), RejectReason> {
        (self.start)()
    }
}

impl Executor for Home {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.executor() {
            Some(executor) => executor.execute(task),
            None => Err(Rejected::new(task, RejectReason::Closed)),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match self.executor() {
            Some(executor) => executor.signal(signal),
            None => Err(Rejected::new(signal, RejectReason::Closed)),
        }
    }

    /// Always `true`, so that listeners run on the completing thread.
    fn is_current(&self) -> bool {
        true
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        match self.executor() {
            Some(executor) => executor.begin_wait(),
            // The loop is gone: it has refused what was submitted to it.
            None => Ok(None),
        }
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        match self.executor() {
            Some(executor) => executor.unhandled(what),
            None => OnUnhandled::default().report(&self.name, what),
        }
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
