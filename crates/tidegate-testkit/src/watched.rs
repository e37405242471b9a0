//! A value under a lock, with a wait for a condition on it and a watchdog.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time after which a wait in this crate decides that the test hangs.
///
/// Far longer than a loaded machine needs. It turns a hang into a failure and has no other effect.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// A value, and a way to wait until it satisfies a condition.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Condvar::new(),
        }
    }

    /// Changes the value and wakes all waiters.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let answer = change(&mut self.lock());
        self.changed.notify_all();
        answer
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Blocks until `ready` returns `true`. Panics with the message from `message` after `limit`.
    #[track_caller]
    pub(crate) fn wait_until(
        &self,
        limit: Duration,
        ready: impl Fn(&T) -> bool,
        message: impl FnOnce(&T) -> String,
    ) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), limit, |value| !ready(value));
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            let sentence = message(&guard);
            // Release the lock before the panic, because the other threads of the test still need
            // it.
            drop(guard);
            panic!("{sentence} (gave up after {limit:?})");
        }
    }

    /// Locks the value and ignores poisoning, so that a failed assertion on one thread is not
    /// hidden by a poisoned lock on another.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
