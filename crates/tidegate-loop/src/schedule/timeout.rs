//! Coarse timeouts on a loop: for the many that almost never fire.
//!
//! A timeout is one block: a cell with the task and its deadline, and its place in the loop's
//! wheel. On the loop it is added and cancelled without a lock. From elsewhere the block
//! travels in the signal lane as itself; a cancellation is decided on the spot, drops the
//! closure there, and only the place in the wheel is given back at the loop's next turn. A
//! reset to a later time does not touch the wheel at all.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::prim::{AtomicU64, Ordering};
use tidegate_core::{Deliver, Delivery, SignalBlock, Task, is_current, prefetch_block};
use tidegate_timer::raw::{Fate, Reset, StillPending, TimeoutCell};
use tidegate_timer::{Key, Wheel};

use crate::errors::BuildError;
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local;

/// How fine the wheel of a loop is unless its builder says otherwise.
pub const DEFAULT_TIMEOUT_TICK: Duration = Duration::from_millis(1);

/// Slots of a loop's wheel on its finest level.
const SLOTS: usize = 1_024;

/// No place in the wheel.
const NOWHERE: u64 = 0;

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

/// What travels and waits.
#[derive(Debug)]
pub(crate) struct Timeout {
    home: Weak<Shared>,
    cell: TimeoutCell<Task>,
    /// Its place in the wheel, or [`NOWHERE`]. Written and read on the loop only.
    place: AtomicU64,
}

/// Waiting timeouts of one loop.
#[derive(Default)]
pub(crate) struct Timeouts {
    /// Made when the first timeout comes: most loops never have one.
    wheel: Option<Box<Wheel<Arc<SignalBlock<Timeout>>>>>,
}

impl Timeouts {
    pub(crate) fn len(&self) -> usize {
        self.wheel.as_ref().map_or(0, |wheel| wheel.len())
    }

    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        self.wheel.as_mut()?.next_deadline()
    }

    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Arc<SignalBlock<Timeout>>> {
        self.wheel.as_mut()?.pop_due(now).map(|due| due.value)
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> Vec<Arc<SignalBlock<Timeout>>> {
        let wheel = self.wheel.as_mut();
        wheel.map_or_else(Vec::new, |wheel| {
            wheel.drain().map(|due| due.value).collect()
        })
    }

    /// Puts the timeout where its deadline says, wherever it was; out if it has ended.
    fn place(&mut self, shared: &Shared, timeout: &Arc<SignalBlock<Timeout>>) {
        let Some(mut deadline) = timeout.cell.deadline() else {
            return self.remove(timeout);
        };
        let wheel = self.wheel.get_or_insert_with(|| {
            let wheel = Wheel::new(shared.settings.timeout_tick, SLOTS);
            let wheel = wheel.expect("the builder has checked the tick");
            Box::new(wheel.warmed_by(|timeout| prefetch_block(&**timeout)))
        });
        loop {
            match timeout.place() {
                Some(key) => {
                    wheel.reset(key, deadline);
                }
                None => {
                    let key = wheel.insert(deadline, Arc::clone(timeout));
                    timeout.place.store(key.to_bits(), Ordering::Relaxed);
                }
            }
            match timeout.cell.arm(deadline) {
                Some(sooner) => deadline = sooner,
                None => return,
            }
        }
    }

    fn remove(&mut self, timeout: &Timeout) {
        if let (Some(key), Some(wheel)) = (timeout.leave(), &mut self.wheel) {
            wheel.remove(key);
        }
    }
}

impl Timeout {
    fn place(&self) -> Option<Key> {
        Key::from_bits(self.place.load(Ordering::Relaxed))
    }

    fn leave(&self) -> Option<Key> {
        let key = self.place();
        self.place.store(NOWHERE, Ordering::Relaxed);
        key
    }
}

/// Whether a wheel can be made with this tick.
pub(crate) fn check_tick(tick: Duration) -> Result<(), BuildError> {
    let wheel = Wheel::<()>::new(tick, SLOTS);
    wheel.map(drop).map_err(BuildError::BadTick)
}

/// Adds a timeout that runs `task` on the loop, `after` from now.
pub(crate) fn add(shared: &Arc<Shared>, after: Duration, task: Task) -> TimeoutHandle {
    let deadline = shared.clock.deadline(after);
    let block = SignalBlock::new(Timeout {
        home: Arc::downgrade(shared),
        cell: TimeoutCell::new(deadline, task),
        place: AtomicU64::new(NOWHERE),
    });
    if is_current(shared.id) {
        local::with(|local| local.kept.timeouts.place(shared, &block));
    } else {
        tell(shared, &block, deadline);
    }
    TimeoutHandle { block }
}

/// Sends the block to its loop, and wakes the loop if it would sleep past `deadline`.
fn tell(shared: &Shared, block: &Arc<SignalBlock<Timeout>>, deadline: u64) {
    let Some(signal) = block.raise() else { return };
    // Refused means that the loop has terminated: dropping the signal cancels the timeout.
    if shared.signals.push(signal).is_ok() {
        shared.ensure_thread();
        if shared.bell.ring_before(deadline) {
            shared.wake();
        } else {
            shared.note_silent();
        }
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
            && shared.signals.push(signal).is_ok()
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
                local::with(|local| local.kept.timeouts.place(&shared, &self.block));
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
            local::with(|local| local.kept.timeouts.place(&shared, &block));
        }
    }
}

/// Ends a timeout that will never run.
pub(crate) fn end(shared: &Shared, timeout: &Timeout) {
    timeout.place.store(NOWHERE, Ordering::Relaxed);
    drop_contained(shared, timeout.cell.decide(Fate::Stopped));
}

/// Deals with a timeout that the wheel gave out at `now`: its task, and how late it is, if it
/// is due; otherwise it was given more time and goes back, or was cancelled.
pub(crate) fn expire(
    shared: &Shared,
    timeout: &Arc<SignalBlock<Timeout>>,
    now: u64,
) -> Option<(Task, u64)> {
    timeout.place.store(NOWHERE, Ordering::Relaxed);
    let deadline = timeout.cell.deadline()?;
    match timeout.cell.expire(now) {
        Ok(task) => Some((task, now.saturating_sub(deadline))),
        Err(StillPending::Until(_)) => {
            local::with(|local| local.kept.timeouts.place(shared, timeout));
            None
        }
        Err(StillPending::No(_)) => None,
    }
}
