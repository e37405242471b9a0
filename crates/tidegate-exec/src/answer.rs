//! The promise behind a submitted closure: completed by its result, failed by its panic,
//! cancelled when the closure is dropped without having run.

use std::sync::Arc;

use tidegate_promise::{Completion, Failure, Promise, promise_on};
use tidegate_sync::{CaughtPanic, Executor, Unhandled, contain};

/// The write end that travels with a closure.
pub(crate) struct Answer<T: Send + 'static> {
    promise: Option<Promise<T>>,
}

impl<T: Send + 'static> Answer<T> {
    /// An answer whose listeners run at `home`: a loop, or a pool.
    #[inline]
    pub(crate) fn of<H: Executor>(home: &Arc<H>) -> (Self, Completion<T>) {
        let (promise, completion) = promise_on(Arc::<H>::clone(home));
        let answer = Self {
            promise: Some(promise),
        };
        (answer, completion)
    }

    /// Runs `run` unless the reader has cancelled, and answers with what it returns.
    #[inline]
    pub(crate) fn run<F: FnOnce() -> T>(mut self, run: F) {
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
    pub(crate) fn fail_panic(mut self, task: &str, panic: CaughtPanic) {
        if let Some(promise) = self.promise.take() {
            tell_if_unseen(&promise, task, &panic);
            let _ = promise.fail(Failure::from_panic(panic));
        }
    }

    pub(crate) fn succeed(mut self, value: T) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.succeed(value);
        }
    }

    pub(crate) fn fail(mut self, cause: Failure) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.fail(cause);
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.promise.as_ref().is_some_and(Promise::is_cancelled)
    }

    pub(crate) fn on_cancelled(&self, hook: impl FnOnce() + Send + 'static) {
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
        if let Some(promise) = self.promise.take() {
            promise.cancel();
        }
    }
}
