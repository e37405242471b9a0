//! The pool of a roaming loop, as its strategy sees it.

use std::sync::{Arc, Weak};

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::{Executor, Rejected, Task, Unhandled};
use tidegate_pool::{FreeThreads, Headroom, Lease, ThreadBudgetError, TryExecutor};

use crate::handle::forward::forward_executor;
use crate::state::shared::Shared;

/// Forwards to the pool, except that unhandled errors are reported to the event loop.
pub(super) struct LoopPool {
    pool: Arc<dyn TryExecutor>,
    shared: Weak<Shared>,
    /// The lease for the thread that the event loop keeps, until the strategy asks for it.
    lease: Mutex<Option<Arc<Lease>>>,
}

impl LoopPool {
    pub(super) fn new(
        pool: &Arc<dyn TryExecutor>,
        shared: &Arc<Shared>,
        lease: Option<Arc<Lease>>,
    ) -> Self {
        Self {
            pool: Arc::clone(pool),
            shared: Arc::downgrade(shared),
            lease: Mutex::new(lease),
        }
    }
}

impl Executor for LoopPool {
    forward_executor!(pool);

    fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.pool.execute_internal(task)
    }

    fn width(&self) -> usize {
        self.pool.width()
    }

    fn most_threads(&self) -> usize {
        self.pool.most_threads()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        match self.shared.upgrade() {
            Some(shared) => shared.unhandled(what),
            None => self.pool.unhandled(what),
        }
    }
}

impl Headroom for LoopPool {
    fn free_threads(&self) -> FreeThreads {
        self.pool.free_threads()
    }

    fn has_thread(&self) -> bool {
        self.pool.has_thread()
    }

    fn finished_jobs(&self) -> u64 {
        self.pool.finished_jobs()
    }

    fn waiting(&self) -> usize {
        self.pool.waiting()
    }
}

impl TryExecutor for LoopPool {
    fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.pool.try_execute(task)
    }

    fn lease_threads(
        &self,
        holder: &str,
        threads: usize,
    ) -> Result<Option<Lease>, ThreadBudgetError> {
        self.pool.lease_threads(holder, threads)
    }

    fn own_lease(&self) -> Option<Arc<Lease>> {
        lock(&self.lease).take()
    }
}
