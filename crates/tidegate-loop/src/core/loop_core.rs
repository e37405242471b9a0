//! What a loop owns.
//!
//! [`Core`] is one value; a thread only drives it. Its operations stand in the files above this one:
//! a turn in `turn.rs`, sleeping in `sleep.rs`, what follows a turn in `after_turn.rs`.

use tidegate_core::prim::spin_loop;
use tidegate_core::{TaskLaneEnd, ThreadWatch, contain};

use super::budget::Pace;
use super::driver::Driver;
use super::patience::Patience;
use super::run_task::report_panic;
use crate::shutdown::progress::Progress;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;
use crate::thread::local::Kept;

/// What a loop owns.
pub(crate) struct Core<D: Driver> {
    pub(super) driver: D,
    pub(crate) end: TaskLaneEnd,
    /// On the loop's thread this lies in a thread-local; here between two threads.
    pub(super) kept: Option<Box<Kept>>,
    pub(crate) progress: Progress,
    /// The state that the last turn saw; a change of it keeps the loop from falling asleep.
    pub(super) seen: Lifecycle,
    pub(super) thread: Option<ThreadWatch>,
    /// The loop is driven by hand: it never sleeps.
    pub(super) by_hand: bool,
    pub(super) patience: Patience,
    /// Tasks for which the loop publishes every `STEP` tasks, because a producer was refused.
    pub(super) pressed: u32,
    /// The last busy turn was followed by a look in vain: no need for another before sleeping.
    pub(super) looked: bool,
    /// Turns with other work since the driver was last asked.
    pub(super) unlooked: u32,
    /// The next turn looks how much waits: after a sleep, and when there was more than a turn
    /// could take. Not each time, since that takes the producers' line away from them.
    pub(super) measure: bool,
    /// When this thread woke up or began.
    pub(super) awake_since: u64,
    /// The same, if no turn has begun since then.
    pub(super) woke: Option<u64>,
    /// The last moment at which something ran.
    pub(super) last_work: u64,
    /// Where a turn stands whose tasks a strategy has run.
    pub(super) batch: Batch,
    pub(super) pace: Pace,
}

/// How far a turn has come whose tasks a strategy has run.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) open: bool,
    pub(super) now: u64,
    pub(super) ran: bool,
    pub(super) own: usize,
    pub(super) lane: usize,
    pub(super) driver: usize,
    pub(super) looked_out: bool,
    /// The time for submitted tasks is over.
    pub(super) spent: bool,
}

/// What a turn came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something ran; look again.
    Busy,
    /// Nothing was there.
    Idle,
}

impl<D: Driver> Core<D> {
    pub(crate) fn new(driver: D, end: TaskLaneEnd) -> Self {
        Self {
            driver,
            end,
            kept: Some(Box::default()),
            progress: Progress::default(),
            seen: Lifecycle::Started,
            thread: None,
            by_hand: false,
            patience: Patience::new(),
            pressed: 0,
            looked: false,
            unlooked: 0,
            measure: true,
            awake_since: 0,
            woke: None,
            last_work: 0,
            batch: Batch::default(),
            pace: Pace::new(),
        }
    }

    /// Notes that the loop is driven from now on.
    pub(super) fn begin_driving(&mut self, shared: &Shared) {
        shared.mailbox.bell.disarm();
        self.thread = shared.thread.watch();
        self.awake_since = shared.clock.nanos();
        self.woke = None;
        self.last_work = self.awake_since;
        if shared.meter.counters.since.get() == 0 {
            shared.meter.counters.since.set(self.awake_since.max(1));
        }
        shared
            .meter
            .counters
            .awake_since
            .set(self.awake_since.max(1));
    }

    /// Returns `true` if tasks were claimed and not taken. Spins once, for a producer that may still
    /// be writing one.
    pub(crate) fn has_claims(&self) -> bool {
        spin_loop();
        !self.end.is_empty()
    }

    /// Returns `true` if a task or a signal has come since the last look.
    pub(super) fn has_work(&self, shared: &Shared) -> bool {
        !self.end.is_empty() || !shared.mailbox.signals.is_empty()
    }

    /// Whether work of this loop is still with other threads. If so, the last of it to end wakes
    /// the loop.
    pub(crate) fn is_out(&mut self, shared: &Shared) -> bool {
        let settled = self.driver.wind_up();
        shared.out.await_last() || !settled
    }

    /// What is still with other threads, as the driver calls it.
    pub(crate) fn absent(&self) -> Vec<String> {
        self.driver.absent()
    }

    /// Closes the driver; a panic in that is reported and goes no further.
    pub(crate) fn close_driver(&mut self, shared: &Shared) {
        let closed = contain(|| self.driver.close());
        if let Err(panic) = closed {
            report_panic(shared, "the driver's end", panic);
        }
    }

    /// Leaves the report of a loop that is over for [`Shared::announce_end`].
    pub(super) fn finish(&mut self, shared: &Shared) {
        shared.termination.set_outcome(self.progress.finish());
    }
}
