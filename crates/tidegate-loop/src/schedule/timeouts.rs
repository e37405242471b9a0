//! The coarse timeouts that wait on one loop, in a wheel.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{SignalBlock, Task, prefetch_block};
use tidegate_timer::Wheel;
use tidegate_timer::internal::{KeySlot, place};
use tidegate_timer::raw::TimeoutCell;

use crate::errors::BuildError;
use crate::state::shared::Shared;

/// How fine the wheel of a loop is unless its builder says otherwise.
pub const DEFAULT_TIMEOUT_TICK: Duration = Duration::from_millis(1);

/// Slots of a loop's wheel on its finest level.
const SLOTS: usize = 1_024;

/// What travels and waits.
#[derive(Debug)]
pub(crate) struct Timeout {
    pub(super) home: Weak<Shared>,
    pub(super) cell: TimeoutCell<Task>,
    /// Its key in the wheel. Written and read on the loop only.
    pub(super) key: KeySlot,
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

    /// Puts the timeout where its deadline says, wherever it was; out if it has ended. `tick` is how
    /// fine the wheel is.
    pub(super) fn place(&mut self, tick: Duration, timeout: &Arc<SignalBlock<Timeout>>) {
        let Some(deadline) = timeout.cell.deadline() else {
            return self.remove(timeout);
        };
        let wheel = self.wheel.get_or_insert_with(|| {
            let wheel = Wheel::new(tick, SLOTS);
            let wheel = wheel.expect("the builder has checked the tick");
            Box::new(wheel.warmed_by(|timeout| prefetch_block(&**timeout)))
        });
        let entry = || Arc::clone(timeout);
        place(wheel, &timeout.cell, &timeout.key, deadline, entry);
    }

    pub(super) fn remove(&mut self, timeout: &Timeout) {
        if let (Some(key), Some(wheel)) = (timeout.key.take(), &mut self.wheel) {
            wheel.remove(key);
        }
    }
}

/// Whether a wheel can be made with this tick.
pub(crate) fn check_tick(tick: Duration) -> Result<(), BuildError> {
    let wheel = Wheel::<()>::new(tick, SLOTS);
    wheel.map(drop).map_err(BuildError::BadTick)
}
