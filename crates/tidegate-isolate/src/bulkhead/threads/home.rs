//! The home of the completions of a pool's calls and of shared runs: the executor that these
//! completions belong to.
//!
//! A blocking wait is checked against the home of the completion. On a thread of the pool, the wait
//! is refused if all threads of the pool wait for the pool. A home may have an additional check:
//! see [`WaitCheck`]. Listeners still run on the completing thread, and a completion does not keep
//! the pool alive.

use std::any::Any;
use std::sync::{Arc, Weak};

use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::{
    Clock, Executor, OnUnhandled, RejectReason, Rejected, Task, Unhandled, WaitRefusedError,
};
use tidegate_pool::WorkerPool;

use crate::key::Key;

/// Represents a pool while the pool is alive, or no pool at all. Without a pool it executes
/// nothing.
pub(crate) struct Home<W = ()> {
    id: ExecutorId,
    name: Key,
    clock: Clock,
    /// `None` if the work runs on its callers' threads.
    pool: Option<Weak<WorkerPool>>,
    check: W,
}

/// An additional check for a wait for a completion at this home.
pub(crate) trait WaitCheck: Send + Sync + 'static {
    /// Allows or refuses a wait of the calling thread; see [`Executor::begin_wait`].
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError>;
}

/// No additional check.
impl WaitCheck for () {
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        Ok(None)
    }
}

impl Home {
    pub(super) fn of(pool: &Arc<WorkerPool>) -> Self {
        Self {
            id: pool.id(),
            name: Key::from(pool.name()),
            clock: Clock::system(),
            pool: Some(Arc::downgrade(pool)),
            check: (),
        }
    }

    /// Creates a home in the same pool with an additional check.
    pub(crate) fn with_check<W>(&self, name: &Key, check: W) -> Home<W> {
        Home {
            id: self.id,
            name: name.clone(),
            clock: Clock::system(),
            pool: self.pool.clone(),
            check,
        }
    }
}

impl<W> Home<W> {
    /// Creates a home for work that runs on its callers' threads.
    pub(crate) fn without_pool(name: &Key, check: W) -> Self {
        Self {
            id: ExecutorId::next(),
            name: name.clone(),
            clock: Clock::system(),
            pool: None,
            check,
        }
    }

    fn pool(&self) -> Option<Arc<WorkerPool>> {
        self.pool.as_ref()?.upgrade()
    }
}

impl<W: WaitCheck> Executor for Home<W> {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.pool() {
            Some(pool) => pool.execute_task(task),
            None => Err(Rejected::new(task, RejectReason::Closed)),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match self.pool() {
            Some(pool) => pool.signal(signal),
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

    fn width(&self) -> usize {
        self.pool().map_or(usize::MAX, |pool| pool.width())
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        self.check.begin_wait()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        match (&self.pool, self.pool()) {
            (_, Some(pool)) => Executor::unhandled(&*pool, what),
            (None, None) => OnUnhandled::default().report(&self.name, what),
            // The pool is gone, and its hook with it, so there is no hook to call.
            (Some(_), None) => {}
        }
    }
}

debug_fields!([W] Home<W>, this => name: this.name);
