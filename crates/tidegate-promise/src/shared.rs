//! The read end that can be cloned.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::executor::Work;
use tidegate_core::{CancelToken, Executor};

use crate::block::{ListenerToken, SharedReader, run_put_off};
use crate::wait::{Waitable, pending_or_unstarted, wait};
use crate::{Failure, Outcome, WaitError};

/// A read end that can be cloned. Every clone sees the outcome, and none takes it: waiting and
/// `.await` return a clone of it.
///
/// ```
/// let (promise, answer) = tidegate_promise::promise::<u32>();
/// let shared = answer.share().expect("no reader took the outcome");
/// let other = shared.clone();
/// promise.succeed(7)?;
/// assert_eq!((shared.wait()?, other.wait()?), (7, 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedCompletion<T: Send + Sync + 'static, E: Send + Sync + 'static = Failure> {
    reader: SharedReader<T, E>,
    /// The waker of the last poll through this handle, and its registration.
    polled: Option<(Waker, ListenerToken)>,
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> SharedCompletion<T, E> {
    pub(crate) fn new(reader: SharedReader<T, E>) -> Self {
        Self {
            reader,
            polled: None,
        }
    }

    /// Calls `listen` with the outcome when it is decided.
    ///
    /// # Threads
    ///
    /// As for [`Completion::on_complete`](crate::Completion::on_complete).
    pub fn on_complete<F>(&self, listen: F)
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        drop(self.reader.listen(listen));
    }

    /// Like [`SharedCompletion::on_complete`], but dropping the returned guard removes the
    /// listener. Suited to many short-lived listeners of a long-lived completion: the nodes of
    /// removed listeners are freed by a periodic sweep.
    pub fn listen<F>(&self, listen: F) -> ListenerGuard<T, E>
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        ListenerGuard {
            token: Some(self.reader.listen(listen)),
            reader: self.reader.clone(),
        }
    }

    /// Returns the outcome if it is decided. Never blocks.
    pub fn peek(&self) -> Option<Outcome<&T, &E>> {
        self.reader.peek()
    }

    /// Cancels the promise. Returns `false` if it was already decided or cannot be cancelled.
    pub fn cancel(&self) -> bool {
        self.reader.cancel()
    }

    /// Returns `true` if the outcome is decided.
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// Returns `true` if the promise can still be cancelled.
    pub fn is_cancellable(&self) -> bool {
        self.reader.is_cancellable()
    }

    /// Returns the executor on which the listeners run, if any.
    pub fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.reader.home()
    }

    fn forget_polled(&mut self) {
        if let Some((_, token)) = self.polled.take() {
            self.reader.remove(&token);
        }
    }
}

impl<T: Send + Sync + Clone + 'static, E: Send + Sync + Clone + 'static> SharedCompletion<T, E> {
    /// Blocks until the outcome is decided and returns a clone of it.
    ///
    /// # Errors
    ///
    /// As for [`Completion::wait`](crate::Completion::wait).
    pub fn wait(&self) -> Result<T, WaitError<E>> {
        wait(&mut self.clone(), None, None)
    }

    /// Blocks until the outcome is decided, at most for `timeout`, on the same clock as
    /// [`Completion::wait_timeout`](crate::Completion::wait_timeout).
    ///
    /// # Errors
    ///
    /// As for [`Completion::wait_timeout`](crate::Completion::wait_timeout).
    pub fn wait_timeout(&self, timeout: Duration) -> Result<T, WaitError<E>> {
        wait(&mut self.clone(), Some(timeout), None)
    }

    /// Blocks until the outcome is decided or `token` is cancelled. If `token` is already cancelled
    /// when the wait begins, the wait is interrupted even if the outcome is decided.
    ///
    /// # Errors
    ///
    /// As for [`Completion::wait_with_cancel`](crate::Completion::wait_with_cancel).
    pub fn wait_with_cancel(&self, token: &CancelToken) -> Result<T, WaitError<E>> {
        wait(&mut self.clone(), None, Some(token))
    }
}

impl<T: Send + Sync + Clone + 'static, E: Send + Sync + Clone + 'static> Waitable
    for SharedCompletion<T, E>
{
    type Answer = Option<Outcome<T, E>>;
    type Cause = E;

    fn try_result(&mut self) -> Option<Self::Answer> {
        Some(Some(self.reader.peek()?.cloned()))
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Self::Answer> {
        if let Some(answer) = self.try_result() {
            return Poll::Ready(answer);
        }
        let same = |(last, _): &(Waker, _)| last.will_wake(waker);
        if !self.polled.as_ref().is_some_and(same) {
            self.forget_polled();
            let token = self.reader.listen_waker(waker.clone());
            self.polled = Some((waker.clone(), token));
        }
        // The outcome may have been decided between the first check and the registration. The
        // waker was then called in place.
        self.try_result().map_or(Poll::Pending, Poll::Ready)
    }

    fn forget(&mut self) {
        self.forget_polled();
    }

    fn sleep(&mut self) -> Option<Self::Answer> {
        // Not supported: only the unique reader may sleep on the block. Several threads may wait
        // through shared readers, so each sleeps in its own parker.
        None
    }

    fn unstarted_failure(&self) -> Option<E> {
        self.reader.fail_if_unstarted()
    }

    fn is_notifying_on_this_thread(&self) -> bool {
        // A shared reader only reads the outcome, so it need not wait until all listeners have
        // run.
        false
    }

    fn home(&self) -> Option<&Arc<dyn Executor>> {
        self.reader.home()
    }

    fn awaited(&self) -> (usize, Work) {
        self.reader.awaited()
    }

    fn needs_nothing_or_will_report(&self) -> bool {
        self.reader.needs_nothing_or_will_report()
    }
}

impl<T, E> Future for SharedCompletion<T, E>
where
    T: Send + Sync + Clone + 'static,
    E: Send + Sync + Clone + 'static,
{
    type Output = Result<T, WaitError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // As for `Completion`.
        run_put_off();
        match Waitable::poll(&mut *self, cx.waker()) {
            Poll::Ready(outcome) => Poll::Ready(WaitError::from_taken(outcome)),
            Poll::Pending => pending_or_unstarted(&*self),
        }
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Clone for SharedCompletion<T, E> {
    fn clone(&self) -> Self {
        Self::new(self.reader.clone())
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Drop for SharedCompletion<T, E> {
    fn drop(&mut self) {
        self.forget_polled();
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> fmt::Debug for SharedCompletion<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCompletion")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

/// A listener of a [`SharedCompletion`]. Dropping the guard removes the listener.
#[must_use = "dropping the guard removes the listener"]
pub struct ListenerGuard<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    reader: SharedReader<T, E>,
    token: Option<ListenerToken>,
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> ListenerGuard<T, E> {
    /// Consumes the guard without removing the listener.
    pub fn forget(mut self) {
        self.token = None;
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Drop for ListenerGuard<T, E> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.reader.remove(&token);
        }
    }
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> fmt::Debug for ListenerGuard<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerGuard").finish_non_exhaustive()
    }
}
