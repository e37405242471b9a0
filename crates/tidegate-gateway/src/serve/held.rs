//! Drains that wait for a reload that changes what is in use: it moves sockets from old listeners to new
//! ones, and a drain needs all of them.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tidegate::promise::{Completion, Outcome, Promise, promise};
use tidegate_core::internal::lock;

use super::gateway::Summary;

/// Holds drains while a reload changes what is in use. It is used under the lock of the listeners.
#[derive(Default)]
pub(super) struct Held(Mutex<State>);

#[derive(Default)]
struct State {
    is_held: bool,
    waiting: Vec<Waiting>,
}

/// A drain that has not begun.
pub(super) struct Waiting {
    pub(super) announce: Duration,
    pub(super) deadline: Duration,
    promise: Promise<Summary>,
}

impl Held {
    /// Holds drains from now on.
    pub(super) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// Returns the drains that have waited. Those that come now do not wait.
    pub(super) fn release(&self) -> Vec<Waiting> {
        std::mem::take(&mut *self.lock()).waiting
    }

    /// Returns the end of a drain that has to wait, or `None` if it can begin.
    pub(super) fn wait(
        &self,
        announce: Duration,
        deadline: Duration,
    ) -> Option<Completion<Summary>> {
        let mut state = self.lock();
        if !state.is_held {
            return None;
        }
        let (promise, drained) = promise();
        state.waiting.push(Waiting {
            announce,
            deadline,
            promise,
        });
        Some(drained)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl Waiting {
    /// The drain has begun, and ends so.
    pub(super) fn begun(self, drained: Completion<Summary>) {
        let promise = self.promise;
        drained.finally(move |outcome| {
            // A promise that is dropped says that it has failed.
            if let Outcome::Success(summary) = outcome {
                let _ = promise.succeed(summary.clone());
            }
        });
    }
}
