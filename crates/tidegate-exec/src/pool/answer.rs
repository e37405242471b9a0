//! The promise behind a closure that was given to a pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate_promise::{Completion, Failure, Promise, promise_on};

use super::policy::{Displaced, is_displacing};
use super::shared::Shared;

/// The write end that travels with a closure: completed by its result, failed by its panic or
/// by a displacement, cancelled when the closure is dropped otherwise.
pub(super) struct Answer<T: Send + 'static> {
    promise: Option<Promise<T>>,
}

impl<T: Send + 'static> Answer<T> {
    #[inline]
    pub(super) fn of(shared: &Arc<Shared>) -> (Self, Completion<T>) {
        let (promise, completion) = promise_on(Arc::<Shared>::clone(shared));
        let answer = Self {
            promise: Some(promise),
        };
        (answer, completion)
    }

    /// Runs `run` unless the reader has cancelled, and answers with what it returns.
    #[inline]
    pub(super) fn run(mut self, run: impl FnOnce() -> T) {
        let Some(promise) = self.promise.take() else {
            return;
        };
        if !promise.set_uncancellable() {
            return;
        }
        // Nobody can cancel any more, so nothing is refused.
        let _ = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => promise.complete(Ok(value)),
            Err(panic) => promise.complete(Err(Failure::from_panic(panic))),
        };
    }
}

impl<T: Send + 'static> Drop for Answer<T> {
    fn drop(&mut self) {
        let Some(promise) = self.promise.take() else {
            return;
        };
        if is_displacing() {
            let _ = promise.fail(Failure::new(Displaced));
        } else {
            promise.cancel();
        }
    }
}
