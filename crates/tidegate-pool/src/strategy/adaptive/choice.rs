//! The data by which an adaptive strategy decides: its pool, its monitor, the reserved stand-in and
//! the learned cost of tasks.
//!
//! This file has only the data; `rule` decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use crate::pool::{Lease, TryExecutor};
use crate::strategy::monitor::{Monitor, StandIn, Watch};
use crate::strategy::producer::InterruptFn;
use crate::strategy::raw::{StandInSlot, StarvationDetector};

use super::learned::Learned;

/// The data for the decision of an adaptive strategy.
pub(super) struct Choice {
    /// The lease for the thread that the producer occupies.
    pub(super) lease: Option<Arc<Lease>>,
    pub(super) pool: Arc<dyn TryExecutor>,
    watch: Option<Arc<Watch>>,
    /// Keeps the monitor running.
    _monitor: Option<Monitor>,
    /// The reserved stand-in. It takes the producer over if the task of a loan blocks and no thread
    /// of the pool takes it.
    pub(super) stand_in_slot: StandInSlot<StandIn>,
    /// Set by the monitor to make the producing thread leave the producer to the stand-in.
    pub(super) relief: AtomicBool,
    /// The stand-in that is producing.
    pub(super) producing_stand_in: StandInSlot<StandIn>,
    /// `true` if the thread that produces, or produced last, belongs to the pool.
    pub(super) on_pool: AtomicBool,
    /// Ends the wait of the producer. The monitor calls it after it has set `relief`.
    pub(super) interrupt: Option<InterruptFn>,
    /// The class of the task of the current or last loan; the key for `learned`.
    pub(super) class: AtomicUsize,
    /// The progress of the pool's threads in the monitor's last scans, and the loan for which a
    /// helper or a stand-in is on its way.
    pub(super) starvation_detector: StarvationDetector,
    /// The number of tasks that had been given to the executor at the monitor's last scan.
    pub(super) last_pec: AtomicU64,
    pub(super) learned: Learned,
}

impl Choice {
    pub(super) fn new(
        pool: Arc<dyn TryExecutor>,
        monitor: Option<Monitor>,
        lease: Option<Arc<Lease>>,
        interrupt: Option<InterruptFn>,
    ) -> Self {
        Self {
            lease,
            pool,
            watch: monitor.as_ref().map(|monitor| Arc::clone(monitor.watch())),
            _monitor: monitor,
            stand_in_slot: StandInSlot::new(),
            relief: AtomicBool::new(false),
            producing_stand_in: StandInSlot::new(),
            on_pool: AtomicBool::new(false),
            interrupt,
            class: AtomicUsize::new(0),
            starvation_detector: StarvationDetector::new(),
            last_pec: AtomicU64::new(0),
            learned: Learned::default(),
        }
    }

    /// Returns the monitor if it runs: then late hand-over is in use.
    #[inline]
    pub(super) fn watch(&self) -> Option<&Watch> {
        let watch = self.watch.as_deref()?;
        watch.is_running().then_some(watch)
    }

    /// Returns the monitor that the strategy was built with, whether it runs or not.
    #[inline]
    pub(super) fn any_watch(&self) -> Option<&Arc<Watch>> {
        self.watch.as_ref()
    }

    /// Like [`Choice::any_watch`], for code that runs only if there is a monitor. Panics if there
    /// is none.
    pub(super) fn own_watch(&self) -> &Arc<Watch> {
        let watch = self.watch.as_ref();
        watch.expect("stand-ins come from a monitor")
    }
}

impl Drop for Choice {
    fn drop(&mut self) {
        if let (Some(watch), Some(one)) = (&self.watch, self.stand_in_slot.take()) {
            watch.on_call.release(one);
        }
    }
}
