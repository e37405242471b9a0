//! The home of the results of a shared run.
//!
//! A wait for such a result is checked twice: against the pool that provides the threads, if there
//! is one, and against the shared runs that wait for each other. A wait inside the run itself is
//! refused.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::executor::{ExecutorId, PromiseHome};
use tidegate_core::{Clock, Executor, OnUnhandled, Unhandled, WaitRefusedError};

use super::wait_graph::{self, RunId};
use crate::bulkhead::Home;
use crate::key::Key;

struct RunHome {
    run: RunId,
    command: Key,
    clock: Clock,
    /// `None` if the work runs on its callers' threads.
    pool: Option<Home>,
}

impl PromiseHome for RunHome {
    fn id(&self) -> ExecutorId {
        self.pool.as_ref().map_or(self.run, PromiseHome::id)
    }

    fn name(&self) -> &str {
        &self.command
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.pool.as_ref().map_or(usize::MAX, PromiseHome::width)
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        match wait_graph::wait_for(self.run) {
            Some(waits) if waits.is_empty() => Ok(None),
            Some(waits) => Ok(Some(Box::new(waits))),
            None => {
                let run = format!("a shared run of {}", self.command);
                Err(WaitRefusedError::deadlock(vec![run]))
            }
        }
    }

    fn report(&self, what: &Unhandled<'_>) {
        match &self.pool {
            Some(pool) => pool.report(what),
            None => OnUnhandled::default().report(&self.command, what),
        }
    }
}

/// Returns the home of a shared run of a command: in its pool, or on its callers' threads. Waits use
/// `clock`.
pub(super) fn home_of(
    run: RunId,
    command: &Key,
    pool: Option<&Home>,
    clock: &Clock,
) -> Arc<dyn Executor> {
    Arc::new(RunHome {
        run,
        command: command.clone(),
        clock: clock.clone(),
        pool: pool.cloned(),
    })
}
