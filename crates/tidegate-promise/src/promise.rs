//! The write ends of a promise, and the functions that create a promise with its completion.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tidegate_core::executor::Work;
use tidegate_core::internal::{ByValue, PlainTask, run_task_of_promise};
use tidegate_core::{CaughtPanic, Executor};

use crate::block::{SharedWriter, Writer, block, task_block};
use crate::{AbandonedError, Completion, Failure};

/// Creates a promise without a home. Its listeners run on the thread that completes it.
///
/// ```
/// let (promise, answer) = tidegate_promise::promise::<&str>();
/// promise.succeed("hello")?;
/// assert_eq!(answer.wait()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn promise<T: Send + 'static>() -> (Promise<T>, Completion<T>) {
    promise_with_error()
}

/// Creates a promise without a home, with a custom failure type.
#[inline]
pub fn promise_with_error<T, E>() -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + From<AbandonedError> + 'static,
{
    make(None)
}

/// Creates a promise whose listeners run on `home`.
#[inline]
pub fn promise_on<T, E>(home: Arc<dyn Executor>) -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + From<AbandonedError> + 'static,
{
    make(Some(home))
}

/// Creates the promise of a task that `home` has accepted, in the way that `work` tells. If `home`
/// ends before it starts the task, waiters receive the failure that `unstarted` returns.
#[inline]
pub fn promise_for_task<T, E>(
    home: Arc<dyn Executor>,
    work: Work,
    unstarted: fn() -> E,
) -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + 'static,
{
    let (writer, reader) = task_block(home, work, unstarted);
    (Promise { writer }, Completion::new(reader))
}

#[inline]
fn make<T, E>(home: Option<Arc<dyn Executor>>) -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + From<AbandonedError> + 'static,
{
    let (writer, reader) = block(home, || E::from(AbandonedError));
    (Promise { writer }, Completion::new(reader))
}

/// The unique write end of a promise.
///
/// Completing the promise consumes this value, so completing twice does not compile:
///
/// ```compile_fail,E0382
/// let (promise, _answer) = tidegate_promise::promise::<u32>();
/// promise.succeed(1);
/// promise.succeed(2);
/// ```
///
/// The value may be stored on one thread and taken on another, so it must be `Send`:
///
/// ```compile_fail,E0277
/// let (promise, _answer) = tidegate_promise::promise::<std::rc::Rc<u32>>();
/// ```
///
/// # Cancellation
///
/// Dropping this without completing it fails the promise as [`AbandonedError`].
#[must_use = "dropping a promise fails it as abandoned"]
pub struct Promise<T: Send + 'static, E: Send + 'static = Failure> {
    writer: Writer<T, E>,
}

impl<T: Send + 'static, E: Send + 'static> Promise<T, E> {
    /// Completes the promise with a value.
    ///
    /// # Errors
    ///
    /// Returns the value if the reader has cancelled. It is fine to ignore this error.
    ///
    /// # Threads
    ///
    /// Can be called from any thread. Listeners run before this method returns if the promise has
    /// no home, or if the calling thread is running the home executor. Otherwise they run on the
    /// home executor.
    #[inline]
    pub fn succeed(self, value: T) -> Result<(), AlreadyCancelled<T>> {
        match self.writer.complete(Ok(value)) {
            Ok(()) => Ok(()),
            Err(Ok(value)) => Err(AlreadyCancelled::new(value)),
            Err(Err(_)) => Ok(()),
        }
    }

    /// Completes the promise with a failure.
    ///
    /// # Errors
    ///
    /// Returns the cause if the reader has cancelled.
    pub fn fail(self, cause: impl Into<E>) -> Result<(), AlreadyCancelled<E>> {
        match self.writer.complete(Err(cause.into())) {
            Ok(()) => Ok(()),
            Err(Err(cause)) => Err(AlreadyCancelled::new(cause)),
            Err(Ok(_)) => Ok(()),
        }
    }

    /// Completes the promise with the result of a fallible function.
    ///
    /// # Errors
    ///
    /// Returns the result if the reader has cancelled.
    pub fn complete(self, result: Result<T, E>) -> Result<(), AlreadyCancelled<Result<T, E>>> {
        self.writer.complete(result).map_err(AlreadyCancelled::new)
    }

    /// Cancels the promise from the writer's side: the reader sees a cancellation. If the promise
    /// was made uncancellable, it fails as abandoned instead.
    pub fn cancel(self) {
        self.writer.cancel();
    }

    /// Makes the promise uncancellable, because its work has started. Returns `false` only if it
    /// was already cancelled.
    pub fn set_uncancellable(&self) -> bool {
        self.writer.set_uncancellable()
    }

