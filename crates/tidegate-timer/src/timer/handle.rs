//! A timeout as its owner sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::raw::Fate;

use super::shared::{Cell, Shared};

/// One timeout of a [`WheelTimer`](crate::WheelTimer). Dropping it changes nothing: the timeout
/// stays.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::WheelTimer;
///
/// let timer = WheelTimer::new();
/// let handle = timer.new_timeout(Duration::from_secs(30), || println!("idle"))?;
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
/// Every method can be called from any thread, and none waits for the timer.
#[derive(Clone)]
pub struct TimerHandle {
    cell: Arc<Cell>,
    shared: Arc<Shared>,
}

impl TimerHandle {
    pub(super) fn new(cell: Arc<Cell>, shared: Arc<Shared>) -> Self {
        Self { cell, shared }
    }

    /// Cancels the timeout if it has not expired; answers whether this call did.
    ///
    /// One compare-and-swap decides. Before this returns, the task was dropped, its place in the
    /// timer's bound is free, and its `on_cancel` has run, here.
    pub fn cancel(&self) -> bool {
        self.shared.cancel(&self.cell)
    }

    /// Gives the timeout another deadline, `after` from now; answers whether it still will
    /// expire. After true it does not before that. Allocates nothing.
    pub fn reset(&self, after: Duration) -> bool {
        self.shared.reset(&self.cell, after)
    }

    /// Whether it expired: its task runs, has run, or was handed to its executor.
    pub fn is_expired(&self) -> bool {
        self.cell.fate() == Some(Fate::Expired)
    }

    /// Whether it will never expire: it was cancelled, or its timer stopped before.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cell.fate(), Some(Fate::Cancelled | Fate::Stopped))
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle")
            .field("timer", &self.shared.name)
            .field("fate", &self.cell.fate())
            .finish_non_exhaustive()
    }
}
