//! Time as a future: `sleep` and `timeout`, on the timer wheel of an event loop.
//!
//! Both are `Send` and `Sync` and may be polled by any runtime: the event loop only wakes them.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::internal::PlainTask;
use tidegate_core::internal::prim::{Mutex, lock};

use super::coarse_timer::CoarseTimer;
use super::scheduled_task;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Placement;
use crate::state::shared::Shared;
use crate::thread::local;

/// Waits for `after`, on the event loop that the calling thread drives, or else on the global one.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, sleep};
///
/// let home = EventLoop::builder("home").build()?;
/// let slept = home.spawn(async { sleep(Duration::from_millis(1)).await })?;
/// slept.wait()??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sleep(after: Duration) -> Sleep {
    match local::current() {
        Some(shared) => Sleep::on(&shared, after),
        None => EventLoop::global().sleep(after),
    }
}

/// Waits for `future`, for at most `after`, on the event loop that the calling thread drives, or
/// else on the global one. The future is dropped with the returned [`Timeout`], not when the
/// time is up.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, TimeoutError, timeout};
///
/// let home = EventLoop::builder("home").build()?;
/// let late = home.spawn(async {
///     timeout(Duration::from_millis(1), std::future::pending::<()>()).await
/// })?;
/// assert_eq!(late.wait()?, Err(TimeoutError::Elapsed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn timeout<F: Future>(after: Duration, future: F) -> Timeout<F> {
    Timeout {
        sleep: sleep(after),
        future: Box::pin(future),
    }
}

impl<P: Placement> EventLoop<P> {
    /// Returns a future that is ready `after` from now, on this event loop's clock and up to a tick
    /// late.
    ///
    /// The future may be awaited anywhere; the event loop only wakes it. Dropping it cancels the
    /// sleep.
    pub fn sleep(&self, after: Duration) -> Sleep {
        Sleep::on(&self.shared, after)
    }

    /// [`timeout`] on this event loop's clock.
    pub fn timeout<F: Future>(&self, after: Duration, future: F) -> Timeout<F> {
        Timeout {
            sleep: self.sleep(after),
            future: Box::pin(future),
        }
    }
}

/// A future that waits for some time to pass. See [`sleep`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    state: Arc<Mutex<State>>,
    timeout: Option<CoarseTimer>,
}

#[derive(Debug)]
enum State {
    Waits(Option<Waker>),
    Ended(Result<(), SleepError>),
}

/// Ends a sleep exactly once: when it fires, or when it is dropped with its timeout.
struct Alarm(Arc<Mutex<State>>);

impl Alarm {
    fn end(&self, how: Result<(), SleepError>) {
        let before = {
            let mut state = lock(&self.0);
            if matches!(*state, State::Ended(_)) {
                return;
            }
            std::mem::replace(&mut *state, State::Ended(how))
        };
        if let State::Waits(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.end(Err(SleepError));
    }
}

impl Sleep {
    fn on(shared: &Arc<Shared>, after: Duration) -> Self {
        // An event loop that ends, or that cannot get a thread, cannot wake the sleep. A loop that
        // is driven by hand may run code on its thread even after its end.
        if scheduled_task::check(shared, ()).is_err() {
            return Self {
                state: Arc::new(Mutex::new(State::Ended(Err(SleepError)))),
                timeout: None,
            };
        }
        let state = Arc::new(Mutex::new(State::Waits(None)));
        let alarm = Alarm(Arc::clone(&state));
        let task = PlainTask::non_blocking(move || alarm.end(Ok(())));
        Self {
            state,
            timeout: Some(super::coarse_timer::add(shared, after, task)),
        }
    }

    /// Makes the sleep end `after` from now instead. Returns `false` if it has ended.
    pub fn reset(&self, after: Duration) -> bool {
        self.timeout
            .as_ref()
            .is_some_and(|timeout| timeout.reset(after))
    }

    /// Returns `true` if the sleep has ended.
    pub fn is_elapsed(&self) -> bool {
        matches!(*lock(&self.state), State::Ended(_))
    }
}

impl Future for Sleep {
    type Output = Result<(), SleepError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.state);
        match &mut *state {
            State::Ended(how) => Poll::Ready(*how),
            State::Waits(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            State::Waits(waker) => {
                let before = waker.replace(cx.waker().clone());
                drop(state);
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timeout) = &self.timeout {
            timeout.cancel();
        }
    }
}

/// A future with a time limit. See [`timeout`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Timeout<F> {
    sleep: Sleep,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, TimeoutError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Polls the future first: if it is ready when the time is up, it was in time.
        if let Poll::Ready(output) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(cx).map(|slept| {
            Err(match slept {
                Ok(()) => TimeoutError::Elapsed,
                Err(ended) => TimeoutError::LoopEnded(ended),
            })
        })
    }
}

/// The event loop of the sleep has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SleepError;

impl fmt::Display for SleepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the loop that counts the time has ended; sleep on a loop that lives on")
    }
}

impl Error for SleepError {}

tidegate_core::debug_as_display!(SleepError);

/// Why a future with a time limit was not waited for any longer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TimeoutError {
    /// The time is up.
    Elapsed,
    /// The event loop has ended, so the time is not measured any more.
    LoopEnded(SleepError),
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elapsed => {
                f.write_str("the operation did not complete in time; retry it or allow more time")
            }
            Self::LoopEnded(why) => why.fmt(f),
        }
    }
}

impl Error for TimeoutError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::LoopEnded(why) => why.source(),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(TimeoutError);
