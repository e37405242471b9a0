//! The home of the results of a shared run.
//!
//! A wait for such a result is checked twice: against the pool that provides the threads, if there
//! is one, and against the shared runs that wait for each other. A wait inside the run itself is
//! refused.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::{Executor, WaitRefusedError};

use super::wait_graph::{self, RunId};
use crate::bulkhead::{Home, WaitCheck};
use crate::key::Key;

/// Refuses a wait for a run inside that same run.
struct OutsideOf {
    run: RunId,
    command: Key,
}

impl WaitCheck for OutsideOf {
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
}

/// Returns the home of a shared run of a command: in its pool, or on its callers' threads.
pub(super) fn home_of(run: RunId, command: &Key, pool: Option<&Home>) -> Arc<dyn Executor> {
    let check = OutsideOf {
        run,
        command: command.clone(),
    };
    Arc::new(match pool {
        Some(pool) => pool.with_check(command, check),
        None => Home::without_pool(command, check),
    })
}
