//! The shutdown of a timer as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::Task;

use super::shared::Shared;
use super::task::TimerTask;

/// A timeout that did not fire because its timer was stopped.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::WheelTimer;
///
/// let timer = WheelTimer::new();
/// timer.schedule(Duration::from_secs(60), || ())?;
/// let unfired = timer.stop()?;
/// assert!(unfired[0].left <= Duration::from_secs(60));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UnfiredTimeout {
    /// The time that was left until its deadline; zero if the deadline had passed.
    pub left: Duration,
    /// The task of the timeout.
    pub task: Task,
}

/// A future for the shutdown of a [`WheelTimer`](crate::WheelTimer). It is ready when the timer's
/// thread has ended, and returns every timeout that neither fired nor was cancelled, once, by
/// deadline.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::{TimerError, UnfiredTimeout, WheelTimer};
///
/// async fn stop(timer: WheelTimer) -> Result<Vec<UnfiredTimeout>, TimerError> {
///     Ok(timer.begin_stop()?.await)
/// }
/// # let _ = stop(WheelTimer::new());
/// ```
#[must_use = "what did not fire is dropped with it"]
pub struct Stopping {
    /// `None` once the future is ready; `None` from the start if the timer was stopped before.
    shared: Option<Arc<Shared>>,
    /// The time at which the shutdown started.
    now: u64,
}

impl Stopping {
    pub(super) fn new(shared: &Arc<Shared>, begun: bool) -> Self {
        Self {
            shared: begun.then(|| Arc::clone(shared)),
            now: shared.clock.nanos(),
        }
    }
}

impl Future for Stopping {
    type Output = Vec<UnfiredTimeout>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<UnfiredTimeout>> {
        let Some(shared) = &self.shared else {
            return Poll::Ready(Vec::new());
        };
        let Some(left) = shared.poll_end(cx.waker()) else {
            return Poll::Pending;
        };
        let unfired = unfired(shared, self.now, left);
        self.shared = None;
        Poll::Ready(unfired)
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.give_up();
        }
    }
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopping")
            .field("ready", &self.shared.is_none())
            .finish_non_exhaustive()
    }
}

/// Converts the unfired timeouts of a shutdown that started at `now`.
pub(super) fn unfired(
    shared: &Shared,
    now: u64,
    left: Vec<(u64, TimerTask)>,
) -> Vec<UnfiredTimeout> {
    let unfired = left.into_iter().map(|(deadline, task)| UnfiredTimeout {
        left: Duration::from_nanos(deadline.saturating_sub(now)),
        task: shared.strip(task),
    });
    unfired.collect()
}
