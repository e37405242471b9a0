//! The state that callers and the worker thread share: lane, counters, and wheel.
//!
//! Callers change the state word of their timeout and push its cell into the lane; they do not wait
//! for the wheel. (One exception: from [`HELP_AFTER`] cancellations on, a cancelling thread locks
//! the wheel and drains the lane.) A reset to a later deadline changes only the word: the worker
//! finds the new deadline when the old one is due. A thread that turns the wheel, normally the
//! worker, drains the lane first.
//!
//! # Invariants
//!
//! * No user code runs while the wheel is locked.
//! * `pending` is the number of cells without an outcome. The thread that decides an outcome
//!   decrements it.
//! * The key of a cell in the wheel changes only under the lock.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::internal::{CachePadded, Doorbell, check_may_block, contain, unpoisoned};
use tidegate_core::{Clock, Executor, OnUnhandled, Parker, Task, ThreadBuilder, Unhandled};

use super::errors::TimerError;
use super::lifecycle::Lifecycle;
use super::task::TimerTask;
use crate::insert::insert_timeout;
use crate::raw::{Reset, TimeoutLane, TimeoutNode, TimeoutOutcome};
use crate::wheel::{Geometry, Wheel};

/// The worker is woken when this many cancelled entries wait to be unlinked, and each time the
/// number of pending timeouts reaches a multiple of this. So a burst of additions enters the wheel
/// as it arrives, not in the tick in which its first timeout is due.
pub(super) const WAKE_AFTER: usize = 1_024;

/// From this many cancelled entries on, the worker is not keeping up, and the cancelling thread
/// drains the lane itself.
const HELP_AFTER: usize = 64 * WAKE_AFTER;

pub(super) type Cell = TimeoutNode<TimerTask>;

pub(super) struct Shared {
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) lane: TimeoutLane<TimerTask>,
    pub(super) bell: Doorbell,
    pub(super) parker: Parker,
    pub(super) executor: Option<Arc<dyn Executor>>,
    on_unhandled: OnUnhandled,
    geometry: Geometry,
    pub(super) limit: usize,
    pub(super) pending: CachePadded<AtomicUsize>,
    /// The number of cancellations since the lane was last drained.
    cancels: CachePadded<AtomicUsize>,
    pub(super) counts: CachePadded<Counts>,
    core: Mutex<Core>,
    /// `true` while `lifecycle` is `Running`; readable without the lock.
    pub(super) running: AtomicBool,
    pub(super) lifecycle: Mutex<Lifecycle>,
    /// Notified when a start of the worker has finished, successfully or not, and when a stop
    /// begins.
    pub(super) started: Condvar,
}

/// The wheel and the timeouts that left it. Used under the lock, by the worker and other threads.
pub(super) struct Core {
    pub(super) wheel: Wheel<Arc<Cell>>,
    /// Timeouts outside the wheel that will not fire, because the lane was closed: they were still
    /// in the lane, or had left the wheel and were reset.
    pub(super) unfired: Vec<Arc<Cell>>,
}

/// Counters. The worker updates them, with three exceptions: callers update `cancelled` and
/// `refused`, and any thread that runs user code updates `panicked`.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) fired: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) panicked: AtomicU64,
    pub(super) fell_back: AtomicU64,
    pub(super) wakeups: AtomicU64,
    pub(super) longest: AtomicU64,
}

pub(super) struct Settings {
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) executor: Option<Arc<dyn Executor>>,
    pub(super) on_unhandled: OnUnhandled,
    pub(super) limit: usize,
    pub(super) threads: ThreadBuilder,
}

impl Shared {
    pub(super) fn new(wheel: Wheel<Arc<Cell>>, settings: Settings) -> Self {
        Self {
            name: settings.name,
            clock: settings.clock,
            lane: TimeoutLane::new(),
            bell: Doorbell::new(),
            parker: Parker::new(),
            executor: settings.executor,
            on_unhandled: settings.on_unhandled,
            geometry: wheel.geometry(),
            limit: settings.limit,
            pending: CachePadded::new(AtomicUsize::new(0)),
            cancels: CachePadded::new(AtomicUsize::new(0)),
            counts: CachePadded::new(Counts::default()),
            core: Mutex::new(Core {
                wheel,
                unfired: Vec::new(),
            }),
            running: AtomicBool::new(false),
            lifecycle: Mutex::new(Lifecycle::New(settings.threads)),
            started: Condvar::new(),
        }
    }

