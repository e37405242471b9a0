//! A value under a lock that threads wait on, with a watchdog.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long anything in this crate waits before it decides that the test hangs.
///
/// Far beyond what a loaded machine needs: it turns a hang into a failure and decides nothing
/// else.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// A value, and a way to wait until it looks right.
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

    /// Changes the value and wakes everyone who waits for it.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let answer = change(&mut self.lock());
        self.changed.notify_all();
        answer
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Blocks until `ready`; panics with the sentence of `excuse` when that takes longer than
    /// `limit`.
    #[track_caller]
    pub(crate) fn wait_until(
        &self,
        limit: Duration,
        ready: impl Fn(&T) -> bool,
        excuse: impl FnOnce(&T) -> String,
    ) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), limit, |value| !ready(value));
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            let sentence = excuse(&guard);
            // Released before the panic: the other threads of the test still need it.
            drop(guard);
            panic!("{sentence} (gave up after {limit:?})");
        }
    }

    /// A thread that failed an assertion must not hide its failure behind a poisoned lock.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
