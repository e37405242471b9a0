//! The unique read end of a promise.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{CancelToken, Executor};

use crate::block::{ListenerToken, Reader, run_put_off};
use crate::wait::{pending_or_unstarted, wait};
use crate::{Failure, Outcome, SharedCompletion, WaitError};

/// The read end of a promise. It accepts listeners, a thread can block on it, and it is a future.
///
/// The outcome is stored once. Any number of listeners, and [`Completion::peek`], see it by
/// reference. One taker gets it by value ([`Completion::wait`], `.await`, [`Completion::take`]),
/// after all listeners that were added earlier have run.
///
/// # Cancellation
///
/// Dropping a completion detaches it: the work continues, and its outcome is discarded.
/// [`Completion::cancel_on_drop`] returns a guard that cancels instead.
///
/// # Threads
///
/// A completion can be sent to another thread but is used by one thread at a time;
/// [`Completion::share`] returns a read end for several threads. So this does not compile:
///
/// ```compile_fail,E0277
/// fn needs_sync<T: Sync>(_: &T) {}
/// let (_promise, answer) = tidegate_promise::promise::<u32>();
/// needs_sync(&answer);
/// ```
pub struct Completion<T: Send + 'static, E: Send + 'static = Failure> {
    reader: Reader<T, E>,
}

/// Identifies one listener of a [`Completion`], to remove it.
#[derive(Debug)]
pub struct ListenerId<T: Send + 'static, E: Send + 'static> {
    token: Option<ListenerToken>,
    /// A listener belongs to a completion of the same types.
    of: PhantomData<fn(T, E)>,
}

impl<T: Send + 'static, E: Send + 'static> ListenerId<T, E> {
    /// Returns `false` if the outcome had already been taken. The listener was then dropped
    /// without being called.
    pub fn is_accepted(&self) -> bool {
        self.token.is_some()
    }
}

impl<T: Send + 'static, E: Send + 'static> Completion<T, E> {
    pub(crate) fn new(reader: Reader<T, E>) -> Self {
        Self { reader }
    }

