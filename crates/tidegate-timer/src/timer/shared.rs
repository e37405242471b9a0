//! The state that callers and the worker thread share: the wheel and the counters, under one lock.
//!
//! # Invariants
//!
//! * No user code runs while the wheel is locked.
//! * The entries of the wheel are the pending timeouts. An outcome is stored under the lock, by the
//!   thread that takes the entry out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Waker;
use std::time::Duration;

use tidegate_core::internal::prim::{Mutex, MutexGuard, lock};
use tidegate_core::internal::{ThreadWatch, contain};
use tidegate_core::{
    Clock, Executor, OnUnhandled, Parker, RejectReason, Rejected, Task, ThreadBuilder, Unhandled,
};

use super::errors::TimerError;
use super::handle::TimerHandle;
use super::metrics::TimerMetrics;
use super::task::TimerTask;
use super::worker;
use crate::TimerKey;
use crate::wheel::Wheel;

pub(super) struct Shared {
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) parker: Parker,
    pub(super) executor: Option<Arc<dyn Executor>>,
    pub(super) on_unhandled: OnUnhandled,
    pub(super) limit: usize,
    /// Locked while the worker is started, before `core`.
    pub(super) threads: Mutex<ThreadBuilder>,
    pub(super) core: Mutex<Core>,
}

/// The wheel, and what the worker does with it.
pub(super) struct Core {
    pub(super) wheel: Wheel<Entry>,
    /// The counters; `pending` is the length of the wheel.
    pub(super) counts: TimerMetrics,
    /// The time until which the worker sleeps, or 0 while it is awake.
    pub(super) asleep_until: u64,
    pub(super) worker: Option<ThreadWatch>,
    pub(super) is_stopped: bool,
    /// The worker has ended.
    pub(super) has_ended: bool,
    /// Woken when the worker has ended. Without a waker, nothing waits for the unfired timeouts.
    pub(super) waker: Option<Waker>,
}

/// A pending timeout.
pub(super) struct Entry {
    pub(super) task: TimerTask,
    pub(super) outcome: Arc<Outcome>,
}

/// What became of a timeout.
#[derive(Debug, Default)]
pub(super) struct Outcome(AtomicU8);

impl Outcome {
    pub(super) const EXPIRED: u8 = 1;
    pub(super) const CANCELLED: u8 = 2;

    pub(super) fn set(&self, outcome: u8) {
        // ORDERING: Release pairs with the Acquire in `is`: a thread that sees the outcome also sees
        // what the deciding thread did before.
        self.0.store(outcome, Ordering::Release);
    }

    pub(super) fn is(&self, outcome: u8) -> bool {
        // ORDERING: Acquire pairs with the Release in `set`.
        self.0.load(Ordering::Acquire) == outcome
    }
}

impl Core {
    pub(super) fn new(wheel: Wheel<Entry>) -> Self {
        Self {
            wheel,
            counts: TimerMetrics::default(),
            asleep_until: 0,
            worker: None,
            is_stopped: false,
            has_ended: false,
            waker: None,
        }
    }

    fn is_closed(&self) -> bool {
        self.is_stopped || self.has_ended
    }

    /// Returns the state for a dump, and the name of the worker's thread.
    pub(super) fn describe(&self) -> (&'static str, Option<String>) {
        let state = match &self.worker {
            _ if self.has_ended => return ("ended", None),
            None if self.is_stopped => return ("ended", None),
            None => return ("not started", None),
            Some(_) if self.is_stopped => "shutting down",
            Some(_) => "running",
        };
        let thread = self.worker.as_ref();
        (state, thread.map(|thread| thread.info().name().to_owned()))
    }

    /// Returns `true` if the worker sleeps past the end of the deadline's tick, and must be woken.
    fn must_wake(&mut self, deadline: u64) -> bool {
        let until = self.asleep_until;
        let sleeps = deadline < until && self.wheel.geometry().due_at(deadline) < until;
        if sleeps {
            self.asleep_until = 0;
        }
        sleeps
    }
}

