//! Counts the threads of an event loop, for waits until there is none.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::{Parker, WaitRefusedError};

/// Why [`EventLoop::await_inactivity`](crate::EventLoop::await_inactivity) did not wait.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InactivityError {
    /// The event loop never had a thread.
    NeverStarted,
    /// The calling thread must not block.
    Refused(WaitRefusedError),
}

impl fmt::Display for InactivityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverStarted => f.write_str(
                "the loop never had a thread to wait for; give it a task before waiting",
            ),
            Self::Refused(_) => f.write_str(
                "this thread must not wait for a loop's thread to end; wait on another \
                 thread",
            ),
        }
    }
}

impl Error for InactivityError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(why) => Some(why),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(InactivityError);

/// The number of an event loop's threads, and the waiters for that number to become zero.
#[derive(Debug, Default)]
pub(crate) struct ThreadPresence {
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    /// Threads that were requested and have not ended. More than one while an old thread is about
    /// to end.
    alive: usize,
    /// `true` if a thread ever ran.
    began: bool,
    /// The waiters. An entry is dead once its waiter has stopped waiting.
    waiting: Vec<Weak<Parker>>,
}

impl ThreadPresence {
    /// Counts a thread that is about to be started, until the returned guard is dropped.
    pub(crate) fn join(this: &Arc<Self>) -> ThreadPresenceGuard {
        lock(&this.threads).alive += 1;
        ThreadPresenceGuard {
            presence: Arc::clone(this),
        }
    }

    pub(crate) fn is_gone(&self) -> Result<bool, InactivityError> {
        let threads = lock(&self.threads);
        match (threads.alive, threads.began) {
            (0, false) => Err(InactivityError::NeverStarted),
            (alive, _) => Ok(alive == 0),
        }
    }

    /// Unparks `parker` when the last thread ends. The caller checks [`ThreadPresence::is_gone`]
    /// again afterwards.
    pub(crate) fn wake_when_gone(&self, parker: &Arc<Parker>) {
        let mut threads = lock(&self.threads);
        threads.waiting.retain(|one| one.strong_count() > 0);
        threads.waiting.push(Arc::downgrade(parker));
    }
}

/// A thread of an event loop, from before it starts until it ends.
#[derive(Debug)]
pub(crate) struct ThreadPresenceGuard {
    presence: Arc<ThreadPresence>,
}

impl ThreadPresenceGuard {
    /// Records that the thread runs.
    pub(crate) fn arrive(&self) {
        lock(&self.presence.threads).began = true;
    }
}

impl Drop for ThreadPresenceGuard {
    fn drop(&mut self) {
        let mut threads = lock(&self.presence.threads);
        threads.alive -= 1;
        let waiting = if threads.alive == 0 {
            std::mem::take(&mut threads.waiting)
        } else {
            Vec::new()
        };
        drop(threads);
        for parker in waiting.iter().filter_map(Weak::upgrade) {
            parker.unpark();
        }
    }
}
