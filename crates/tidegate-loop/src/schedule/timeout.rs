//! Coarse timeouts on a loop: for the many that almost never fire.
//!
//! A timeout is one block: a cell with the task and its deadline, and its place in the loop's
//! wheel. On the loop it is added and cancelled without a lock. From elsewhere the block
//! travels in the signal lane as itself; a cancellation is decided on the spot, drops the
//! closure there, and only the place in the wheel is given back at the loop's next turn. A
//! reset to a later time does not touch the wheel at all.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Deliver, Delivery, SignalBlock, Task, is_current};
use tidegate_timer::internal::KeySlot;
use tidegate_timer::raw::{Fate, Reset, StillPending, TimeoutCell};

use super::timeouts::Timeout;
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local;

/// A timeout that waits on a loop, by which it is cancelled or given more time.
///
/// Dropping the handle detaches: the timeout stays. From any thread; on the loop's own thread
/// everything happens at once and without a lock.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::EventLoop;
/// use tidegate_core::ManualClock;
///
/// let clock = ManualClock::new();
/// let home = EventLoop::builder("home").clock(&clock).build()?;
/// let idle = home.timeout(Duration::from_secs(30), || println!("still there?"))?;
/// clock.advance(Duration::from_secs(29));
/// assert!(idle.reset(Duration::from_secs(30)), "something came: thirty more seconds");
/// clock.advance(Duration::from_secs(29));
/// assert!(idle.cancel() && !idle.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutHandle {
    block: Arc<SignalBlock<Timeout>>,
}

/// Adds a timeout that runs `task` on the loop, `after` from now.
pub(crate) fn add(shared: &Arc<Shared>, after: Duration, task: Task) -> TimeoutHandle {
    let deadline = shared.clock.deadline(after);
    let block = SignalBlock::new(Timeout {
        home: Arc::downgrade(shared),
        cell: TimeoutCell::new(deadline, task),
        key: KeySlot::new(),
    });
    if is_current(shared.id) {
        place(shared, &block);
    } else {
        tell(shared, &block, deadline);
    }
    TimeoutHandle { block }
}

/// Puts the timeout into the wheel of the loop that this thread drives, which must be `shared`.
#[inline]
fn place(shared: &Shared, timeout: &Arc<SignalBlock<Timeout>>) {
    let tick = shared.settings.timeout_tick;
    local::with(|local| local.kept.timeouts.place(tick, timeout));
}

/// Sends the block to its loop, and wakes the loop if it would sleep past `deadline`.
fn tell(shared: &Shared, block: &Arc<SignalBlock<Timeout>>, deadline: u64) {
    let Some(signal) = block.raise() else { return };
    // Refused means that the loop has terminated: dropping the signal cancels the timeout.
    if shared.mailbox.signals.push(signal).is_ok() {
        shared.ring_before(deadline);
    }
}

impl TimeoutHandle {
    /// Cancels. True if this call did it: the task will not run, and what it captured is
    /// dropped before this returns. False if it ran, runs, or was cancelled before.
    pub fn cancel(&self) -> bool {
        let Some(task) = self.block.cell.decide(Fate::Cancelled) else {
            return false;
        };
        let Some(shared) = self.block.home.upgrade() else {
            return true;
        };
        if is_current(shared.id) {
            local::with(|local| local.kept.timeouts.remove(&self.block));
        } else if let Some(signal) = self.block.raise()
            && shared.mailbox.signals.push(signal).is_ok()
        {
            // Without waking the loop: the entry is small and goes at its next turn.
            shared.note_silent();
        }
        drop_contained(&shared, task);
        true
    }

    /// Lets the timeout run `after` from now instead. False if it ran, runs, or was cancelled.
    pub fn reset(&self, after: Duration) -> bool {
        let Some(shared) = self.block.home.upgrade() else {
            return false;
        };
        let deadline = shared.clock.deadline(after);
        match self.block.cell.reset(deadline) {
            Reset::No(_) => return false,
            Reset::Later => {}
            Reset::Sooner if is_current(shared.id) => {
                place(&shared, &self.block);
            }
            Reset::Sooner => tell(&shared, &self.block, deadline),
        }
        true
    }

    /// Whether its time has come: its task runs or has run.
    pub fn is_expired(&self) -> bool {
        self.block.cell.fate() == Some(Fate::Expired)
    }

    /// Whether it was cancelled, by a handle or by the end of its loop.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self.block.cell.fate(),
            Some(Fate::Cancelled | Fate::Stopped)
        )
    }
}

impl Deliver for Timeout {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        let Some(shared) = block.home.upgrade() else {
            return;
        };
        if how == Delivery::Orphaned {
            end(&shared, &block);
        } else {
            place(&shared, &block);
        }
    }
}

/// Ends a timeout that will never run.
pub(crate) fn end(shared: &Shared, timeout: &Timeout) {
    timeout.key.clear();
    drop_contained(shared, timeout.cell.decide(Fate::Stopped));
}

/// Deals with a timeout that the wheel gave out at `now`: its task, and how late it is, if it
/// is due; otherwise it was given more time and goes back, or was cancelled.
pub(crate) fn expire(
    shared: &Shared,
    timeout: &Arc<SignalBlock<Timeout>>,
    now: u64,
) -> Option<(Task, u64)> {
    timeout.key.clear();
    let deadline = timeout.cell.deadline()?;
    match timeout.cell.expire(now) {
        Ok(task) => Some((task, now.saturating_sub(deadline))),
        Err(StillPending::Until(_)) => {
            place(shared, timeout);
            None
        }
        Err(StillPending::No(_)) => None,
    }
}
