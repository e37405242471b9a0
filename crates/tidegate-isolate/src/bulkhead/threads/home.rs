//! The home of the completions of a pool's calls. A blocking wait on a thread of the pool is
//! refused if all threads of the pool wait for the pool. A completion does not keep the pool alive.

use std::sync::{Arc, Weak};

use tidegate_core::executor::{ExecutorId, PromiseHome};
use tidegate_core::{Clock, Executor, Unhandled};
use tidegate_pool::WorkerPool;

use crate::key::Key;

/// Represents a pool while the pool is alive.
#[derive(Clone)]
pub(crate) struct Home {
    id: ExecutorId,
    name: Key,
    clock: Clock,
    pool: Weak<WorkerPool>,
}

impl Home {
    pub(super) fn of(pool: &Arc<WorkerPool>) -> Self {
        Self {
            id: pool.id(),
            name: Key::from(pool.name()),
            clock: Executor::clock(&**pool).clone(),
            pool: Arc::downgrade(pool),
        }
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

    fn width(&self) -> usize {
        self.pool.upgrade().map_or(usize::MAX, |pool| pool.width())
    }

    fn report(&self, what: &Unhandled<'_>) {
        // If the pool is gone, so is its hook.
        if let Some(pool) = self.pool.upgrade() {
            pool.unhandled(what);
        }
    }
}

debug_fields!(Home, this => name: this.name);
