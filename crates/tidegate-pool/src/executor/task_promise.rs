//! The promise of a submitted closure. It is completed with the closure's result and failed if the
//! closure panics. If the closure is dropped without having run, it is cancelled, or failed if the
//! task was handed back or displaced.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tidegate_core::executor::Work;
use tidegate_core::internal::{contain, discard};
use tidegate_core::{CaughtPanic, Executor, Task, Unhandled};
use tidegate_promise::internal::promise_for_task;
use tidegate_promise::{Completion, Failure, Promise};

use super::displaced::{DisplacedError, take_displacing};

/// The error of a task that never started: its executor ended first, and the task was not taken
/// from the report of that end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NotStartedError;

impl fmt::Display for NotStartedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the task did not start because its executor has ended; take it from \
                 `handed_back` of the shutdown report and run it elsewhere",
        )
    }
}

impl Error for NotStartedError {}

tidegate_core::debug_as_display!(NotStartedError);

#[cold]
fn left() -> Failure {
    Failure::new(NotStartedError)
}

tidegate_core::internal::prim::thread_local! {
    /// `true` while this thread drops a task that was handed back and not taken, until the promise
    /// of that task has seen it.
    static DROPPING_UNSTARTED: Cell<bool> = const { Cell::new(false) };
}

/// Drops tasks that were handed back and not taken. Their completions fail with
/// [`NotStartedError`].
pub(super) fn drop_unstarted(tasks: impl IntoIterator<Item = Task>) {
    let set = |to| DROPPING_UNSTARTED.try_with(|untaken| untaken.replace(to));
    for task in tasks {
        let outer = set(true);
        discard(task);
        let _ = set(outer == Ok(true));
    }
}

/// The write end of the promise; it is stored together with the submitted closure.
#[derive(Debug)]
pub struct TaskPromise<T: Send + 'static> {
    promise: Option<Promise<T>>,
}

impl<T: Send + 'static> TaskPromise<T> {
    /// Creates a promise whose listeners run on `home`, which is an event loop or a pool. `work`
    /// tells how the closure comes to `home`.
    #[inline]
    pub fn of<H: Executor>(home: &Arc<H>, work: Work) -> (Self, Completion<T>) {
        let (promise, completion) = promise_for_task(Arc::<H>::clone(home), work, left);
        let answer = Self {
            promise: Some(promise),
        };
        (answer, completion)
    }

    /// Runs `run` and completes the promise with its result, unless the reader has cancelled.
    #[inline]
    pub fn run<F: FnOnce() -> T>(mut self, run: F) {
        let Some(promise) = self.promise.take() else {
            return;
        };
        if !promise.set_uncancellable() {
            return;
        }
        // The promise can no longer be cancelled, so `complete` is not refused.
        match promise.run_task(run) {
            Ok(value) => drop(promise.complete(Ok(value))),
            Err(panic) => end_by_panic(promise, std::any::type_name::<F>(), panic),
        }
    }

    /// Fails the promise with the panic of `task`.
    pub fn fail_panic(mut self, task: &str, panic: CaughtPanic) {
        if let Some(promise) = self.promise.take() {
            end_by_panic(promise, task, panic);
        }
    }

    /// Completes the promise with `value`.
    pub fn succeed(mut self, value: T) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.succeed(value);
        }
    }

    /// Fails the promise with `cause`.
    pub fn fail(mut self, cause: Failure) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.fail(cause);
        }
    }

    /// Returns `true` if the reader has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.promise.as_ref().is_some_and(Promise::is_cancelled)
    }

    /// Calls `hook` when the reader cancels.
    pub fn on_cancelled(&self, hook: impl FnOnce() + Send + 'static) {
        if let Some(promise) = &self.promise {
            promise.on_cancel(hook);
        }
    }
}

/// Fails the promise of `task` with its panic, and reports it to the executor if no completion is
/// left to report it.
#[cold]
fn end_by_panic<T: Send + 'static>(promise: Promise<T>, task: &str, panic: CaughtPanic) {
    if let (false, Some(home)) = (promise.is_observed(), promise.home()) {
        let message = panic.message();
        let _ = contain(|| home.unhandled(&Unhandled::TaskPanic { task, message }));
    }
    let _ = promise.fail(Failure::from_panic(panic));
}

impl<T: Send + 'static> Drop for TaskPromise<T> {
    fn drop(&mut self) {
        let Some(promise) = self.promise.take() else {
            return;
        };
        // Both marks are for this promise. What the task captured, and the listeners of the promise,
        // may drop other tasks.
        let was_displaced = take_displacing();
        if DROPPING_UNSTARTED.try_with(Cell::take) == Ok(true) {
            let _ = promise.fail(left());
        } else if was_displaced {
            let _ = promise.fail(Failure::new(DisplacedError));
        } else {
            promise.cancel();
        }
    }
}
