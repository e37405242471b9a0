//! The home of the completions of a pool's calls, and of shared runs.
//!
//! A blocking wait is checked against the home of what it waits for: on a thread of the pool, when
//! all of its threads wait for the pool, the wait is refused. A home may check more: see
//! [`WaitCheck`]. Listeners still run on the thread that completes, and a completion does not keep
//! the pool alive.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_core::{
    Clock, Executor, ExecutorId, OnUnhandled, Refusal, Rejected, Signal, Task, Unhandled,
    WaitRefused,
};
use tidegate_pool::WorkerPool;

use crate::key::Key;

/// Stands for a pool, as long as that lives, or for none: then nothing can be executed there.
pub(crate) struct Home<W = ()> {
    id: ExecutorId,
    name: Key,
    clock: Clock,
    /// None if the work runs on the threads of its callers.
    pool: Option<Weak<WorkerPool>>,
    check: W,
}

/// What a wait for a completion at this home is checked against, besides its pool.
pub(crate) trait WaitCheck: Send + Sync + 'static {
    /// Allows or refuses a wait of the calling thread; see [`Executor::begin_wait`].
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefused>;
}

/// Nothing else.
impl WaitCheck for () {
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefused> {
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

    /// Makes a home in the same pool that checks more.
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
    /// Makes a home of work that runs on the threads of its callers.
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
            None => Err(Rejected::new(task, Refusal::Closed)),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        match self.pool() {
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
        self.pool().map_or(usize::MAX, |pool| pool.width())
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefused> {
        self.check.begin_wait()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        match (&self.pool, self.pool()) {
            (_, Some(pool)) => Executor::unhandled(&*pool, what),
            (None, None) => OnUnhandled::stderr().tell(&self.name, what),
            // The pool is gone, and its hook with it.
            (Some(_), None) => {}
        }
    }
}

impl<W> fmt::Debug for Home<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
