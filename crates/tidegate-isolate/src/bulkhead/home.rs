//! The home of the completions of a pool's calls.
//!
//! A blocking wait is checked against the home of what it waits for: on a thread of the pool, when
//! all of its threads wait for the pool, the wait is refused. Listeners still run on the thread that
//! completes, and a completion does not keep the pool alive.

use std::sync::{Arc, Weak};

use tidegate_core::{Clock, Executor, ExecutorId, Refusal, Rejected, Signal, Task, Unhandled};
use tidegate_pool::WorkerPool;

/// Stands for a pool, as long as that lives.
pub(super) struct PoolHome {
    id: ExecutorId,
    name: String,
    clock: Clock,
    pool: Weak<WorkerPool>,
}

impl PoolHome {
    pub(super) fn of(pool: &Arc<WorkerPool>) -> Arc<Self> {
        Arc::new(Self {
            id: pool.id(),
            name: pool.name().to_owned(),
            clock: Clock::system(),
            pool: Arc::downgrade(pool),
        })
    }
}

impl Executor for PoolHome {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.pool.upgrade() {
            Some(pool) => pool.execute_task(task),
            None => Err(Rejected::new(task, Refusal::Closed)),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match self.pool.upgrade() {
            Some(pool) => pool.signal(signal),
            None => Err(Rejected::new(signal, Refusal::Closed)),
        }
    }

    /// Every thread is at home: listeners run where the completion is completed.
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

    fn width(&self) -> usize {
        self.pool.upgrade().map_or(usize::MAX, |pool| pool.width())
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        if let Some(pool) = self.pool.upgrade() {
            Executor::unhandled(&*pool, what);
        }
    }
}

impl std::fmt::Debug for PoolHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolHome")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
