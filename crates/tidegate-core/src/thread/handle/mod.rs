//! A started thread as others see it: how they wait for its end.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::info::{Life, ThreadInfo};
use super::start::current;
use crate::wait::check_end;
use crate::{CancelToken, CaughtPanic, Parker, Stance, WaitGuard, WaitRefused, prim, stance};

/// A started thread.
///
/// There are two ways to wait for its end: [`join`](Self::join) blocks and is refused where every
/// other blocking wait is, and [`ended`](Self::ended) is a future.
#[derive(Debug)]
pub struct ThreadHandle {
    life: Arc<Life>,
    joined: Option<prim::JoinHandle<()>>,
}

impl ThreadHandle {
    pub(super) fn new(life: Arc<Life>, joined: Option<prim::JoinHandle<()>>) -> Self {
        Self { life, joined }
    }

    /// What is known of the thread now.
    pub fn info(&self) -> ThreadInfo {
        self.life.info()
    }

    /// A handle that asks after the thread without owning it.
    pub fn watch(&self) -> ThreadWatch {
        ThreadWatch::new(&self.life)
    }

    /// Returns a future that is ready when the thread's job and its hooks are over. Also for a
    /// thread that cannot be joined.
    pub fn ended(&self) -> ThreadEnd {
        ThreadEnd::new(&self.life)
    }

    /// Waits for the thread's end. Returns false at once for a thread that cannot be joined:
    /// a detached one, or one from a user's spawner.
    ///
    /// # Errors
    ///
    /// [`NotJoined::Refused`] with the handle, when the calling thread must not block, or when
    /// the two would wait for each other. A thread that has ended is never refused.
    pub fn join(self) -> Result<bool, JoinError> {
        self.wait(None)
    }

    /// As [`ThreadHandle::join`], until `token` is tripped.
    ///
    /// # Errors
    ///
    /// As there, and [`NotJoined::Interrupted`] when the token was tripped before the thread's
    /// job was over.
    pub fn join_with(self, token: &CancelToken) -> Result<bool, JoinError> {
        self.wait(Some(token))
    }

    fn wait(self, token: Option<&CancelToken>) -> Result<bool, JoinError> {
        if self.joined.is_none() {
            return Ok(false);
        }
        if !self.life.has_ended() {
            let waited = match check_end(&self.life) {
                Ok(_recorded) => self.sleep(token),
                Err(why) => Err(NotJoined::Refused(why)),
            };
            if let Err(why) = waited {
                return Err(JoinError { handle: self, why });
            }
        }
        Ok(self.joined.is_some_and(finish))
    }

    fn sleep(&self, token: Option<&CancelToken>) -> Result<(), NotJoined> {
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        let _hook = token.map(|token| token.unpark_on_cancel(&parker));
        let mut end = self.ended();
        while !end.is_ready(&waker) {
            if token.is_some_and(CancelToken::is_cancelled) {
                return Err(NotJoined::Interrupted);
            }
            parker.park(None);
        }
        Ok(())
    }
}

/// Joins a thread whose job is over: what is left is the end of its thread-locals, for which a
/// thread that must not block does not wait.
fn finish(thread: prim::JoinHandle<()>) -> bool {
    stance() != Stance::Free || thread.join().map_err(CaughtPanic::from).is_ok()
}

/// Asks after a thread that somebody else owns.
#[derive(Clone, Debug)]
pub struct ThreadWatch {
    life: Arc<Life>,
}

impl ThreadWatch {
    pub(super) fn new(life: &Arc<Life>) -> Self {
        Self {
            life: Arc::clone(life),
        }
    }

    /// What is known of the thread now.
    pub fn info(&self) -> ThreadInfo {
        self.life.info()
    }

    /// Returns `true` if this is the calling thread.
    pub fn is_current(&self) -> bool {
        current().is_some_and(|life| Arc::ptr_eq(&life, &self.life))
    }

    /// Returns a future that is ready when the thread's job and its hooks are over.
    pub fn ended(&self) -> ThreadEnd {
        ThreadEnd::new(&self.life)
    }

    /// Checks a blocking wait of the calling thread for something that this thread has to do
    /// first. Hold the answer while waiting.
    ///
    /// # Errors
    ///
    /// A [`WaitRefused`] when the calling thread must not block, or when a circle would close.
    pub fn check_wait(&self) -> Result<WaitGuard, WaitRefused> {
        check_end(&self.life)
    }

    /// Asks the thread's work to stop; what it runs sees it in [`ThreadInfo`].
    pub fn request_cancel(&self) {
        self.life.request_cancel();
    }

    /// Notes whether the thread sleeps, for [`ThreadInfo::state`]. Called by whoever drives it.
    pub fn set_waiting(&self, waiting: bool) {
        self.life.set_waiting(waiting);
    }
}

/// The end of a thread, as a future: ready when its job and its hooks are over.
///
/// ```
/// use tidegate_core::ThreadBuilder;
///
/// async fn tidy_up(thread: tidegate_core::ThreadHandle) {
///     thread.ended().await;
/// }
/// # drop(tidy_up(ThreadBuilder::new("job").spawn(|| ())?));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct ThreadEnd {
    life: Arc<Life>,
    /// Names its waker while one waits.
    key: Option<u64>,
}

impl ThreadEnd {
    fn new(life: &Arc<Life>) -> Self {
        Self {
            life: Arc::clone(life),
            key: None,
        }
    }

    /// Whether the thread has ended; if not, `waker` is woken when it does.
    fn is_ready(&mut self, waker: &Waker) -> bool {
        self.life.wake_at_end(&mut self.key, waker)
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
            self.life.forget(key);
        }
    }
}

/// A thread was not joined; the handle is inside.
pub struct JoinError {
    handle: ThreadHandle,
    why: NotJoined,
}

/// Why a thread was not joined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotJoined {
    /// The calling thread may not wait for it.
    Refused(WaitRefused),
    /// The caller's token was tripped first.
    Interrupted,
}

impl JoinError {
    /// Why it was not joined.
    pub fn why(&self) -> &NotJoined {
        &self.why
    }

    /// Returns the handle: to await its end, or to join it elsewhere.
    pub fn into_handle(self) -> ThreadHandle {
        self.handle
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.handle.life.name();
        match &self.why {
            NotJoined::Refused(why) => write!(f, "thread `{name}` was not joined: {why}"),
            NotJoined::Interrupted => write!(
                f,
                "thread `{name}` was not joined: the wait was interrupted by its cancel token"
            ),
        }
    }
}

crate::debug_as_display!(JoinError);

impl Error for JoinError {}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;
