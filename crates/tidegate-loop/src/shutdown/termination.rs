//! The end of a loop as others see it: a completion, and the tasks that were handed back.

use tidegate_core::ExecutorId;
use tidegate_core::prim::{Mutex, lock};
use tidegate_pool::internal::Left;
use tidegate_pool::{HandedBack, ShutdownError};
use tidegate_promise::{Promise, SharedCompletion};

use super::report::ShutdownReport;

/// The end of a loop: a completion that any number of readers share.
pub type Terminated = SharedCompletion<ShutdownReport, ShutdownError>;

/// How a loop ended.
pub(crate) type Outcome = Result<ShutdownReport, ShutdownError>;

/// The end of one loop.
pub(crate) struct Termination {
    promise: Mutex<Option<Promise<ShutdownReport, ShutdownError>>>,
    /// How the loop ended, between its last turn and its announcement.
    outcome: Mutex<Option<Outcome>>,
    /// What is left to see of the loop; gone once it is over and no handle is left: tasks
    /// that were handed back hold on to their loop, and would keep it and themselves alive.
    seen: Mutex<Option<Seen>>,
    /// What was accepted and has not begun.
    left: Left,
}

struct Seen {
    terminated: Terminated,
    handed_back: HandedBack,
}

impl Termination {
    pub(crate) fn new() -> Self {
        let (promise, completion) = tidegate_promise::promise_of();
        // All waiters share one end: none of them can cancel it.
        promise.set_uncancellable();
        let terminated = completion
            .share()
            .unwrap_or_else(|_| unreachable!("a new completion was not taken"));
        let handed_back = HandedBack::default();
        Self {
            promise: Mutex::new(Some(promise)),
            outcome: Mutex::default(),
            left: Left::of(&handed_back),
            seen: Mutex::new(Some(Seen {
                terminated,
                handed_back,
            })),
        }
    }

    /// Returns the completion of the end.
    pub(crate) fn completion(&self) -> Terminated {
        let seen = lock(&self.seen);
        let terminated = seen.as_ref().map(|seen| seen.terminated.clone());
        drop(seen);
        terminated.unwrap_or_else(|| failed(ShutdownError::Lost))
    }

    /// Where tasks go that were accepted and will not be started.
    pub(crate) fn handed_back(&self) -> HandedBack {
        let seen = lock(&self.seen);
        let handed_back = seen.as_ref().map(|seen| seen.handed_back.clone());
        drop(seen);
        handed_back.unwrap_or_default()
    }

    /// Keeps how the loop ended until its last thread takes it to announce it.
    pub(crate) fn set_outcome(&self, how: Outcome) {
        *lock(&self.outcome) = Some(how);
    }

    /// Returns `true` if the loop has ended and its end is not announced yet.
    pub(crate) fn has_outcome(&self) -> bool {
        lock(&self.outcome).is_some()
    }

    pub(crate) fn take_outcome(&self) -> Option<Outcome> {
        lock(&self.outcome).take()
    }

    /// Completes the promise of the end; only the first report counts.
    pub(crate) fn report(&self, how: Outcome) {
        let promise = lock(&self.promise).take();
        if let Some(promise) = promise {
            // It cannot be cancelled, so this cannot fail.
            let _ = promise.complete(how);
        }
    }

    /// Tells the waiters for tasks that have not begun that the loop `id` has ended.
    pub(crate) fn leave_tasks(&self, id: ExecutorId) {
        self.left.leave(id);
    }

    /// The same of a loop that is stuck and cannot hand its tasks back.
    pub(crate) fn give_up_tasks(&self, id: ExecutorId) {
        self.left.give_up(id);
    }

    /// Returns `true` if accepted tasks will not begin here and were not taken elsewhere.
    pub(crate) fn has_left_tasks(&self) -> bool {
        self.left.is_left()
    }

    /// Forgets what is left to see.
    pub(crate) fn forget(&self) {
        let seen = lock(&self.seen).take();
        drop(seen);
    }
}

/// A termination that has failed already.
pub(crate) fn failed(why: ShutdownError) -> Terminated {
    let failed = tidegate_promise::Completion::failed(why);
    failed
        .share()
        .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
}
