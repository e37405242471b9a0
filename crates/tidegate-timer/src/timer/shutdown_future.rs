//! The shutdown of a timer as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::Task;

use super::errors::TimerError;
use super::shared::Shared;
use super::task::TimerTask;

/// What a [`WheelTimer`](crate::WheelTimer) left when it was shut down.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::WheelTimer;
///
/// let timer = WheelTimer::new();
/// timer.schedule(Duration::from_secs(60), || ())?;
/// let report = timer.shutdown().wait()?;
/// assert!(report.unfired[0].remaining <= Duration::from_secs(60));
/// assert_eq!(report.to_string(), "1 timeouts not fired");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "what did not fire is dropped with it"]
pub struct ShutdownReport {
    /// Every timeout that neither fired nor was cancelled, once, by deadline.
    pub unfired: Vec<UnfiredTimeout>,
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} timeouts not fired", self.unfired.len())
    }
}

/// A timeout that did not fire because its timer was shut down.
#[derive(Debug)]
pub struct UnfiredTimeout {
    /// The time that was left until its deadline; zero if the deadline had passed.
    pub remaining: Duration,
    /// The task of the timeout.
    pub task: Task,
}

/// The shutdown of a [`WheelTimer`](crate::WheelTimer): a future that is ready when the timer's
/// thread has ended. [`Shutdown::wait`] blocks until then.
///
/// The timeouts in the report are cancelled; their `on_cancel` hooks have run where this was polled
/// or waited for. The report of a second shutdown is empty, and so is the report of a timer that
/// never started.
///
/// # Examples
///
/// ```
/// use tidegate_timer::{ShutdownReport, TimerError, WheelTimer};
///
/// async fn stop(timer: WheelTimer) -> Result<ShutdownReport, TimerError> {
///     timer.shutdown().await
/// }
/// # let _ = stop(WheelTimer::new());
/// ```
///
/// # Cancellation
///
/// If this is dropped before it is ready, the timer still ends. Its unfired timeouts are cancelled
/// and dropped.
#[must_use = "what did not fire is dropped with it"]
pub struct Shutdown {
    state: State,
    /// The time at which the shutdown started.
    now: u64,
}

enum State {
    /// The timer's thread may still run.
    Pending(Arc<Shared>),
    /// The shutdown could not start.
    Failed(TimerError),
    /// The report was returned, or the timer was stopped before.
    Ready,
}

impl Shutdown {
    /// Starts the shutdown.
    pub(super) fn begin(shared: &Arc<Shared>) -> Self {
        let now = shared.clock.nanos();
        let state = match shared.begin_shutdown() {
            Ok(true) => State::Pending(Arc::clone(shared)),
            Ok(false) => State::Ready,
            Err(cause) => State::Failed(cause),
        };
        Self { state, now }
    }

    /// Waits until the timer's thread has ended.
    ///
    /// # Errors
    ///
    /// * [`TimerError::OwnThread`] in a task on the timer's own thread.
    /// * [`TimerError::Refused`] where a blocking wait is not allowed: on an event loop, or where
    ///   the timer's thread waits for the caller's executor.
    /// * [`TimerError::Starting`] in the spawner that starts the timer's thread. If the shutdown
    ///   was requested there, it has not started.
    ///
    /// After the first two, the shutdown goes on, and this value still returns the report: await
    /// it, or wait for it on another thread.
    pub fn wait(&mut self) -> Result<ShutdownReport, TimerError> {
        match &self.state {
            State::Pending(shared) => {
                let unfired = shared.wait_for_end()?;
                Ok(self.finish(unfired))
            }
            State::Failed(cause) => Err(cause.clone()),
            State::Ready => Ok(ShutdownReport::default()),
        }
    }

    /// Converts the timeouts that did not fire.
    fn finish(&mut self, unfired: Vec<(u64, TimerTask)>) -> ShutdownReport {
        let State::Pending(shared) = std::mem::replace(&mut self.state, State::Ready) else {
            return ShutdownReport::default();
        };
        let unfired = unfired.into_iter().map(|(deadline, task)| UnfiredTimeout {
            remaining: Duration::from_nanos(deadline.saturating_sub(self.now)),
            task: shared.strip_extras(task),
        });
        ShutdownReport {
            unfired: unfired.collect(),
        }
    }
}

impl Future for Shutdown {
    type Output = Result<ShutdownReport, TimerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = match &self.state {
            State::Pending(shared) => shared.poll_end(cx.waker()),
            State::Failed(cause) => return Poll::Ready(Err(cause.clone())),
            State::Ready => return Poll::Ready(Ok(ShutdownReport::default())),
        };
        match ended {
            Some(unfired) => Poll::Ready(Ok(self.finish(unfired))),
            None => Poll::Pending,
        }
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        if let State::Pending(shared) = &self.state {
            shared.give_up();
        }
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown")
            .field("pending", &matches!(self.state, State::Pending(_)))
            .finish_non_exhaustive()
    }
}