    pub(super) fn cancel(&self, cell: &Arc<Cell>) -> bool {
        let Some(task) = cell.decide(TimeoutOutcome::Cancelled) else {
            return false;
        };
        self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
        self.discard(task);
        if self.lane.push(cell) {
            let waiting = self.cancels.fetch_add(1, Ordering::Relaxed) + 1;
            if waiting >= WAKE_AFTER && self.bell.ring() {
                self.parker.unpark();
            }
            if waiting >= HELP_AFTER {
                self.absorb(&mut self.core());
            }
        }
        true
    }

    pub(super) fn reset(&self, cell: &Arc<Cell>, after: Duration) -> bool {
        let deadline = self.clock.deadline(after);
        match cell.reset(deadline) {
            Reset::No(_) => return false,
            Reset::Later => {}
            Reset::Sooner if !self.lane.push(cell) => return false,
            Reset::Sooner => self.wake_before(deadline),
        }
        true
    }

    /// Drains the lane: inserts pending timeouts into the wheel and removes decided ones.
    pub(super) fn absorb(&self, core: &mut Core) {
        self.cancels.store(0, Ordering::Relaxed);
        for cell in self.lane.take() {
            match cell.deadline() {
                Some(deadline) => core.place(deadline, cell),
                None => {
                    if let Some(key) = cell.key().take() {
                        drop(core.wheel.remove(key));
                    }
                }
            }
        }
    }

    /// Locks the lifecycle state, after waiting for a start on another thread to finish. Returns
    /// `TimerError::Starting` if this thread itself is starting the worker, and
    /// `TimerError::Refused` if this thread must not block.
    pub(super) fn lock_started(&self) -> Result<MutexGuard<'_, Lifecycle>, TimerError> {
        let mut lifecycle = self.lifecycle();
        while let Lifecycle::Starting(starter) = *lifecycle {
            if starter == std::thread::current().id() {
                return Err(TimerError::Starting);
            }
            // The spawner is user code and may take a long time.
            check_may_block(None).map_err(TimerError::Refused)?;
            lifecycle = unpoisoned(self.started.wait(lifecycle));
        }
        Ok(lifecycle)
    }

    pub(super) fn lifecycle(&self) -> MutexGuard<'_, Lifecycle> {
        unpoisoned(self.lifecycle.lock())
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        unpoisoned(self.core.lock())
    }

    /// Runs user code and reports a panic.
    pub(super) fn contain(&self, name: &str, run: impl FnOnce()) {
        let Err(panic) = contain(run) else {
            return;
        };
        self.counts.panicked.fetch_add(1, Ordering::Relaxed);
        let what = Unhandled::TaskPanic {
            task: name,
            message: panic.message(),
        };
        self.on_unhandled.report(&self.name, &what);
    }

    /// Runs the `on_cancel` hook of a task that will not run, and drops the task.
    fn discard(&self, mut task: TimerTask) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
        self.run_hook(&mut task);
        let task = self.strip_extras(task);
        self.contain("drop", || drop(task));
    }

    pub(super) fn run_hook(&self, task: &mut TimerTask) {
        let hook = task.extras.as_mut().and_then(|it| it.on_cancel.take());
        if let Some(hook) = hook {
            self.contain("on_cancel", || hook.run());
        }
    }

    /// Returns the task itself. Drops its hook and its executor separately, so that a panic in one
    /// drop does not prevent the other.
    pub(super) fn strip_extras(&self, task: TimerTask) -> Task {
        let TimerTask { task, extras } = task;
        if let Some(extras) = extras {
            let extras = *extras;
            self.contain("drop", || drop(extras.on_cancel));
            self.contain("drop", || drop(extras.executor));
        }
        task
    }

    /// Wakes the worker if it would sleep past the end of the deadline's tick.
    pub(super) fn wake_before(&self, deadline: u64) {
        if self.bell.ring_before(self.geometry.due_at(deadline)) {
            self.parker.unpark();
        }
    }
}

impl Core {
    /// Inserts a cell into the wheel at `deadline`, or moves it there. Repeats this if another
    /// thread has set an earlier deadline in the meantime.
    pub(super) fn place(&mut self, deadline: u64, cell: Arc<Cell>) {
        let entry = || Arc::clone(&cell);
        insert_timeout(&mut self.wheel, &cell, cell.key(), deadline, entry);
    }
}