impl Shared {
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }

    /// Starts the worker unless it is running.
    pub(super) fn start(self: &Arc<Self>) -> Result<(), TimerError> {
        let threads = lock(&self.threads);
        let core = self.core();
        if core.is_closed() {
            return Err(TimerError::Stopped);
        }
        if core.worker.is_some() {
            return Ok(());
        }
        drop(core);
        let (member, shared) = (self.clock.join(), Arc::clone(self));
        let started = contain(|| threads.spawn(move || worker::run(&shared, member)));
        let Ok(Ok(thread)) = started else {
            return Err(TimerError::NoThread);
        };
        self.core().worker = Some(thread.watch());
        Ok(())
    }

    /// Adds a timeout, and starts the worker if it is not running.
    pub(super) fn add(
        self: &Arc<Self>,
        after: Duration,
        task: TimerTask,
    ) -> Result<TimerHandle, Rejected<TimerTask>> {
        let outcome = Arc::<Outcome>::default();
        let deadline = self.clock.deadline(after);
        let mut core = self.core();
        if core.worker.is_none() {
            drop(core);
            if let Err(cause) = self.start() {
                let why = match cause {
                    TimerError::NoThread => RejectReason::NoThread,
                    _ => RejectReason::Closed,
                };
                return Err(Rejected::new(task, why));
            }
            core = self.core();
        }
        if core.is_closed() {
            return Err(Rejected::new(task, RejectReason::Closed));
        }
        if core.wheel.len() >= self.limit {
            core.counts.refused += 1;
            return Err(Rejected::new(task, RejectReason::Full));
        }
        let entry = Entry {
            task,
            outcome: Arc::clone(&outcome),
        };
        let key = core.wheel.insert(deadline, entry);
        let must_wake = core.must_wake(deadline);
        drop(core);
        if must_wake {
            self.parker.unpark();
        }
        Ok(TimerHandle {
            key,
            outcome,
            shared: Arc::clone(self),
        })
    }

    pub(super) fn cancel(&self, key: TimerKey) -> bool {
        let mut core = self.core();
        let Some(entry) = core.wheel.remove(key) else {
            return false;
        };
        entry.outcome.set(Outcome::CANCELLED);
        core.counts.cancelled += 1;
        drop(core);
        let mut task = entry.task;
        self.run_hook(&mut task);
        self.discard(task);
        true
    }

    pub(super) fn reset(&self, key: TimerKey, after: Duration) -> bool {
        let deadline = self.clock.deadline(after);
        let mut core = self.core();
        let is_pending = core.wheel.reset(key, deadline);
        let must_wake = is_pending && core.must_wake(deadline);
        drop(core);
        if must_wake {
            self.parker.unpark();
        }
        is_pending
    }

    /// Runs user code and reports a panic.
    pub(super) fn contain(&self, name: &str, run: impl FnOnce()) {
        let Err(panic) = contain(run) else {
            return;
        };
        self.core().counts.panicked += 1;
        let what = Unhandled::TaskPanic {
            task: name,
            message: panic.message(),
        };
        self.on_unhandled.report(&self.name, &what);
    }

    #[inline]
    pub(super) fn run_hook(&self, task: &mut TimerTask) {
        let hook = task.extras.as_mut().and_then(|it| it.on_cancel.take());
        if let Some(hook) = hook {
            self.contain("on_cancel", || hook.run());
        }
    }

    /// Drops a task that will not run.
    #[inline]
    pub(super) fn discard(&self, task: TimerTask) {
        let task = self.strip_extras(task);
        self.contain("drop", || drop(task));
    }

    /// Returns the task itself. Drops its hook and its executor separately, so that a panic in one
    /// drop does not prevent the other.
    #[inline]
    pub(super) fn strip_extras(&self, task: TimerTask) -> Task {
        if let Some(extras) = task.extras {
            let extras = *extras;
            self.contain("drop", || drop(extras.on_cancel));
            self.contain("drop", || drop(extras.executor));
        }
        task.task
    }
}
