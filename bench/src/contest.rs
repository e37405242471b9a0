//! What a contestant has to offer: the traits behind which peers and our own types stand alike.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Who keeps the number of outstanding tasks within a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The contestant itself: its `submit` waits while that many tasks are outstanding.
    Own(usize),
    /// The harness: never more than that many tasks are outstanding, so the contestant need not look.
    Window(usize),
    /// Nobody: it must take whatever comes.
    Unbounded,
}

impl Limit {
    /// The bound that the contestant has to keep itself.
    pub(crate) fn own(self) -> Option<usize> {
        match self {
            Limit::Own(bound) => Some(bound),
            Limit::Window(_) | Limit::Unbounded => None,
        }
    }

    /// The bound that the harness keeps.
    pub(crate) fn window(self) -> Option<usize> {
        match self {
            Limit::Window(bound) => Some(bound),
            Limit::Own(_) | Limit::Unbounded => None,
        }
    }
}

/// A loop on one thread of its own that runs the tasks other threads give it, in order.
pub(crate) trait LoopContestant: Send + Sync + Sized + 'static {
    /// Starts the loop on a thread with that name.
    fn start(name: &str, limit: Limit) -> Self;

    /// Gives it a task, waiting while it is full.
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F);

    /// How often its thread was woken so far, when it counts that.
    fn wakeups(&self) -> Option<u64> {
        None
    }

    /// Stops the loop and joins its thread. All tasks have run.
    fn stop(self);
}

/// A promise of one `u64` with one listener, made and completed on one thread.
pub(crate) trait PromiseContestant: 'static {
    /// The promise with what is needed to listen to it and to complete it.
    type Pending;

    /// Makes one.
    fn create() -> Self::Pending;

    /// Adds the one listener: it must end in [`observe`].
    fn listen(pending: &mut Self::Pending);

    /// Completes it with `value` and lets go of it; the listener has run when this returns.
    fn complete(pending: Self::Pending, value: u64);
}

/// A promise on which one thread waits while another completes it.
pub(crate) trait WaitContestant: 'static {
    /// The side that completes.
    type Completer: Send + 'static;
    /// The side that waits.
    type Waiter: 'static;

    /// Makes one.
    fn pair() -> (Self::Completer, Self::Waiter);

    /// Completes it.
    fn complete(completer: Self::Completer, stamp: Instant);

    /// Blocks until it is completed.
    fn wait(waiter: Self::Waiter) -> Instant;
}

/// A pool of threads that runs jobs and answers.
pub(crate) trait PoolContestant: Sized + 'static {
    /// An answer that is on its way.
    type Pending: 'static;

    /// A pool of at most that many threads.
    fn start(threads: usize) -> Self;

    /// Gives it the job of adding one to `value`.
    fn submit(&self, value: u64) -> Self::Pending;

    /// Blocks until the answer is there.
    fn wait(&self, pending: Self::Pending) -> u64;

    /// Does the same job and waits for it, if the pool has a shorter way.
    fn call(&self, value: u64) -> u64 {
        let pending = self.submit(value);
        self.wait(pending)
    }

    /// Sleeping threads that were woken for jobs so far, if the pool counts them.
    fn wakeups(&self) -> Option<u64> {
        None
    }

    /// Stops the pool. All jobs have run.
    fn stop(self);
}

static SEEN: AtomicU64 = AtomicU64::new(0);

/// What every listener does with the value: a plain store that the compiler has to keep.
#[inline]
pub(crate) fn observe(value: u64) {
    SEEN.store(value, Ordering::Relaxed);
}
