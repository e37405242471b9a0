//! Combinators for several completions: all of them, the first of them, the first that succeeds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::internal::unpoisoned;

use crate::{
    AbandonedError, Completion, Failure, Outcome, Promise, SharedCompletion, promise_with_error,
};

/// Combinators, for completions whose values can be cloned.
impl<T: Clone + Send + Sync + 'static> Completion<T> {
    /// Completes when all of `parts` have completed: with all values, or with the first failure
    /// that was seen. A cancelled part counts as a failure. Does not fail fast: it waits for all
    /// parts. Without parts it completes at once.
    ///
    /// Cancelling the returned completion cancels every part.
    ///
    /// ```
    /// use tidegate_promise::{Completion, promise};
    ///
    /// let (a, first) = promise::<u32>();
    /// let (b, second) = promise::<u32>();
    /// let both = Completion::all([first, second]);
    /// b.succeed(2)?;
    /// a.succeed(1)?;
    /// assert_eq!(both.wait()?, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Completion<Vec<T>> {
        let parts: Vec<_> = parts.into_iter().collect();
        let (promise, every) = promise_with_error();
        if parts.is_empty() {
            let _ = promise.succeed(Vec::new());
            return every;
        }
        let count = parts.len();
        let gather = Gather::new(promise, count);
        let cancels = parts.into_iter().enumerate().filter_map(|(at, part)| {
            let part = part.share().ok()?;
            let gather = Arc::clone(&gather);
            part.on_complete(move |outcome| gather.record(at, outcome));
            Some(part)
        });
        let cancels: Vec<_> = cancels.collect();
        if cancels.len() < count {
            gather.record_taken(count - cancels.len());
        }
        gather.on_cancel(move || cancel_all(Some(&cancels)));
        every
    }

    /// Completes with the value or the failure of the first of `parts` that completes, and cancels
    /// the others. If the first part was cancelled, the returned completion fails with
    /// [`Failure::cancelled`]; it is not cancelled itself. Ignores parts whose outcome was already
    /// taken. Without parts it fails as abandoned.
    ///
    /// Cancelling the returned completion cancels every part.
    ///
    /// ```
    /// use tidegate_promise::{Completion, promise};
    ///
    /// let (a, first) = promise::<u32>();
    /// let (b, second) = promise::<u32>();
    /// let fastest = Completion::any([first, second]);
    /// b.succeed(2)?;
    /// assert!(a.is_cancelled());
    /// assert_eq!(fastest.wait()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        race(parts, |_| true)
    }

    /// Completes with the value of the first of `parts` that succeeds, and cancels the others. If
    /// none succeeds, it fails with the failure that was reported last. A cancelled part counts as
    /// a failure. Ignores parts whose outcome was already taken. Without parts it fails as
    /// abandoned.
    ///
    /// Cancelling the returned completion cancels every part.
    ///
    /// ```
    /// use tidegate_promise::{Completion, Failure, promise};
    ///
    /// let (a, first) = promise::<u32>();
    /// let (b, second) = promise::<u32>();
    /// let good = Completion::first_success([first, second]);
    /// a.fail(Failure::new("no luck"))?;
    /// b.succeed(2)?;
    /// assert_eq!(good.wait()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_success(parts: impl IntoIterator<Item = Self>) -> Self {
        race(parts, |outcome| outcome.is_success())
    }
}

/// Collects the outcomes of the parts.
struct Gather<T: Send + 'static> {
    state: Mutex<Gathered<T>>,
}

struct Gathered<T: Send + 'static> {
    promise: Option<Promise<Vec<T>>>,
    values: Vec<Option<T>>,
    missing: usize,
    failure: Option<Failure>,
}

