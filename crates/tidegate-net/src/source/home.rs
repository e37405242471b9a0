//! The loop of an inbox, as the home of the completions of updates, registrations and closes.
//!
//! A blocking wait is checked against the home of its completion: a task that holds its loop, and
//! waits for an update of that loop, would wait for itself. Listeners still run on the completing
//! thread, and a completion does not keep the loop running.

use std::any::Any;
use std::sync::{Arc, Weak};

use tidegate_core::executor::{ExecutorId, PromiseHome};
use tidegate_core::{Clock, Executor, OnUnhandled, RejectReason, Unhandled, WaitRefusedError};

/// The loop of an inbox. Does not keep it running.
pub(super) struct Home {
    id: ExecutorId,
    name: String,
    clock: Clock,
    executor: Weak<dyn Executor>,
    /// Gives the loop a thread if it has none.
    pub(super) start: Box<dyn Fn() -> Result<(), RejectReason> + Send + Sync>,
}

impl Home {
    pub(super) fn of(
        executor: &Arc<dyn Executor>,
        start: impl Fn() -> Result<(), RejectReason> + Send + Sync + 'static,
    ) -> Self {
        Self {
            id: executor.id(),
            name: executor.name().to_owned(),
            clock: executor.clock().clone(),
            executor: Arc::downgrade(executor),
            start: Box::new(start),
        }
    }

    /// Returns the loop, unless it is gone.
    pub(super) fn executor(&self) -> Option<Arc<dyn Executor>> {
        self.executor.upgrade()
    }
}

impl PromiseHome for Home {
    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A loop that is gone has refused what was submitted to it.
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        self.executor().map_or(Ok(None), |home| home.begin_wait())
    }

    fn report(&self, what: &Unhandled<'_>) {
        match self.executor() {
            Some(home) => home.unhandled(what),
            None => OnUnhandled::default().report(&self.name, what),
        }
    }
}