    /// Calls `listen` with the outcome when it is decided. If it is already decided, and the
    /// promise has no home or this thread is running the home's work, `listen` runs at once, unless
    /// listeners are nested too deep or another thread is running earlier listeners.
    ///
    /// # Threads
    ///
    /// `listen` runs on the promise's home, or, if it has none, on the thread that completes the
    /// promise. If the promise is already decided and has no home, `listen` runs on the calling
    /// thread, or on the thread that is still running earlier listeners. Listeners run once each,
    /// in the order in which they were added. They are not part of the order of tasks: a listener may
    /// run before a task that the completing thread submitted to the home earlier. A panic in a
    /// listener is reported to the home and does not affect the other listeners.
    #[inline]
    pub fn on_complete<F>(&self, listen: F) -> ListenerId<T, E>
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        ListenerId {
            token: self.reader.listen(listen),
            of: PhantomData,
        }
    }

    /// Like [`Completion::on_complete`], but consumes the read end. This is the cheapest way to
    /// listen, for callers that need nothing else from the completion.
    #[inline]
    pub fn finally<F>(self, listen: F)
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        self.reader.finish(listen);
    }

    /// Removes a listener. Returns `false` if it has already run or is running, or if it is a
    /// listener of another completion.
    pub fn remove_listener(&self, listener: &ListenerId<T, E>) -> bool {
        let token = listener.token.as_ref();
        token.is_some_and(|token| self.reader.remove(token))
    }

    /// Returns the outcome if it is decided and has not been taken. Never blocks.
    pub fn peek(&self) -> Option<Outcome<&T, &E>>
    where
        T: Sync,
        E: Sync,
    {
        self.reader.peek()
    }

    /// Takes the outcome if it is decided and all listeners have run. Returns `None` otherwise, and
    /// if the outcome was already taken. Never blocks.
    pub fn take(&mut self) -> Option<Outcome<T, E>> {
        self.reader.try_take()
    }

    /// Blocks until the outcome is decided and takes it.
    ///
    /// # Errors
    ///
    /// Returns a [`WaitError`]: the failure, the cancellation, or the reason why this thread may
    /// not wait. On an event loop's thread a wait is refused rather than risking a deadlock. A
    /// wait for an outcome that is already decided is never refused.
    pub fn wait(mut self) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, None, None)
    }

    /// Blocks until the outcome is decided, at most for `timeout`, measured by the clock of the
    /// promise's home. If it has none, the clock is that of the executor whose work the calling
    /// thread runs, or the system's. A timeout of zero only checks the outcome and does not block.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait`], and [`WaitError::TimedOut`]. After a timeout the completion can be
    /// waited for again.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, Some(timeout), None)
    }

    /// Blocks until the outcome is decided or `token` is cancelled. If `token` is already cancelled
    /// when the wait begins, the wait is interrupted even if the outcome is decided.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait`], and [`WaitError::Interrupted`].
    pub fn wait_with_cancel(&mut self, token: &CancelToken) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, None, Some(token))
    }

    /// Cancels the promise. Returns `true` if this call cancelled it. Returns `false` if the
    /// promise was already decided, if a shared promise is storing its outcome right now, or if it
    /// was made uncancellable, for example because its work has started.
    pub fn cancel(&self) -> bool {
        self.reader.cancel()
    }

    /// Returns `true` if the outcome is decided: success, failure or cancellation.
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// Returns `true` if the promise was cancelled. A task that its executor never started has failed.
    pub fn is_cancelled(&self) -> bool {
        self.reader.is_cancelled()
    }

    /// Returns `true` if the promise can still be cancelled.
    pub fn is_cancellable(&self) -> bool {
        self.reader.is_cancellable()
    }

    /// Returns the executor on which the listeners run, if any.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.reader.home()
    }

    /// Converts this into a guard that cancels the promise when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T, E> {
        CancelOnDrop {
            completion: Some(self),
        }
    }

    /// Converts this into a read end that can be cloned.
    ///
    /// # Errors
    ///
    /// Returns the completion itself if its outcome was already taken.
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
        // In a listener, the code that polls may block this thread until the outcome is there.
        run_put_off();
        match self.reader.poll(cx.waker()) {
            Poll::Ready(outcome) => Poll::Ready(WaitError::from_taken(outcome)),
            Poll::Pending => pending_or_unstarted(&self.reader),
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

/// A completion that cancels its promise when it is dropped, if the promise is still undecided.
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
    /// Returns the completion without the guard.
    pub fn disarm(mut self) -> Completion<T, E> {
        self.completion
            .take()
            .expect("only `disarm` and drop take it out")
    }

    /// Blocks until the outcome is decided: see [`Completion::wait`]. If the wait is refused, the
    /// promise is cancelled.
    ///
    /// # Errors
    ///
    /// As [`Completion::wait`].
    pub fn wait(mut self) -> Result<T, WaitError<E>> {
        wait(&mut self.reader, None, None)
    }

    /// Listens without the guard, because the listener needs the outcome: see
    /// [`Completion::on_complete`]. Returns the completion, which can be dropped or cancelled.
    ///
    /// ```
    /// let (promise, answer) = tidegate_promise::promise::<u32>();
    /// answer.cancel_on_drop().on_complete(|outcome| println!("{outcome:?}"));
    /// assert!(promise.succeed(42).is_ok(), "it was not cancelled");
    /// ```
    pub fn on_complete<F>(self, listen: F) -> Completion<T, E>
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        let completion = self.disarm();
        drop(completion.on_complete(listen));
        completion
    }

    /// Listens without the guard: see [`Completion::finally`].
    pub fn finally<F>(self, listen: F)
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        self.disarm().finally(listen);
    }
}

impl<T: Send + 'static, E: Send + 'static> From<CancelOnDrop<T, E>> for Completion<T, E> {
    /// Returns the completion without the guard.
    fn from(guard: CancelOnDrop<T, E>) -> Self {
        guard.disarm()
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