impl<T: Clone + Send + Sync + 'static> Gather<T> {
    fn new(promise: Promise<Vec<T>>, count: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(Gathered {
                promise: Some(promise),
                values: vec![None; count],
                missing: count,
                failure: None,
            }),
        })
    }

    fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        // The hook may run in place, so it must not run under the lock.
        let promise = self.lock().promise.take();
        let Some(promise) = promise else { return };
        promise.on_cancel(hook);
        let mut state = self.lock();
        state.promise = Some(promise);
        Self::complete_if_all_recorded(state);
    }

    fn record(&self, at: usize, outcome: Outcome<&T, &Failure>) {
        // Clones before anything is counted, and not under the lock. If the clone panics, this
        // part stays missing and the combined promise is abandoned.
        let outcome = outcome.cloned();
        let mut state = self.lock();
        state.missing -= 1;
        match outcome {
            Outcome::Success(value) => state.values[at] = Some(value),
            Outcome::Failure(cause) => {
                state.failure.get_or_insert(cause);
            }
            Outcome::Cancelled => {
                state.failure.get_or_insert_with(Failure::cancelled);
            }
        }
        Self::complete_if_all_recorded(state);
    }

    /// Counts `count` parts whose outcome was already taken. They never report here, so they are
    /// recorded as abandoned.
    fn record_taken(&self, count: usize) {
        let mut state = self.lock();
        state.missing -= count;
        state.failure.get_or_insert_with(|| AbandonedError.into());
        Self::complete_if_all_recorded(state);
    }

    fn complete_if_all_recorded(mut state: std::sync::MutexGuard<'_, Gathered<T>>) {
        if state.missing > 0 {
            return;
        }
        let Some(promise) = state.promise.take() else {
            return;
        };
        let values = std::mem::take(&mut state.values);
        let failure = state.failure.take();
        // Listeners of the combined promise run in here, so the lock is released first.
        drop(state);
        let _ = match failure {
            Some(cause) => promise.complete(Err(cause)),
            None => promise.complete(Ok(values.into_iter().flatten().collect())),
        };
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Gathered<T>> {
        unpoisoned(self.state.lock())
    }
}

fn race<T>(
    parts: impl IntoIterator<Item = Completion<T>>,
    wins: fn(&Outcome<&T, &Failure>) -> bool,
) -> Completion<T>
where
    T: Clone + Send + Sync + 'static,
{
    let (promise, winner) = promise_with_error();
    let promise = promise.share();
    let parts: Arc<[_]> = parts
        .into_iter()
        .filter_map(|part| part.share().ok())
        .collect();
    let left = Arc::new(AtomicUsize::new(parts.len()));
    for part in parts.iter() {
        let (promise, others, left) = (promise.clone(), Arc::downgrade(&parts), Arc::clone(&left));
        part.on_complete(move |outcome| {
            // Upgrade before completing: completion drops the hook that keeps the other parts
            // alive.
            let others = others.upgrade();
            let wins = wins(&outcome);
            let result = match outcome.cloned() {
                Outcome::Success(value) => Ok(value),
                Outcome::Failure(cause) => Err(cause),
                Outcome::Cancelled => Err(Failure::cancelled()),
            };
            // A winner completes the promise before it decrements the counter, so that the last
            // loser finds the promise decided if any part has won.
            let result = if wins {
                promise.try_complete(result)
            } else {
                Err(result)
            };
            // ORDERING: AcqRel, so that the last decrement happens after everything the other
            // parts did.
            let last = left.fetch_sub(1, Ordering::AcqRel) == 1;
            match result {
                Ok(()) => cancel_all(others.as_deref()),
                Err(result) if last => drop(promise.try_complete(result)),
                Err(_) => {}
            }
        });
    }
    // The hook keeps the parts alive, so that they can be cancelled, until the combined promise is
    // decided.
    promise.on_cancel(move || cancel_all(Some(&parts)));
    winner
}

fn cancel_all<T: Send + Sync + 'static>(parts: Option<&[SharedCompletion<T>]>) {
    for part in parts.into_iter().flatten() {
        part.cancel();
    }
}
