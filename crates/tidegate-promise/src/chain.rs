//! Completions made from a value that is there already, and from other completions.

use crate::{Abandoned, Completion, Outcome, Promise, promise_of};

impl<T: Send + 'static, E: Send + 'static> Completion<T, E> {
    /// A completion that has succeeded already.
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
        E: From<Abandoned>,
    {
        Self::completed(Ok(value))
    }

    /// A completion that has failed already.
    pub fn failed(cause: impl Into<E>) -> Self
    where
        E: From<Abandoned>,
    {
        Self::completed(Err(cause.into()))
    }

    fn completed(result: Result<T, E>) -> Self
    where
        E: From<Abandoned>,
    {
        let (promise, completion) = promise_of();
        // Nobody else holds the new completion, so nobody can have cancelled it.
        let _ = promise.complete(result);
        completion
    }

    /// A completion of what `map` makes of the value. `map` runs where listeners run; a panic
    /// in it abandons the answer. Cancelling the answer cancels this one.
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
        E: From<Abandoned> + Clone + Sync,
    {
        let (promise, mapped) = promise_of();
        self.pass_on(promise, move |value| map(value));
        mapped
    }

    /// Passes the outcome on to `target`, and a cancellation of the target back to this.
    ///
    /// A target that was cancelled meanwhile keeps its cancellation; one that cannot be
    /// cancelled any more fails as abandoned when this is cancelled. The hook of the target,
    /// if it had one, is replaced.
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
            // Taken: there is nothing to pass on, and dropping the target says so.
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
