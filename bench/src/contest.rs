//! The interface of a contestant: the traits that peers and our own types implement alike.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What enforces the bound on the number of outstanding tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The contestant itself: its `submit` waits while that many tasks are outstanding.
    Own(usize),
    /// The harness: it never has more than that many tasks outstanding, so the contestant need not
    /// check.
    Window(usize),
    /// Nothing: the contestant must accept every task.
    Unbounded,
}

impl Limit {
    /// Returns the bound that the contestant has to enforce itself.
    pub(crate) fn own(self) -> Option<usize> {
        match self {
            Limit::Own(bound) => Some(bound),
            Limit::Window(_) | Limit::Unbounded => None,
        }
    }

    /// Returns the bound that the harness enforces.
    pub(crate) fn window(self) -> Option<usize> {
        match self {
            Limit::Window(bound) => Some(bound),
            Limit::Own(_) | Limit::Unbounded => None,
        }
    }
}

/// A loop on one thread of its own that runs tasks from other threads in order.
pub(crate) trait LoopContestant: Send + Sync + Sized + 'static {
    /// Starts the loop on a thread with that name.
    fn start(name: &str, limit: Limit) -> Self;

    /// Submits a task, waiting while the loop is full.
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F);

    /// Returns how often the loop's thread was woken so far, if the contestant counts that.
    fn wakeups(&self) -> Option<u64> {
        None
    }

    /// Stops the loop and joins its thread. All tasks have run.
    fn stop(self);
}

/// A promise of one `u64` with one listener, created and completed on one thread.
pub(crate) trait PromiseContestant: 'static {
    /// The promise with the handles to listen to it and to complete it.
    type Pending;

    /// Creates a promise.
    fn create() -> Self::Pending;

    /// Adds the one listener: it must end in [`observe`].
    fn listen(pending: &mut Self::Pending);

    /// Completes the promise with `value` and drops it; the listener has run when this returns.
    fn complete(pending: Self::Pending, value: u64);
}

/// A promise on which one thread waits while another completes it.
pub(crate) trait WaitContestant: 'static {
    /// The side that completes.
    type Completer: Send + 'static;
    /// The side that waits.
    type Waiter: 'static;

    /// Creates a promise.
    fn pair() -> (Self::Completer, Self::Waiter);

    /// Completes the promise.
    fn complete(completer: Self::Completer, stamp: Instant);

    /// Blocks until the promise is completed.
    fn wait(waiter: Self::Waiter) -> Instant;
}

/// A pool of threads that runs jobs and returns their results.
pub(crate) trait PoolContestant: Sized + 'static {
    /// A pending result.
    type Pending: 'static;

    /// Starts a pool of at most that many threads.
    fn start(threads: usize) -> Self;

    /// Submits the job of adding one to `value`.
    fn submit(&self, value: u64) -> Self::Pending;

    /// Blocks until the result is available.
    fn wait(&self, pending: Self::Pending) -> u64;

    /// Runs the same job and waits for it; overridden if the pool has a shorter way.
    fn call(&self, value: u64) -> u64 {
        let pending = self.submit(value);
        self.wait(pending)
    }

    /// Stops the pool. All jobs have run.
    fn stop(self);
}

static SEEN: AtomicU64 = AtomicU64::new(0);

/// Called by every listener with the value: a plain store that the compiler has to keep.
#[inline]
pub(crate) fn observe(value: u64) {
    SEEN.store(value, Ordering::Relaxed);
}
