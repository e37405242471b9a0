//! The coarse timers that wait on one event loop, in a timer wheel.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::Task;
use tidegate_core::internal::{SignalBlock, prefetch_block};
use tidegate_timer::internal::{KeySlot, TimeoutCell, insert_timeout};
use tidegate_timer::wheel::Wheel;

use crate::errors::BuildError;
use crate::state::shared::Shared;

/// The number of slots on the finest level of the wheel.
const SLOTS: usize = 1_024;

/// One coarse timer: sent to the event loop as a signal, then an entry of the wheel.
#[derive(Debug)]
pub(crate) struct CoarseEntry {
    pub(super) home: Weak<Shared>,
    pub(super) cell: TimeoutCell<Task>,
    /// The key in the wheel. Written and read only on the event loop.
    pub(super) key: KeySlot,
}

type CoarseWheel = Wheel<Arc<SignalBlock<CoarseEntry>>>;

/// The pending coarse timers of one event loop.
#[derive(Default)]
pub(crate) struct CoarseTimers {
    /// Created with the first timer: most event loops never have one.
    wheel: Option<Box<CoarseWheel>>,
}

impl CoarseTimers {
    pub(crate) fn len(&self) -> usize {
        self.wheel.as_ref().map_or(0, |wheel| wheel.len())
    }

    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        self.wheel.as_mut()?.next_deadline()
    }

    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Arc<SignalBlock<CoarseEntry>>> {
        self.wheel.as_mut()?.pop_due(now).map(|due| due.value)
    }

    /// Removes and returns all timers.
    pub(crate) fn drain(&mut self) -> Vec<Arc<SignalBlock<CoarseEntry>>> {
        let mut all = Vec::new();
        if let Some(wheel) = &mut self.wheel {
            for due in wheel.drain() {
                all.push(due.value);
            }
        }
        all
    }

    /// Inserts or moves the timer to its deadline; removes it if it has ended. `tick` is the tick
    /// of the wheel.
    pub(super) fn place(&mut self, tick: Duration, timeout: &Arc<SignalBlock<CoarseEntry>>) {
        let Some(deadline) = timeout.cell.deadline() else {
            return self.remove(timeout);
        };
        let wheel = self.wheel.get_or_insert_with(|| {
            let wheel = CoarseWheel::new(tick, SLOTS);
            let wheel = wheel.expect("the builder has checked the tick");
            Box::new(wheel.prefetch_with(|timeout| prefetch_block(&**timeout)))
        });
        let entry = || Arc::clone(timeout);
        insert_timeout(wheel, &timeout.cell, &timeout.key, deadline, entry);
    }

    pub(super) fn remove(&mut self, timeout: &CoarseEntry) {
        if let (Some(key), Some(wheel)) = (timeout.key.take(), &mut self.wheel) {
            wheel.remove(key);
        }
    }
}

/// Returns an error if a wheel cannot have this tick.
pub(crate) fn check_tick(tick: Duration) -> Result<(), BuildError> {
    let wheel = CoarseWheel::new(tick, SLOTS);
    wheel.map(drop).map_err(BuildError::BadTick)
}
