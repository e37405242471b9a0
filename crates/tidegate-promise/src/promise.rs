//! The write end.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tidegate_core::{Executor, Task};

use crate::block::{SharedWriter, Writer, block, owed_block};
use crate::{Abandoned, Completion, Failure};

/// Makes a promise without a home: its listeners run on the thread that completes it.
///
/// ```
/// let (promise, answer) = tidegate_promise::promise::<&str>();
/// promise.succeed("hello")?;
/// assert_eq!(answer.wait()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn promise<T: Send + 'static>() -> (Promise<T>, Completion<T>) {
    promise_of()
}

/// Makes a promise without a home and with a failure type of your own.
#[inline]
pub fn promise_of<T, E>() -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + From<Abandoned> + 'static,
{
    make(None)
}

/// Makes a promise whose listeners run on `home`.
#[inline]
pub fn promise_on<T, E>(home: Arc<dyn Executor>) -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + From<Abandoned> + 'static,
{
    make(Some(home))
}

/// Makes the promise of a task that `home` has accepted: where `home` ends without beginning it,
/// whoever waits gets `left` instead.
#[inline]
pub fn promise_owed<T, E>(
    home: Arc<dyn Executor>,
    left: fn() -> E,
) -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + 'static,
{
    let (writer, reader) = owed_block(home, left);
    (Promise { writer }, Completion::new(reader))
}

#[inline]
fn make<T, E>(home: Option<Arc<dyn Executor>>) -> (Promise<T, E>, Completion<T, E>)
where
    T: Send + 'static,
    E: Send + From<Abandoned> + 'static,
{
    let (writer, reader) = block(home, || E::from(Abandoned));
    (Promise { writer }, Completion::new(reader))
}

/// The unique write end of a promise.
///
/// Completing consumes it, so completing twice does not compile:
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
/// Dropping it without completing it fails the promise as [`Abandoned`].
#[must_use = "dropping a promise fails it as abandoned"]
pub struct Promise<T: Send + 'static, E: Send + 'static = Failure> {
    writer: Writer<T, E>,
}

impl<T: Send + 'static, E: Send + 'static> Promise<T, E> {
    /// Completes with a value.
    ///
    /// # Errors
    ///
    /// The value, when the reader has cancelled. Ignoring it is fine: nobody wanted it.
    ///
    /// # Threads
    ///
    /// From any thread. Listeners run before this returns if the promise has no home or this is
    /// its home's thread; else on the home.
    #[inline]
    pub fn succeed(self, value: T) -> Result<(), AlreadyCancelled<T>> {
        match self.writer.complete(Ok(value)) {
            Ok(()) => Ok(()),
            Err(Ok(value)) => Err(AlreadyCancelled(value)),
            Err(Err(_)) => Ok(()),
        }
    }

    /// Completes with a failure.
    ///
    /// # Errors
    ///
    /// The cause, when the reader has cancelled.
    pub fn fail(self, cause: impl Into<E>) -> Result<(), AlreadyCancelled<E>> {
        match self.writer.complete(Err(cause.into())) {
            Ok(()) => Ok(()),
            Err(Err(cause)) => Err(AlreadyCancelled(cause)),
            Err(Ok(_)) => Ok(()),
        }
    }

    /// Completes with what a fallible function answered.
    ///
    /// # Errors
    ///
    /// The result, when the reader has cancelled.
    pub fn complete(self, result: Result<T, E>) -> Result<(), AlreadyCancelled<Result<T, E>>> {
        self.writer.complete(result).map_err(AlreadyCancelled)
    }

    /// Gives up: the reader sees a cancellation; an abandoned promise where the work had begun
    /// and could not be cancelled any more.
    pub fn cancel(self) {
        self.writer.cancel();
    }

    /// From now on the reader cannot cancel: the work has begun. False only if it has already.
    pub fn set_uncancellable(&self) -> bool {
        self.writer.set_uncancellable()
    }

    /// Calls `hook` when the reader cancels, on the thread that cancels; at once, on this
    /// thread, if it already has. A later hook replaces an earlier one.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        self.writer.on_cancel(Task::new(hook));
    }

    /// Whether the reader has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.writer.is_cancelled()
    }

    /// Whether anybody can still see the outcome: a read end or a listener.
    pub fn is_observed(&self) -> bool {
        self.writer.is_observed()
    }

    /// Where the listeners run.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.writer.home()
    }

    /// Turns this into a write end that can be cloned; the first to complete wins.
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

/// A write end that can be cloned. The first to complete wins; the others get their value back.
/// When the last one is dropped without completing, the promise fails as [`Abandoned`].
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

// By hand: a handle can be cloned whatever it completes with.
impl<T: Send + 'static, E: Send + 'static> Clone for SharedPromise<T, E> {
    fn clone(&self) -> Self {
        Self {
            writer: self.writer.clone(),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> SharedPromise<T, E> {
    /// Completes with a value if nobody was faster.
    ///
    /// # Errors
    ///
    /// The value, when another writer or a cancellation was faster.
    pub fn try_succeed(&self, value: T) -> Result<(), T> {
        match self.writer.try_complete(Ok(value)) {
            Err(Ok(value)) => Err(value),
            _ => Ok(()),
        }
    }

    /// Completes with a failure if nobody was faster.
    ///
    /// # Errors
    ///
    /// The cause, when another writer or a cancellation was faster.
    pub fn try_fail(&self, cause: impl Into<E>) -> Result<(), E> {
        match self.writer.try_complete(Err(cause.into())) {
            Err(Err(cause)) => Err(cause),
            _ => Ok(()),
        }
    }

    /// Completes with a result if nobody was faster.
    ///
    /// # Errors
    ///
    /// The result, when another writer or a cancellation was faster.
    pub fn try_complete(&self, result: Result<T, E>) -> Result<(), Result<T, E>> {
        self.writer.try_complete(result)
    }

    /// Cancels from the writers' side; false if it was decided before or cannot be cancelled.
    pub fn cancel(&self) -> bool {
        self.writer.cancel()
    }

    /// See [`Promise::set_uncancellable`].
    pub fn set_uncancellable(&self) -> bool {
        self.writer.set_uncancellable()
    }

    /// See [`Promise::on_cancel`].
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        self.writer.on_cancel(Task::new(hook));
    }

    /// Whether the outcome is decided.
    pub fn is_done(&self) -> bool {
        self.writer.is_done()
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.writer.is_cancelled()
    }
}

/// The reader had cancelled; gives back what it no longer wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AlreadyCancelled<T>(pub T);

impl<T> AlreadyCancelled<T> {
    /// What was refused.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for AlreadyCancelled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> fmt::Display for AlreadyCancelled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader has cancelled; nobody waits for the outcome")
    }
}

impl<T> Error for AlreadyCancelled<T> {}
