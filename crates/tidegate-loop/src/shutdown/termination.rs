//! The public view of an event loop's end: a completion, and the tasks that were handed back.

use std::sync::Arc;

use tidegate_core::Clock;
use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::WatchList;
use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_pool::internal::{EndHome, UnstartedTasks};
use tidegate_pool::{HandedBack, ShutdownError};
use tidegate_promise::{Promise, SharedCompletion, promise_on};

use super::report::ShutdownReport;

/// The outcome of an event loop's shutdown.
pub(crate) type Outcome = Result<ShutdownReport, ShutdownError>;

/// The end of one event loop.
pub(crate) struct Termination {
    promise: Mutex<Option<Promise<ShutdownReport, ShutdownError>>>,
    /// The outcome, between the last turn and its announcement.
    outcome: Mutex<Option<Outcome>>,
    /// What handles can still see of the event loop. It is dropped once the event loop has ended
    /// and has no handle: tasks that were handed back hold a reference to the event loop, so
    /// otherwise the two would keep each other alive.
    seen: Mutex<Option<Seen>>,
    /// The tasks that were accepted and have not started.
    left: UnstartedTasks,
}

struct Seen {
    terminated: SharedCompletion<ShutdownReport, ShutdownError>,
    handed_back: HandedBack,
}

impl Termination {
    /// Creates the end of the event loop `id`.
    pub(crate) fn new(id: ExecutorId, name: &str, clock: &Clock) -> Self {
        let (promise, completion) = promise_on(EndHome::of(id, name, clock));
        // All waiters share one completion: none of them can cancel it.
        promise.set_uncancellable();
        let terminated = completion
            .share()
            .unwrap_or_else(|_| unreachable!("a new completion was not taken"));
        let handed_back = HandedBack::default();
        Self {
            promise: Mutex::new(Some(promise)),
            outcome: Mutex::default(),
            left: UnstartedTasks::of(&handed_back),
            seen: Mutex::new(Some(Seen {
                terminated,
                handed_back,
            })),
        }
    }

    /// Returns the completion of the end.
    pub(crate) fn completion(&self) -> SharedCompletion<ShutdownReport, ShutdownError> {
        let seen = lock(&self.seen);
        let terminated = seen.as_ref().map(|seen| seen.terminated.clone());
        drop(seen);
        terminated.unwrap_or_else(|| failed(ShutdownError::Lost))
    }

    /// Returns the collection for tasks that were accepted and will not be started.
    pub(crate) fn handed_back(&self) -> HandedBack {
        let seen = lock(&self.seen);
        let handed_back = seen.as_ref().map(|seen| seen.handed_back.clone());
        drop(seen);
        handed_back.unwrap_or_default()
    }

    /// Stores the outcome until the last thread takes it to announce it.
    pub(crate) fn set_outcome(&self, how: Outcome) {
        *lock(&self.outcome) = Some(how);
    }

    /// Returns `true` if the event loop has ended and its end is not announced yet.
    pub(crate) fn has_outcome(&self) -> bool {
        lock(&self.outcome).is_some()
    }

    pub(crate) fn take_outcome(&self) -> Option<Outcome> {
        lock(&self.outcome).take()
    }

    /// Completes the promise of the end; only the first outcome counts.
    pub(crate) fn report(&self, how: Outcome) {
        let promise = lock(&self.promise).take();
        if let Some(promise) = promise {
            // The promise cannot be cancelled, so this cannot fail.
            let _ = promise.complete(how);
        }
    }

    /// Notifies the waiters for tasks that have not started that the event loop `id` has ended.
    pub(crate) fn leave_tasks(&self, id: ExecutorId) {
        self.left.leave(id);
    }

    /// Like [`Termination::leave_tasks`], for an event loop that is stuck and cannot hand its tasks
    /// back.
    pub(crate) fn give_up_tasks(&self, id: ExecutorId) {
        self.left.give_up(id);
    }

    /// Returns `true` if accepted tasks will not start here and were not taken to run elsewhere.
    pub(crate) fn has_abandoned_tasks(&self) -> bool {
        self.left.is_left()
    }

    /// Returns what waits for tasks that have not started.
    pub(crate) fn watch_list(&self) -> &Arc<WatchList> {
        self.left.watch_list()
    }

    /// Drops what handles can still see.
    pub(crate) fn forget(&self) {
        let seen = lock(&self.seen).take();
        drop(seen);
    }
}

/// Returns a termination that has already failed.
pub(crate) fn failed(why: ShutdownError) -> SharedCompletion<ShutdownReport, ShutdownError> {
    let failed = tidegate_promise::Completion::failed(why);
    failed
        .share()
        .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
}