    /// Runs the task that decides this promise, and contains its panic. Until it returns, the outcome
    /// cannot come while this thread waits, and the check of waits knows that.
    #[doc(hidden)]
    #[inline(always)]
    pub fn run_task<R>(&self, run: impl FnOnce() -> R) -> Result<R, CaughtPanic> {
        run_task_of_promise(self.writer.addr(), run)
    }

    /// Registers `hook`, which runs when the promise is cancelled, on the thread that cancels it.
    /// If the promise is already cancelled, `hook` runs at once on this thread. A later hook
    /// replaces an earlier one.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        self.writer.on_cancel(PlainTask::new(hook));
    }

    /// Returns `true` if the promise was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.writer.is_cancelled()
    }

    /// Returns `true` if a read end or a listener can still see the outcome.
    pub fn is_observed(&self) -> bool {
        self.writer.is_observed()
    }

    /// Returns the executor on which the listeners run, if any.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.writer.home()
    }

    /// Converts this into a write end that can be cloned. The first clone to complete wins.
    pub fn share(self) -> SharedPromise<T, E> {
        SharedPromise {
            writer: self.writer.share(),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Promise<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// A write end that can be cloned. The first clone to complete wins; the others get their value
/// back. When the last clone is dropped and none has completed, the promise fails as
/// [`AbandonedError`].
///
/// ```
/// let (promise, answer) = tidegate_promise::promise::<u32>();
/// let (a, b) = (promise.share(), ());
/// let c = a.clone();
/// assert_eq!(a.try_succeed(1), Ok(()));
/// assert_eq!(c.try_succeed(2), Err(2));
/// assert_eq!(answer.wait()?, 1);
/// # let _ = b;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedPromise<T: Send + 'static, E: Send + 'static = Failure> {
    writer: SharedWriter<T, E>,
}

// Not derived: a derived impl would require `T` and `E` to be `Clone`.
impl<T: Send + 'static, E: Send + 'static> Clone for SharedPromise<T, E> {
    fn clone(&self) -> Self {
        Self {
            writer: self.writer.clone(),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> SharedPromise<T, E> {
    /// Completes the promise with a value, unless it is already decided.
    ///
    /// # Errors
    ///
    /// Returns the value if another writer or a cancellation was faster.
    pub fn try_succeed(&self, value: T) -> Result<(), T> {
        match self.writer.try_complete(Ok(value)) {
            Err(Ok(value)) => Err(value),
            _ => Ok(()),
        }
    }

    /// Completes the promise with a failure, unless it is already decided.
    ///
    /// # Errors
    ///
    /// Returns the cause if another writer or a cancellation was faster.
    pub fn try_fail(&self, cause: impl Into<E>) -> Result<(), E> {
        match self.writer.try_complete(Err(cause.into())) {
            Err(Err(cause)) => Err(cause),
            _ => Ok(()),
        }
    }

    /// Completes the promise with a result, unless it is already decided.
    ///
    /// # Errors
    ///
    /// Returns the result if another writer or a cancellation was faster.
    pub fn try_complete(&self, result: Result<T, E>) -> Result<(), Result<T, E>> {
        self.writer.try_complete(result)
    }

    /// Cancels the promise from the writers' side. Returns `false` if it was already decided or
    /// cannot be cancelled.
    pub fn cancel(&self) -> bool {
        self.writer.cancel()
    }

    /// See [`Promise::set_uncancellable`].
    pub fn set_uncancellable(&self) -> bool {
        self.writer.set_uncancellable()
    }

    /// See [`Promise::on_cancel`].
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        self.writer.on_cancel(PlainTask::new(hook));
    }

    /// Returns `true` if the outcome is decided.
    pub fn is_done(&self) -> bool {
        self.writer.is_done()
    }

    /// Returns `true` if the promise was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.writer.is_cancelled()
    }
}

/// The error of completing a promise that was already cancelled. Contains the rejected value.
///
/// It is `Send` and `Sync` if the value is `Send`, so `?` converts it into any boxed error.
#[must_use = "the rejected value is inside"]
pub struct AlreadyCancelled<T> {
    value: ByValue<T>,
}

impl<T> AlreadyCancelled<T> {
    fn new(value: T) -> Self {
        Self {
            value: ByValue::new(value),
        }
    }

    /// Returns the rejected value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> fmt::Debug for AlreadyCancelled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> fmt::Display for AlreadyCancelled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the promise was cancelled by its reader; take the value back, or drop it")
    }
}

// By hand: the derive would print the value with `Debug`.
impl<T> Error for AlreadyCancelled<T> {}
