//! The state that an event loop owns.
//!
//! [`Core`] is one value; a thread only drives it. Its operations are in the files above this one:
//! a turn in `turn.rs`, sleeping in `sleep.rs`, what follows a turn in `after_turn.rs`.

use tidegate_core::internal::prim::spin_loop;
use tidegate_core::internal::{TaskLaneReceiver, ThreadWatch, contain};

use super::budget::BudgetTimer;
use super::driver::Driver;
use super::idle_spin::IdleSpin;
use super::run_task::report_panic;
use crate::shutdown::progress::Progress;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;
use crate::thread::local::LoopState;

/// The state that an event loop owns.
pub(crate) struct Core<D: Driver> {
    pub(super) driver: D,
    pub(crate) task_receiver: TaskLaneReceiver,
    /// The state that moves between threads. While a thread drives the event loop, it is in a
    /// thread-local.
    pub(super) loop_state: Option<Box<LoopState>>,
    pub(crate) progress: Progress,
    /// The state that the last turn saw. The event loop does not fall asleep if the state has
    /// changed.
    pub(super) seen_state: Lifecycle,
    pub(super) thread: Option<ThreadWatch>,
    /// `true` if the event loop is driven by hand: it never sleeps.
    pub(super) manual: bool,
    /// `true` if a caller of `block_on` drives the event loop: it keeps its thread until it ends.
    pub(super) has_root: bool,
    pub(super) idle_spin: IdleSpin,
    /// For how many more tasks the event loop publishes its progress every `STEP` tasks, because a
    /// producer was refused.
    pub(super) publish_often_for: u32,
    /// `true` if the event loop spun without finding work after the last busy turn: it need not
    /// spin again before it sleeps.
    pub(super) already_spun: bool,
    /// Turns with other work since the driver was last polled.
    pub(super) turns_since_poll: u32,
    /// `true` if the next turn measures how many tasks wait: after a sleep, and if a turn could not
    /// run all of them. Not in every turn, since the measurement takes the cache line away from the
    /// producers.
    pub(super) measure_queue: bool,
    /// The time at which this thread woke up or began to drive.
    pub(super) awake_since: u64,
    /// The same time, if no turn has begun since.
    pub(super) woke: Option<u64>,
    /// The last time at which something ran.
    pub(super) last_work: u64,
    /// `true` if something ran in the last turn.
    pub(super) ran: bool,
    /// The number of tasks that had started at the last clock read.
    pub(super) started_before: u64,
    /// The progress of a turn whose tasks are handed out.
    pub(super) batch: Batch,
    pub(super) pace: BudgetTimer,
}

/// The progress of a turn whose tasks are handed out.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) open: bool,
    pub(super) now: u64,
    /// `true` if anything but work of the driver ran.
    pub(super) ran: bool,
    pub(super) own: usize,
    pub(super) lane: usize,
    pub(super) driver: usize,
    pub(super) looked_out: bool,
}

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something ran; there may be more work.
    Busy,
    /// Only work of the driver ran, such as I/O; there may be more work.
    Io,
    /// There was no work.
    Idle,
}

impl Turn {
    /// Returns the result of a turn in which `tasks` ran, or anything at all.
    #[inline]
    pub(super) fn of(tasks: bool, any: bool) -> Self {
        match (tasks, any) {
            (true, _) => Self::Busy,
            (false, true) => Self::Io,
            (false, false) => Self::Idle,
        }
    }
}

impl<D: Driver> Core<D> {
    pub(crate) fn new(driver: D, task_receiver: TaskLaneReceiver) -> Self {
        Self {
            driver,
            task_receiver,
            loop_state: Some(Box::default()),
            progress: Progress::default(),
            seen_state: Lifecycle::Started,
            thread: None,
            manual: false,
            has_root: false,
            idle_spin: IdleSpin::new(),
            publish_often_for: 0,
            already_spun: false,
            turns_since_poll: 0,
            measure_queue: true,
            awake_since: 0,
            woke: None,
            last_work: 0,
            ran: false,
            started_before: 0,
            batch: Batch::default(),
            pace: BudgetTimer::new(),
        }
    }

    /// Records that the event loop is driven from now on.
    pub(super) fn begin_driving(&mut self, shared: &Shared) {
        shared.mailbox.bell.disarm();
        self.thread = shared.thread.watch();
        self.awake_since = shared.clock.nanos();
        self.woke = None;
        self.last_work = self.awake_since;
        if shared.meter.counters.started_at.get() == 0 {
            shared
                .meter
                .counters
                .started_at
                .set(self.awake_since.max(1));
        }
        shared
            .meter
            .counters
            .awake_since
            .set(self.awake_since.max(1));
    }

    /// Returns `true` if a producer has claimed a slot whose task was not taken. Spins once, since
    /// the producer may still be writing the task.
    pub(crate) fn has_claims(&self) -> bool {
        spin_loop();
        !self.task_receiver.is_empty()
    }

    /// Returns `true` if a task or a signal has arrived since the last turn.
    pub(super) fn has_work(&self, shared: &Shared) -> bool {
        !self.task_receiver.is_empty() || !shared.mailbox.signals.is_empty()
    }

    /// Returns `true` if other threads still have work of this event loop. In that case the end of
    /// the last piece of work wakes the event loop.
    pub(crate) fn is_out(&mut self, shared: &Shared) -> bool {
        let settled = self.driver.begin_shutdown();
        shared.handed_out.await_last() || !settled
    }

    /// Returns the names of the driver's work that other threads still have.
    pub(crate) fn outstanding(&self) -> Vec<String> {
        self.driver.outstanding()
    }

    /// Closes the driver; a panic in it is reported and contained.
    pub(crate) fn close_driver(&mut self, shared: &Shared) {
        let closed = contain(|| self.driver.close());
        if let Err(panic) = closed {
            report_panic(shared, "the driver's end", panic);
        }
    }

    /// Leaves the outcome of an event loop that has ended for [`Shared::announce_end`].
    pub(super) fn finish(&mut self, shared: &Shared) {
        shared.termination.set_outcome(self.progress.finish());
    }
}
