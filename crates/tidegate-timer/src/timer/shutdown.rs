//! The shutdown of a timer, as a future: waits for the worker, collects the unfired timeouts.
//!
//! User code (wakers, hooks, drops) runs without the lock. If nothing waits for the worker, the
//! unfired timeouts are dropped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::internal::prim::lock;
use tidegate_core::internal::{WaitGuard, contain};
use tidegate_core::{Parker, Task};

use super::errors::TimerError;
use super::shared::{Outcome, Shared};
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
    /// `None` once the report was returned, or if the timer was stopped before.
    pending: Option<Arc<Shared>>,
    /// The time at which the shutdown started.
    now: u64,
}

impl Shutdown {
    /// Starts the shutdown.
    pub(super) fn begin(shared: &Arc<Shared>) -> Self {
        let now = shared.clock.nanos();
        let pending = shared.begin_shutdown().then(|| Arc::clone(shared));
        Self { pending, now }
    }

    /// Waits until the timer's thread has ended.
    ///
    /// # Errors
    ///
    /// * [`TimerError::OwnThread`] in a task on the timer's own thread.
    /// * [`TimerError::Refused`] where a blocking wait is not allowed: on an event loop, or where
    ///   the timer's thread waits for the caller's executor.
    ///
    /// After an error, the shutdown goes on, and this value still returns the report: await it, or
    /// wait for it on another thread.
    pub fn wait(&mut self) -> Result<ShutdownReport, TimerError> {
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        let mut recorded = None;
        loop {
            if let Some(report) = self.poll_end(&waker) {
                return Ok(report);
            }
            if let Some(shared) = &self.pending {
                if recorded.is_none() {
                    recorded = Some(shared.check_wait_for_end()?);
                } else {
                    shared.clock.park_until(&parker, None);
                }
            }
        }
    }

    /// Returns the report if the worker has ended. Otherwise `waker` is woken when it ends.
    fn poll_end(&mut self, waker: &Waker) -> Option<ShutdownReport> {
        let Some(shared) = &self.pending else {
            return Some(ShutdownReport::default());
        };
        if !shared.poll_end(waker) {
            return None;
        }
        let unfired = shared.collect();
        let unfired = unfired.into_iter().map(|(deadline, task)| UnfiredTimeout {
            remaining: Duration::from_nanos(deadline.saturating_sub(self.now)),
            task: shared.strip_extras(task),
        });
        let unfired = unfired.collect();
        self.pending = None;
        Some(ShutdownReport { unfired })
    }
}

impl Future for Shutdown {
    type Output = Result<ShutdownReport, TimerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.poll_end(cx.waker()) {
            Some(report) => Poll::Ready(Ok(report)),
            None => Poll::Pending,
        }
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        if let Some(shared) = &self.pending {
            shared.give_up();
        }
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown")
            .field("pending", &self.pending.is_some())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Stops the timer, unless it was stopped before, without waiting for its worker, and drops the
    /// unfired timeouts.
    pub(super) fn abandon(&self) {
        if self.begin_shutdown() {
            self.give_up();
        }
    }

    /// Starts the shutdown. Returns `false` if the timer was stopped before.
    fn begin_shutdown(&self) -> bool {
        // A worker that is being started is known after this.
        let _threads = lock(&self.threads);
        let mut core = self.core();
        if std::mem::replace(&mut core.is_stopped, true) {
            return false;
        }
        core.waker = Some(Waker::noop().clone());
        drop(core);
        self.parker.unpark();
        true
    }

    /// Abandons a shutdown that has started: drops the unfired timeouts.
    fn give_up(&self) {
        let waker = self.core().waker.take();
        drop(waker);
        self.drop_unfired();
    }

    /// Returns `true` if the worker has ended. Otherwise `waker` is woken when it ends.
    fn poll_end(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut core = self.core();
        if core.has_ended || core.worker.is_none() {
            return true;
        }
        let before = core.waker.replace(waker);
        drop(core);
        drop(before);
        false
    }

    /// Checks that this thread may wait for the worker.
    fn check_wait_for_end(&self) -> Result<Option<WaitGuard>, TimerError> {
        let Some(worker) = self.core().worker.clone() else {
            return Ok(None);
        };
        if worker.is_current() {
            return Err(TimerError::OwnThread);
        }
        worker.check_wait().map(Some).map_err(TimerError::Refused)
    }

    /// Records that the worker is done with the wheel. The worker calls this last.
    pub(super) fn end(&self) {
        let mut core = self.core();
        core.has_ended = true;
        let waker = core.waker.take();
        drop(core);
        if let Some(waker) = waker {
            drop(contain(|| waker.wake()));
        }
    }

    /// Takes the pending timeouts out and returns them, by deadline, with their tasks.
    fn collect(&self) -> Vec<(u64, TimerTask)> {
        let mut core = self.core();
        let mut unfired = Vec::new();
        for entry in core.wheel.drain() {
            entry.value.outcome.set(Outcome::CANCELLED);
            unfired.push((entry.deadline, entry.value.task));
        }
        drop(core);
        for (_, task) in &mut unfired {
            self.run_hook(task);
        }
        unfired
    }

    fn drop_unfired(&self) {
        for (_, task) in self.collect() {
            self.discard(task);
        }
    }
}
