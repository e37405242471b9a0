//! What an adaptive strategy knows when it chooses: its pool, its monitor, the stand-in in reserve and
//! what was learned of the tasks.
//!
//! Data only; `rule` chooses by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::pool::{Lease, TryExecutor};
use crate::strategy::monitor::{Monitor, StandIn, Watch};
use crate::strategy::raw::{Lookout, Standby};

use super::learned::Learned;

/// Makes a producer that waits inside `produce` return with a task soon.
pub type Interrupt = Box<dyn Fn() + Send + Sync>;

/// What the choice goes by.
pub(super) struct Choice {
    /// For the thread that the producer keeps.
    pub(super) lease: Option<Lease>,
    pub(super) pool: Arc<dyn TryExecutor>,
    watch: Option<Arc<Watch>>,
    /// Keeps it running.
    _monitor: Option<Monitor>,
    pub(super) late_on: AtomicBool,
    /// The thread that takes the producer over if a lent task blocks and nobody else comes.
    pub(super) standby: Standby<StandIn>,
    /// The monitor asks the thread that produces to leave that to the stand-in.
    pub(super) relief: AtomicBool,
    /// The stand-in that produces now.
    pub(super) duty: Standby<StandIn>,
    /// Whether the thread that produces, or did last, is one of the pool's.
    pub(super) on_pool: AtomicBool,
    pub(super) interrupt: Option<Interrupt>,
    /// The class of the task that runs with the producer lent.
    pub(super) class: AtomicUsize,
    /// What the monitor saw of the pool, and which loans it has promised a thread.
    pub(super) lookout: Lookout,
    /// Tasks that had been given away at the monitor's last look.
    pub(super) given: AtomicU64,
    pub(super) learned: Learned,
}

impl Choice {
    pub(super) fn new(
        pool: Arc<dyn TryExecutor>,
        monitor: Option<Monitor>,
        lease: Option<Lease>,
        interrupt: Option<Interrupt>,
    ) -> Self {
        Self {
            lease,
            pool,
            watch: monitor.as_ref().map(|monitor| Arc::clone(monitor.watch())),
            _monitor: monitor,
            late_on: AtomicBool::new(true),
            standby: Standby::new(),
            relief: AtomicBool::new(false),
            duty: Standby::new(),
            on_pool: AtomicBool::new(false),
            interrupt,
            class: AtomicUsize::new(0),
            lookout: Lookout::new(),
            given: AtomicU64::new(0),
            learned: Learned::default(),
        }
    }

    /// The monitor, if this strategy hands over late now.
    #[inline]
    pub(super) fn watch(&self) -> Option<&Watch> {
        let watch = self.watch.as_deref()?;
        (self.late_on.load(Ordering::Relaxed) && watch.is_running()).then_some(watch)
    }

    /// The monitor that the strategy was built with, whether it runs or not.
    #[inline]
    pub(super) fn any_watch(&self) -> Option<&Arc<Watch>> {
        self.watch.as_ref()
    }

    /// The monitor, whether it runs or not, for what only exists with one.
    pub(super) fn own_watch(&self) -> &Arc<Watch> {
        let watch = self.watch.as_ref();
        watch.expect("stand-ins come from a monitor")
    }
}

impl Drop for Choice {
    fn drop(&mut self) {
        if let (Some(watch), Some(one)) = (&self.watch, self.standby.take()) {
            watch.on_call.release(one);
        }
    }
}
