//! The user's handle of a timeout.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::raw::TimeoutOutcome;

use super::shared::{Cell, Shared};

/// The handle of one timeout of a [`WheelTimer`](crate::WheelTimer). Dropping the handle does not
/// cancel the timeout.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::WheelTimer;
///
/// let timer = WheelTimer::new();
/// let handle = timer.schedule(Duration::from_secs(30), || println!("idle"))?;
/// assert!(handle.reset(Duration::from_secs(60)));
/// assert!(handle.cancel());
/// assert!(!handle.cancel(), "it was cancelled before");
/// assert!(handle.is_cancelled() && !handle.is_expired());
/// assert!(!handle.reset(Duration::from_secs(60)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Threads
///
/// Every method can be called from any thread, and none waits for the timer's thread. Only a
/// `cancel` that finds a backlog of tens of thousands of cancellations locks the wheel, to process
/// them.
#[derive(Clone)]
pub struct TimerHandle {
    cell: Arc<Cell>,
    shared: Arc<Shared>,
}

impl TimerHandle {
    pub(super) fn new(cell: Arc<Cell>, shared: Arc<Shared>) -> Self {
        Self { cell, shared }
    }

    /// Cancels the timeout if it has not expired. Returns `true` if this call cancelled it.
    ///
    /// One compare-and-swap decides between cancellation and expiry. Before this returns, the task
    /// is dropped, the timeout no longer counts as pending, and its `on_cancel` hook has run on the
    /// calling thread.
    pub fn cancel(&self) -> bool {
        self.shared.cancel(&self.cell)
    }

    /// Sets a new deadline, `after` from now. Returns `true` if the timeout is still pending; it
    /// then does not expire before the new deadline. Allocates nothing.
    pub fn reset(&self, after: Duration) -> bool {
        self.shared.reset(&self.cell, after)
    }

    /// Returns `true` if the timeout expired: its task is running, has run, or was passed to its
    /// executor.
    pub fn is_expired(&self) -> bool {
        self.cell.outcome() == Some(TimeoutOutcome::Expired)
    }

    /// Returns `true` if the timeout will never expire: it was cancelled, or its timer stopped
    /// first.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self.cell.outcome(),
            Some(TimeoutOutcome::Cancelled | TimeoutOutcome::Stopped)
        )
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle")
            .field("timer", &self.shared.name)
            .field("fate", &self.cell.outcome())
            .finish_non_exhaustive()
    }
}
