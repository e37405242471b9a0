//! The unique read end.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_core::{CancelToken, Executor};

use crate::block::{ListenerToken, Reader};
use crate::wait::{Limit, left, wait};
use crate::{Failure, Outcome, SharedCompletion, WaitError};

/// The read end of a promise: takes listeners, can be waited for, is a future.
///
/// The outcome is stored once. Listeners and [`Completion::peek`] see it by reference, any
/// number of them; one taker gets it by value ([`Completion::wait`], `.await`,
/// [`Completion::take`]), after every listener that was added before.
///
/// # Cancellation
///
/// Dropping a completion detaches: the work goes on, its outcome is nobody's.
/// [`Completion::cancel_on_drop`] makes it a guard.
///
/// # Threads
///
/// It can be sent to another thread and belongs to one at a time; [`Completion::share`] makes
/// one for several. So this does not compile:
///
/// ```compile_fail,E0277
/// fn needs_sync<T: Sync>(_: &T) {}
/// let (_promise, answer) = tidegate_promise::promise::<u32>();
/// needs_sync(&answer);
/// ```
pub struct Completion<T: Send + 'static, E: Send + 'static = Failure> {
    reader: Reader<T, E>,
}

/// Names one listener of a [`Completion`], to remove it.
#[derive(Debug)]
pub struct ListenerId<T: Send + 'static, E: Send + 'static> {
    token: Option<ListenerToken<T, E>>,
}

impl<T: Send + 'static, E: Send + 'static> ListenerId<T, E> {
    /// False if the outcome had been taken already: there was nothing left to show, and the
    /// listener was dropped uncalled.
    pub fn is_accepted(&self) -> bool {
        self.token.is_some()
    }
}

impl<T: Send + 'static, E: Send + 'static> Completion<T, E> {
    pub(crate) fn new(reader: Reader<T, E>) -> Self {
        Self { reader }
    }

    /// Calls `listen` with the outcome when it is decided; at once if it is and this is the
    /// right thread.
    ///
    /// # Threads
    ///
    /// `listen` runs on the promise's home, or, if it has none, on the thread that completes
    /// it. Listeners run in the order in which they were added, each once; one that panics is
    /// reported to the home and does not disturb the others.
    #[inline]
    pub fn on_complete<F>(&self, listen: F) -> ListenerId<T, E>
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        ListenerId {
            token: self.reader.listen(listen),
        }
    }

    /// Like [`Completion::on_complete`], and gives the read end up: for who listens once and
    /// looks no further. The cheapest way to listen.
    #[inline]
    pub fn finally<F>(self, listen: F)
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        self.reader.finish(listen);
    }

    /// Removes a listener; false if it was told already, or is being told.
    pub fn remove_listener(&self, listener: &ListenerId<T, E>) -> bool {
        let token = listener.token.as_ref();
        token.is_some_and(|token| self.reader.remove(token))
    }

    /// The outcome, if it is decided and was not taken. Never blocks.
    pub fn peek(&self) -> Option<Outcome<&T, &E>>
    where
        T: Sync,
        E: Sync,
    {
        self.reader.peek()
    }

    /// Takes the outcome if it is decided and the listeners were told. Never blocks.
    pub fn take(&mut self) -> Option<Outcome<T, E>> {
        self.reader.try_take()
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`WaitError`]: the failure, the cancellation, or why this thread may not wait: on an
    /// event loop's thread a wait is refused, never a deadlock. A decided outcome is never
    /// refused.
    pub fn wait(mut self) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, Limit::None, None, true)
    }

    /// Waits for the outcome at most for `timeout`, by the clock of the promise's home. A
    /// timeout of zero only looks.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait`], and [`WaitError::TimedOut`]; the completion can then be waited
    /// for again.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, Limit::For(timeout), None, true)
    }

    /// Waits for the outcome until `deadline`, by the clock of the promise's home.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait_timeout`].
    pub fn wait_until(&mut self, deadline: Instant) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, Limit::Until(deadline), None, true)
    }

    /// Waits for the outcome until `token` is tripped.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait`], and [`WaitError::Interrupted`].
    pub fn wait_with(&mut self, token: &CancelToken) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, Limit::None, Some(token), true)
    }

    /// Waits for the outcome until `token` is tripped, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait_timeout`], and [`WaitError::Interrupted`].
    pub fn wait_timeout_with(
        &mut self,
        timeout: Duration,
        token: &CancelToken,
    ) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, Limit::For(timeout), Some(token), true)
    }

    /// Waits although the wait record would refuse: for a promise that somebody else than its
    /// home completes. On a thread that must not block it is refused all the same.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait`].
    pub fn wait_unchecked(mut self) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, Limit::None, None, false)
    }

    /// Cancels. True if the promise is cancelled by this call; false if it was decided before,
    /// or its work has begun and cannot be cancelled any more.
    pub fn cancel(&self) -> bool {
        self.reader.cancel()
    }

    /// Whether the outcome is decided, in whichever way.
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.reader.is_cancelled()
    }

    /// Whether it can still be cancelled.
    pub fn is_cancellable(&self) -> bool {
        self.reader.is_cancellable()
    }

    /// Where the listeners run.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.reader.home()
    }

    /// Makes this a guard that cancels when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T, E> {
        CancelOnDrop {
            completion: Some(self),
        }
    }

    /// Turns this into a read end that can be cloned.
    ///
    /// # Errors
    ///
    /// The completion itself, when the outcome was taken out of it.
    pub fn share(self) -> Result<SharedCompletion<T, E>, Self>
    where
        T: Sync,
        E: Sync,
    {
        match self.reader.share() {
            Ok(reader) => Ok(SharedCompletion::new(reader)),
            Err(reader) => Err(Self { reader }),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Future for Completion<T, E> {
    type Output = Result<T, WaitError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.reader.poll(cx.waker()) {
            Poll::Ready(outcome) => Poll::Ready(WaitError::from_taken(outcome)),
            Poll::Pending => left(&self.reader),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Completion<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("done", &self.is_done())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// A completion that is cancelled when it is dropped undecided.
///
/// ```
/// let (promise, answer) = tidegate_promise::promise::<u32>();
/// drop(answer.cancel_on_drop());
/// assert!(promise.is_cancelled());
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard cancels"]
pub struct CancelOnDrop<T: Send + 'static, E: Send + 'static = Failure> {
    completion: Option<Completion<T, E>>,
}

impl<T: Send + 'static, E: Send + 'static> CancelOnDrop<T, E> {
    /// The completion without the guard.
    pub fn disarm(mut self) -> Completion<T, E> {
        self.completion
            .take()
            .expect("only `disarm` and drop take it out")
    }
}

impl<T: Send + 'static, E: Send + 'static> Deref for CancelOnDrop<T, E> {
    type Target = Completion<T, E>;

    fn deref(&self) -> &Self::Target {
        self.completion
            .as_ref()
            .expect("only `disarm` and drop take it out")
    }
}

impl<T: Send + 'static, E: Send + 'static> DerefMut for CancelOnDrop<T, E> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.completion
            .as_mut()
            .expect("only `disarm` and drop take it out")
    }
}

impl<T: Send + 'static, E: Send + 'static> Future for CancelOnDrop<T, E> {
    type Output = Result<T, WaitError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut **self).poll(cx)
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for CancelOnDrop<T, E> {
    fn drop(&mut self) {
        if let Some(completion) = &self.completion {
            completion.cancel();
        }
    }
}
