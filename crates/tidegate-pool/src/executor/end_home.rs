//! The home of a completion that ends with an executor.
//!
//! A blocking wait is checked against the home of its completion. A task that waits for the end of
//! its own executor waits for itself, so this home refuses such a wait. Listeners still run on the
//! completing thread, and the home does not keep the executor alive.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use tidegate_core::executor::{ExecutorId, PromiseHome, current_executor, is_current};
use tidegate_core::{Clock, WaitRefusedError};

tidegate_core::internal::prim::thread_local! {
    /// The pool whose worker this thread is, also while it runs a task of a view or of a loop.
    static WORKER_OF: Cell<Option<ExecutorId>> = const { Cell::new(None) };
    /// The ordered view whose turn this thread runs, and the executor under it.
    static VIEW: Cell<Option<(ExecutorId, ExecutorId)>> = const { Cell::new(None) };
    /// The loop whose task this thread runs on behalf of a strategy.
    static TASK_OF: Cell<Option<ExecutorId>> = const { Cell::new(None) };
}

/// Marks the calling thread as a worker of the pool `id` until the guard is dropped.
pub(crate) fn mark_worker(id: ExecutorId) -> WorkerMark {
    WorkerMark(WORKER_OF.replace(Some(id)))
}

/// The guard of [`mark_worker`]. A thread that was lent goes back to its owner after it.
#[must_use = "dropping the guard removes the mark"]
pub(crate) struct WorkerMark(Option<ExecutorId>);

impl Drop for WorkerMark {
    fn drop(&mut self) {
        WORKER_OF.set(self.0);
    }
}

/// Marks the calling thread as running a turn of `view`, which runs on `over`, until the guard is
/// dropped.
pub(crate) fn mark_view(view: ExecutorId, over: ExecutorId) -> ViewMark {
    ViewMark(VIEW.replace(Some((view, over))))
}

/// The guard of [`mark_view`].
#[must_use = "dropping the guard removes the mark"]
pub(crate) struct ViewMark(Option<(ExecutorId, ExecutorId)>);

impl Drop for ViewMark {
    fn drop(&mut self) {
        VIEW.set(self.0);
    }
}

/// Returns `true` if the calling thread runs work of an ordered view over the executor `over`.
pub(crate) fn is_in_view_over(over: ExecutorId) -> bool {
    let view = VIEW.try_with(Cell::get).ok().flatten();
    view.is_some_and(|(view, under)| under == over && is_current(view))
}

/// Runs `task`, for which the end of the event loop `id` waits.
#[inline]
pub fn run_task_of<R>(id: ExecutorId, task: impl FnOnce() -> R) -> R {
    struct Restore(Option<ExecutorId>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TASK_OF.set(self.0);
        }
    }
    let _restore = Restore(TASK_OF.replace(Some(id)));
    task()
}

/// The home of the end of one executor, or of several.
#[derive(Debug)]
pub struct EndHome {
    id: ExecutorId,
    name: String,
    /// The executors that end.
    of: Vec<ExecutorId>,
    /// The clock of these executors.
    clock: Clock,
}

impl EndHome {
    /// Creates the home for the end of the executor `id`, which uses `clock`.
    pub fn of(id: ExecutorId, name: &str, clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            id: id.end(),
            name: name.to_owned(),
            of: vec![id],
            clock: clock.clone(),
        })
    }

    /// Creates the home for the end of all these executors, which use `clock`.
    pub fn of_all(of: Vec<ExecutorId>, name: &str, clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            id: ExecutorId::next(),
            name: name.to_owned(),
            of,
            clock: clock.clone(),
        })
    }
}

impl PromiseHome for EndHome {
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
        let inside = [&WORKER_OF, &TASK_OF].map(|of| of.try_with(Cell::get).ok().flatten());
        let is_inside = |id: &ExecutorId| is_current(*id) || inside.contains(&Some(*id));
        if !self.of.iter().any(is_inside) {
            return Ok(None);
        }
        let waiting = current_executor().map(|executor| executor.name().to_owned());
        let waiting = waiting.filter(|name| *name != self.name);
        let names = waiting.into_iter().chain([self.name.clone()]);
        Err(WaitRefusedError::deadlock(names.collect()))
    }
}
