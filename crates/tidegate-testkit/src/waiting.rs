//! Waiting for a condition that no gate, counter or log reports.
//!
//! Each wait names its condition and panics with that name after [`WATCHDOG`], so that a condition
//! that never becomes true fails its test instead of hanging it. Not for models: loom and shuttle
//! need the yields of their own schedulers.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::watched::WATCHDOG;

/// Blocks until `condition` returns true, and lets other threads run between two calls of it.
///
/// `what` states the condition as a clause: "the pool has no thread".
///
/// # Examples
///
/// ```
/// use tidegate_testkit::until;
///
/// let worker = std::thread::spawn(|| 6 * 7);
/// until("the worker has finished", || worker.is_finished());
/// assert_eq!(worker.join().unwrap(), 42);
/// ```
///
/// # Panics
///
/// When the condition is still false after [`WATCHDOG`]; the panic names `what` and the waiting
/// line.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Calls `attempt` until it returns a value, and lets other threads run between two calls.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use tidegate_testkit::until_some;
///
/// let (sender, receiver) = mpsc::channel();
/// std::thread::spawn(move || sender.send(7));
/// assert_eq!(until_some("a number has arrived", || receiver.try_recv().ok()), 7);
/// ```
///
/// # Panics
///
/// As [`until`].
#[track_caller]
pub fn until_some<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    until_some_at_most(WATCHDOG, what, attempt)
}

#[track_caller]
pub(crate) fn until_some_at_most<T>(
    limit: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Option<T>,
) -> T {
    let begun = now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        if now() - begun >= limit {
            give_up(limit, what);
        }
        thread::yield_now();
    }
}

/// Polls `future` on the calling thread until it is ready, and sleeps in between.
///
/// # Examples
///
/// ```
/// assert_eq!(tidegate_testkit::block_on("seven is ready", async { 7 }), 7);
/// ```
///
/// # Panics
///
/// When the future is not woken for [`WATCHDOG`]; the panic names `what` and the waiting line.
#[track_caller]
pub fn block_on<F: Future>(what: &str, future: F) -> F::Output {
    block_on_at_most(WATCHDOG, what, future)
}

#[track_caller]
pub(crate) fn block_on_at_most<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let begun = now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        match limit.checked_sub(now() - begun) {
            Some(left) if !left.is_zero() => thread::park_timeout(left),
            _ => give_up(limit, what),
        }
    }
}

/// Wakes the thread that polls.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Yields the processor `times` times: time for other threads to run, where a test wants them to
/// run in between but waits for nothing in particular.
pub fn yield_times(times: u64) {
    (0..times).for_each(|_| thread::yield_now());
}

/// Spins `times` times: a pause shorter than a yield, to move two threads against each other.
pub fn spin_times(times: u64) {
    (0..times).for_each(|_| std::hint::spin_loop());
}

#[track_caller]
fn give_up(limit: Duration, what: &str) -> ! {
    panic!("waited in vain until {what} (gave up after {limit:?})");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a watchdog measures real time, whatever clock the test turns"
)]
fn now() -> Instant {
    Instant::now()
}
