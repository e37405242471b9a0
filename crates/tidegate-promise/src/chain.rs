//! Completions made from a known value or from other completions.

use crate::{AbandonedError, Completion, Outcome, Promise, promise_with_error};

impl<T: Send + 'static, E: Send + 'static> Completion<T, E> {
    /// Returns a completion that has already succeeded.
    ///
    /// ```
    /// use tidegate_promise::Completion;
    ///
    /// let done: Completion<u32> = Completion::succeeded(7);
    /// assert!(done.is_done() && !done.cancel());
    /// assert_eq!(done.wait()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn succeeded(value: T) -> Self
    where
        E: From<AbandonedError>,
    {
        Self::completed(Ok(value))
    }

    /// Returns a completion that has already failed.
    pub fn failed(cause: impl Into<E>) -> Self
    where
        E: From<AbandonedError>,
    {
        Self::completed(Err(cause.into()))
    }

    fn completed(result: Result<T, E>) -> Self
    where
        E: From<AbandonedError>,
    {
        let (promise, completion) = promise_with_error();
        // No other code holds the new completion yet, so it cannot have been cancelled.
        let _ = promise.complete(result);
        completion
    }

    /// Returns a completion of the value that `map` returns. `map` runs as a listener of this
    /// completion. If it panics, the returned completion fails as abandoned. Cancelling the
    /// returned completion cancels this one.
    ///
    /// ```
    /// let (promise, answer) = tidegate_promise::promise::<u32>();
    /// let doubled = answer.map(|n| n * 2);
    /// promise.succeed(21)?;
    /// assert_eq!(doubled.wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map<U, F>(self, map: F) -> Completion<U, E>
    where
        U: Send + 'static,
        F: FnOnce(&T) -> U + Send + 'static,
        T: Sync,
        E: From<AbandonedError> + Clone + Sync,
    {
        let (promise, mapped) = promise_with_error();
        self.pass_on(promise, move |value| map(value));
        mapped
    }

    /// Completes `target` with the outcome of this completion. A cancellation of `target` cancels
    /// this one.
    ///
    /// If `target` was already cancelled, it stays cancelled. If `target` can no longer be
    /// cancelled, it fails as abandoned when this completion is cancelled. Replaces an existing
    /// cancel hook of `target`.
    pub fn cascade(self, target: Promise<T, E>)
    where
        T: Clone + Sync,
        E: Clone + Sync,
    {
        self.pass_on(target, T::clone);
    }

    fn pass_on<U, F>(self, target: Promise<U, E>, map: F)
    where
        U: Send + 'static,
        F: FnOnce(&T) -> U + Send + 'static,
        T: Sync,
        E: Clone + Sync,
    {
        let source = match self.share() {
            Ok(source) => source,
            // The outcome was already taken. Dropping `target` fails it as abandoned.
            Err(_) => return,
        };
        let back = source.clone();
        target.on_cancel(move || {
            back.cancel();
        });
        let target = target.share();
        source.on_complete(move |outcome| {
            match outcome {
                Outcome::Success(value) => drop(target.try_succeed(map(value))),
                Outcome::Failure(cause) => drop(target.try_complete(Err(cause.clone()))),
                Outcome::Cancelled => drop(target.cancel()),
            };
        });
    }
}
