//! Coarse timers on an event loop, for large numbers of timers that rarely fire.
//!
//! A coarse timer is one block: a cell with the task and its deadline, and its key in the event
//! loop's wheel. On the event loop's thread it is added and cancelled without a lock. From another
//! thread the block itself is sent as a signal. A cancellation takes effect on the caller's thread
//! and drops the closure there; only the entry in the wheel is removed in the event loop's next
//! turn. A reset to a later time does not touch the wheel at all.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Task;
use tidegate_core::executor::is_current;
use tidegate_core::internal::prim::{Ordering, fence};
use tidegate_core::internal::{Deliver, Delivery, SignalBlock};
use tidegate_timer::internal::{KeySlot, Reset, StillPending, TimeoutCell, TimeoutOutcome};

use super::coarse_timers::CoarseEntry;
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local;

/// A handle to a pending coarse timer, which cancels or resets it.
///
/// Dropping the handle detaches: the timer stays. The handle may be used from any thread; on the
/// event loop's own thread its operations take effect at once and without a lock.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::EventLoop;
/// use tidegate_core::ManualClock;
///
/// let clock = ManualClock::new();
/// let home = EventLoop::builder("home").clock(&clock).build()?;
/// let idle = home.schedule_coarse(Duration::from_secs(30), || println!("still there?"))?;
/// clock.advance(Duration::from_secs(29));
/// assert!(idle.reset(Duration::from_secs(30)), "something came: thirty more seconds");
/// clock.advance(Duration::from_secs(29));
/// assert!(idle.cancel() && !idle.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoarseTimer {
    block: Arc<SignalBlock<CoarseEntry>>,
}

/// Adds a timeout that runs `task` on the event loop, `after` from now.
pub(crate) fn add(shared: &Arc<Shared>, after: Duration, task: Task) -> CoarseTimer {
    let deadline = shared.clock.deadline(after);
    let block = SignalBlock::new(CoarseEntry {
        home: Arc::downgrade(shared),
        cell: TimeoutCell::new(deadline, task),
        key: KeySlot::new(),
    });
    if is_current(shared.id) {
        place(shared, &block);
    } else {
        send_to_loop(shared, &block);
    }
    CoarseTimer { block }
}

/// Inserts the timeout into the wheel of the event loop that this thread drives, which must be
/// `shared`.
#[inline]
fn place(shared: &Shared, timeout: &Arc<SignalBlock<CoarseEntry>>) {
    let tick = shared.settings.coarse_tick;
    local::with(|local| local.loop_state.coarse.place(tick, timeout));
}

/// Sends the block to its event loop, and wakes the event loop if it would sleep past the deadline.
///
/// If the block is on its way already, the event loop may sleep without having taken it, since it
/// was not woken for an earlier, later deadline. So this thread rings too. The thread that raised
/// the signal may not have pushed it yet; it then rings for the deadline that it reads afterwards.
fn send_to_loop(shared: &Shared, block: &Arc<SignalBlock<CoarseEntry>>) {
    // A refusal means that the event loop has terminated: dropping the signal cancels the timeout.
    let push = |signal| shared.mailbox.signals.push(signal).is_ok();
    if !block.raise().is_none_or(push) {
        return;
    }
    // ORDERING: SeqCst fence between the push and the load of the deadline; pairs with the fence in
    // `TimeoutCell::reset`: this thread sees the deadline of a concurrent reset, or the event loop
    // that the resetting thread wakes sees the push.
    fence(Ordering::SeqCst);
    if let Some(deadline) = block.cell.deadline() {
        shared.ring_before(deadline);
    }
}

impl CoarseTimer {
    /// Cancels the timeout. Returns `true` if this call cancelled it: the task will not run, and
    /// its captures are dropped before this method returns. Returns `false` if the task has run, is
    /// running, or was cancelled before.
    pub fn cancel(&self) -> bool {
        let Some(task) = self.block.cell.decide(TimeoutOutcome::Cancelled) else {
            return false;
        };
        let Some(shared) = self.block.home.upgrade() else {
            return true;
        };
        if is_current(shared.id) {
            local::with(|local| local.loop_state.coarse.remove(&self.block));
        } else if let Some(signal) = self.block.raise()
            && shared.mailbox.signals.push(signal).is_ok()
        {
            // Does not wake the event loop: the entry is small and is removed in the next turn.
            shared.note_silent();
        }
        drop_contained(&shared, task);
        true
    }

    /// Makes the timeout fire `after` from now instead. Returns `false` if the task has run, is
    /// running, or was cancelled.
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
            Reset::Sooner => send_to_loop(&shared, &self.block),
        }
        true
    }

    /// Returns `true` if the timeout has fired: its task runs or has run.
    pub fn is_expired(&self) -> bool {
        self.block.cell.outcome() == Some(TimeoutOutcome::Expired)
    }

    /// Returns `true` if the timeout was cancelled, by a handle or by the end of its event loop.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self.block.cell.outcome(),
            Some(TimeoutOutcome::Cancelled | TimeoutOutcome::Stopped)
        )
    }
}

impl Deliver for CoarseEntry {
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
pub(crate) fn end(shared: &Shared, timeout: &CoarseEntry) {
    timeout.key.clear();
    drop_contained(shared, timeout.cell.decide(TimeoutOutcome::Stopped));
}

/// Handles a timeout that the wheel returned at `now`. Returns its task and its lateness if it is
/// due. Re-inserts it if it was reset to a later time; ignores it if it was cancelled.
pub(crate) fn expire(
    shared: &Shared,
    timeout: &Arc<SignalBlock<CoarseEntry>>,
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
