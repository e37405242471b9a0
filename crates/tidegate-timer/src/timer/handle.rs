//! The user's handle of a timeout.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::shared::{Outcome, Shared};
use crate::TimerKey;

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
/// Every method can be called from any thread, and none waits for a task of the timer.
#[derive(Clone)]
pub struct TimerHandle {
    pub(super) key: TimerKey,
    pub(super) outcome: Arc<Outcome>,
    pub(super) shared: Arc<Shared>,
}

impl TimerHandle {
    /// Cancels the timeout if it has not expired. Returns `true` if this call cancelled it.
    ///
    /// Before this returns, the task is dropped, the timeout no longer counts as pending, and its `on_cancel` hook has run on the
    /// calling thread.
    pub fn cancel(&self) -> bool {
        self.shared.cancel(self.key)
    }

    /// Sets a new deadline, `after` from now. Returns `true` if the timeout is still pending; it
    /// then does not expire before the new deadline. Allocates nothing.
    pub fn reset(&self, after: Duration) -> bool {
        self.shared.reset(self.key, after)
    }

    /// Returns `true` if the timeout expired: its task is running, has run, or was passed to its
    /// executor.
    pub fn is_expired(&self) -> bool {
        self.outcome.is(Outcome::EXPIRED)
    }

    /// Returns `true` if the timeout will never expire: it was cancelled, or its timer stopped
    /// first.
    pub fn is_cancelled(&self) -> bool {
        self.outcome.is(Outcome::CANCELLED)
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle")
            .field("timer", &self.shared.name)
            .field("expired", &self.is_expired())
            .finish_non_exhaustive()
    }
}
