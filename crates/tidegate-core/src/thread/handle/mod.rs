//! Handles to a started thread, and the ways to wait for its end.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::info::{ThreadInfo, ThreadRecord};
use super::start::current;
use crate::executor::{WaitPolicy, wait_policy};
use crate::sys::prim;
use crate::wait::{WaitGuard, check_end};
use crate::{CaughtPanic, Parker, WaitRefusedError};

/// A started thread.
///
/// There are two ways to wait for its end: [`join`](Self::join) blocks, and is refused where every
/// other blocking wait is refused; [`ended`](Self::ended) returns a future.
#[derive(Debug)]
pub struct ThreadHandle {
    record: Arc<ThreadRecord>,
    joined: Option<prim::JoinHandle<()>>,
}

impl ThreadHandle {
    pub(super) fn new(record: Arc<ThreadRecord>, joined: Option<prim::JoinHandle<()>>) -> Self {
        Self { record, joined }
    }

    /// Returns a view of the thread with its present state.
    pub fn info(&self) -> ThreadInfo {
        self.record.info()
    }

    /// Returns a handle that observes the thread without owning it.
    #[doc(hidden)]
    pub fn watch(&self) -> ThreadWatch {
        ThreadWatch::new(&self.record)
    }

    /// Returns a future that is ready when the thread's job and its hooks are over. It also works
    /// for a thread that cannot be joined.
    pub fn ended(&self) -> ThreadEnd {
        ThreadEnd::new(&self.record)
    }

    /// Waits for the thread's end. Returns `false` at once for a thread that cannot be joined: a
    /// detached thread, or one from a user's spawner.
    ///
    /// # Errors
    ///
    /// A [`JoinError`] with the handle, if the calling thread must not block, or if the
    /// two threads would wait for each other. A join of a thread that has ended is never refused.
    pub fn join(self) -> Result<bool, JoinError> {
        if self.joined.is_none() {
            return Ok(false);
        }
        if !self.record.has_ended() {
            match check_end(&self.record) {
                Ok(_recorded) => self.sleep(),
                Err(why) => return Err(JoinError { handle: self, why }),
            }
        }
        Ok(self.joined.is_some_and(finish))
    }

    fn sleep(&self) {
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        let mut end = self.ended();
        while !end.is_ready(&waker) {
            parker.park(None);
        }
    }
}

/// Joins a thread whose job is over. Only the destructors of its thread-locals are left; a thread
/// that must not block does not wait for them.
fn finish(thread: prim::JoinHandle<()>) -> bool {
    wait_policy() != WaitPolicy::Free || thread.join().map_err(CaughtPanic::from).is_ok()
}

/// Observes a thread without owning it.
#[derive(Clone, Debug)]
pub struct ThreadWatch {
    record: Arc<ThreadRecord>,
}

impl ThreadWatch {
    pub(super) fn new(record: &Arc<ThreadRecord>) -> Self {
        Self {
            record: Arc::clone(record),
        }
    }

    /// Returns a view of the thread with its present state.
    pub fn info(&self) -> ThreadInfo {
        self.record.info()
    }

    /// Returns `true` if the calling thread is the observed thread.
    pub fn is_current(&self) -> bool {
        current().is_some_and(|record| Arc::ptr_eq(&record, &self.record))
    }

    /// Returns a future that is ready when the thread's job and its hooks are over.
    pub fn ended(&self) -> ThreadEnd {
        ThreadEnd::new(&self.record)
    }

    /// Checks a blocking wait of the calling thread for something that this thread has to do first.
    /// The caller must hold the returned guard while it waits.
    ///
    /// # Errors
    ///
    /// A [`WaitRefusedError`] if the calling thread must not block, or if the wait would close a
    /// cycle.
    pub fn check_wait(&self) -> Result<WaitGuard, WaitRefusedError> {
        check_end(&self.record)
    }

    /// Records whether the thread sleeps, for [`ThreadInfo::state`]. Called by the code that drives
    /// the thread.
    pub fn set_waiting(&self, waiting: bool) {
        self.record.set_waiting(waiting);
    }
}

/// A future that is ready when the thread's job and its hooks are over.
///
/// ```
/// use tidegate_core::ThreadBuilder;
///
/// async fn tidy_up(thread: tidegate_core::thread::ThreadHandle) {
///     thread.ended().await;
/// }
/// # drop(tidy_up(ThreadBuilder::new("job").spawn(|| ())?));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct ThreadEnd {
    record: Arc<ThreadRecord>,
    /// Identifies the registered waker, if any.
    key: Option<u64>,
}

impl ThreadEnd {
    fn new(record: &Arc<ThreadRecord>) -> Self {
        Self {
            record: Arc::clone(record),
            key: None,
        }
    }

    /// Returns `true` if the thread has ended; otherwise `waker` is woken when it does.
    fn is_ready(&mut self, waker: &Waker) -> bool {
        self.record.wake_at_end(&mut self.key, waker)
    }
}

impl Future for ThreadEnd {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_ready(cx.waker()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.record.forget(key);
        }
    }
}

/// The error for a thread that was not joined, because the calling thread may not wait for it. It
/// contains the handle.
pub struct JoinError {
    handle: ThreadHandle,
    why: WaitRefusedError,
}

impl JoinError {
    /// Returns the reason.
    pub fn why(&self) -> &WaitRefusedError {
        &self.why
    }

    /// Returns the handle: to await the thread's end, or to join it on another thread.
    pub fn into_handle(self) -> ThreadHandle {
        self.handle
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.handle.record.name();
        write!(
            f,
            "thread `{name}` was not joined: the calling thread may not wait for it; await its end \
             instead"
        )
    }
}

crate::debug_as_display!(JoinError);

impl Error for JoinError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
