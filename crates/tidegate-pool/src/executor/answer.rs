//! The promise behind a submitted closure: completed by its result, failed by its panic,
//! cancelled when the closure is dropped without having run.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tidegate_core::{CaughtPanic, Executor, Task, Unhandled, contain, discard_all};
use tidegate_promise::{Completion, Failure, Promise, promise_owed};

/// Why the completion of a task failed: its executor ended before it began the task, and nobody has
/// taken the task from the report of that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverBegun;

impl fmt::Display for NeverBegun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the task never began: its executor has ended, and nobody took it from the report of \
             that end; take it from `handed_back` and run it elsewhere",
        )
    }
}

impl Error for NeverBegun {}

#[cold]
fn left() -> Failure {
    Failure::new(NeverBegun)
}

tidegate_core::prim::thread_local! {
    /// This thread drops tasks that were handed back and that nobody took.
    static NOBODY_TOOK: Cell<bool> = const { Cell::new(false) };
}

/// Drops tasks that were handed back and that nobody took: their completions say so.
pub fn drop_untaken(tasks: impl IntoIterator<Item = Task>) {
    let outer = NOBODY_TOOK.try_with(|untaken| untaken.replace(true));
    discard_all(tasks);
    let _ = NOBODY_TOOK.try_with(|untaken| untaken.set(outer == Ok(true)));
}

/// The write end that travels with a closure.
#[derive(Debug)]
pub struct Answer<T: Send + 'static> {
    promise: Option<Promise<T>>,
}

impl<T: Send + 'static> Answer<T> {
    /// An answer whose listeners run at `home`: a loop, or a pool.
    #[inline]
    pub fn of<H: Executor>(home: &Arc<H>) -> (Self, Completion<T>) {
        let (promise, completion) = promise_owed(Arc::<H>::clone(home), left);
        let answer = Self {
            promise: Some(promise),
        };
        (answer, completion)
    }

    /// Runs `run` unless the reader has cancelled, and answers with what it returns.
    #[inline]
    pub fn run<F: FnOnce() -> T>(mut self, run: F) {
        let Some(promise) = self.promise.take() else {
            return;
        };
        if !promise.set_uncancellable() {
            return;
        }
        // Nobody can cancel any more, so nothing is refused.
        let _ = match contain(run) {
            Ok(value) => promise.complete(Ok(value)),
            Err(panic) => {
                tell_if_unseen(&promise, std::any::type_name::<F>(), &panic);
                promise.complete(Err(Failure::from_panic(panic)))
            }
        };
    }

    /// Fails with the panic of `task`.
    pub fn fail_panic(mut self, task: &str, panic: CaughtPanic) {
        if let Some(promise) = self.promise.take() {
            tell_if_unseen(&promise, task, &panic);
            let _ = promise.fail(Failure::from_panic(panic));
        }
    }

    /// Succeeds.
    pub fn succeed(mut self, value: T) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.succeed(value);
        }
    }

    /// Fails.
    pub fn fail(mut self, cause: Failure) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.fail(cause);
        }
    }

    /// Whether the reader has cancelled.
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

/// Reports a panic where nobody has the completion that says so.
#[cold]
fn tell_if_unseen<T: Send + 'static>(promise: &Promise<T>, task: &str, panic: &CaughtPanic) {
    if let (false, Some(home)) = (promise.is_observed(), promise.home()) {
        let message = panic.message();
        let _ = contain(|| home.unhandled(&Unhandled::TaskPanic { task, message }));
    }
}

impl<T: Send + 'static> Drop for Answer<T> {
    fn drop(&mut self) {
        let Some(promise) = self.promise.take() else {
            return;
        };
        if NOBODY_TOOK.try_with(Cell::get) == Ok(true) {
            let _ = promise.fail(left());
        } else {
            promise.cancel();
        }
    }
}
