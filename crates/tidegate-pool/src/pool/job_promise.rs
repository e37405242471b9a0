//! The promise of a closure that was submitted to a pool.

use std::sync::Arc;

use tidegate_core::Executor;
use tidegate_promise::{Completion, Failure};

use crate::executor;

use super::policy::{DisplacedError, is_displacing};

/// Wraps the promise of a submitted closure and fails it with [`DisplacedError`] if the job is
/// displaced.
pub(super) struct JobPromise<T: Send + 'static> {
    inner: Option<executor::TaskPromise<T>>,
}

impl<T: Send + 'static> JobPromise<T> {
    #[inline]
    pub(super) fn of<H: Executor>(pool: &Arc<H>) -> (Self, Completion<T>) {
        let (inner, completion) = executor::TaskPromise::of(pool);
        (Self { inner: Some(inner) }, completion)
    }

    /// Runs `run` and completes the promise with its result, unless the reader has cancelled.
    #[inline]
    pub(super) fn run(mut self, run: impl FnOnce() -> T) {
        if let Some(inner) = self.inner.take() {
            inner.run(run);
        }
    }
}

impl<T: Send + 'static> Drop for JobPromise<T> {
    fn drop(&mut self) {
        // If the closure is dropped without having run, the inner promise is cancelled, unless the
        // job was displaced.
        if let Some(inner) = self.inner.take().filter(|_| is_displacing()) {
            inner.fail(Failure::new(DisplacedError));
        }
    }
}
