//! Waits for a condition that no gate, counter or log reports.
//!
//! Each wait takes a description of its condition and panics with it after [`WATCHDOG`], so that a
//! condition that never becomes true fails its test instead of hanging it. Not for models: loom
//! and shuttle require the yields of their own schedulers.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::watched::WATCHDOG;

/// Blocks until `condition` returns `true`. Yields to other threads between two calls.
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
/// If the condition is still false after [`WATCHDOG`]. The message contains `what`; the location
/// is the caller's line.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Calls `attempt` until it returns a value. Yields to other threads between two calls.
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

/// Polls `future` on the calling thread until it is ready, and parks in between.
///
/// # Examples
///
/// ```
/// assert_eq!(tidegate_testkit::block_on("seven is ready", async { 7 }), 7);
/// ```
///
/// # Panics
///
/// If the future is not ready after [`WATCHDOG`]. The message contains `what`; the location is the
/// caller's line.
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

/// A waker that unparks the polling thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Yields the processor `times` times, so that other threads can run. For tests that wait for no
/// particular condition.
pub fn yield_times(times: u64) {
    (0..times).for_each(|_| thread::yield_now());
}

/// Spins `times` times: a pause shorter than a yield, to vary the relative timing of two threads.
pub fn spin_times(times: u64) {
    (0..times).for_each(|_| std::hint::spin_loop());
}

#[track_caller]
fn give_up(limit: Duration, what: &str) -> ! {
    panic!("timed out waiting until {what} (gave up after {limit:?})");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a watchdog measures real time, whatever clock the test turns"
)]
fn now() -> Instant {
    Instant::now()
}
