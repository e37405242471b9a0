//! The promise behind a closure that was given to a pool.

use std::sync::Arc;

use tidegate_core::Executor;
use tidegate_promise::{Completion, Failure};

use crate::executor;

use super::policy::{Displaced, is_displacing};

/// The answer of any executor's closure, which also fails when its job is displaced by another.
pub(super) struct Answer<T: Send + 'static> {
    inner: Option<executor::Answer<T>>,
}

impl<T: Send + 'static> Answer<T> {
    #[inline]
    pub(super) fn of<H: Executor>(pool: &Arc<H>) -> (Self, Completion<T>) {
        let (inner, completion) = executor::Answer::of(pool);
        (Self { inner: Some(inner) }, completion)
    }

    /// Runs `run` unless the reader has cancelled, and answers with what it returns.
    #[inline]
    pub(super) fn run(mut self, run: impl FnOnce() -> T) {
        if let Some(inner) = self.inner.take() {
            inner.run(run);
        }
    }
}

impl<T: Send + 'static> Drop for Answer<T> {
    fn drop(&mut self) {
        // Dropped without having run it is cancelled, unless it had to make room.
        if let Some(inner) = self.inner.take().filter(|_| is_displacing()) {
            inner.fail(Failure::new(Displaced));
        }
    }
}
