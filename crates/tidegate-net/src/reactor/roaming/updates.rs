//! Roaming channels: the state that a roaming loop shares with the threads that run its tasks.
//!
//! A ready channel is moved, boxed, into the task that runs it: a [`RoamingTask`]. The thread that
//! runs the task owns the channel while its handlers run; then the loop takes the box back from the
//! task. If the loop has gone on meanwhile, the end of the task is an update. Updates are under one
//! lock that is held for a push or a swap, never while user code runs.
//!
//! # Why this is enough
//!
//! * A channel is in one place: its slot or one task. There is no other access to
//!   it, so its handlers see one event at a time, in order, and need no lock.
//! * Each hand-off synchronises: from the slot to the task on the thread that produces, from there
//!   through the pool's queue or the strategy's cell, and back through the lock of the task.
//!   So what a handler wrote on one thread is seen by its next event on another.
//! * A task ends once: the channel goes back to its loop, or, if the loop has ended, is closed
//!   where it is.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use tidegate_core::internal::{Sleeper, lock};
use tidegate_loop::internal::LoopScheduler;

use super::super::source::{IoHandle, IoSource};
use super::roaming_task::RoamingTask;
use crate::metrics::Counters;
use crate::sys::Token;

/// A source that can move between threads.
pub(crate) type RoamingSource = Box<dyn IoSource + Send>;

/// Creates a source from its token.
pub(crate) type MakeRoamingSource = Box<dyn FnOnce(Token) -> RoamingSource + Send>;

/// Receives the result of a registration.
pub(crate) type OnRegistered = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Receives the handles of a loop's sources.
pub(crate) type OnHandles = Box<dyn FnOnce(Vec<Arc<dyn IoHandle>>) + Send>;

/// A request to the loop from another thread.
pub(crate) enum Update {
    /// Registers a source and starts it.
    Register(MakeRoamingSource, OnRegistered),
    /// Delivers queued requests to a source; ignored if the source is gone.
    Requests(Token),
    /// A roaming task that the loop did not wait for is over, or was not run because no thread took
    /// it; its source comes back.
    Home(Arc<RoamingTask>),
    /// Requests the handles of all sources that have one, present or absent.
    Handles(OnHandles),
}

/// State that a roaming loop shares with other threads.
pub(crate) struct RoamingShared {
    pub(super) updates: Mutex<Updates>,
    waker: Arc<dyn Sleeper>,
    timers: OnceLock<LoopScheduler>,
    /// The counters of the tasks; each has one writer at a time.
    counters: Mutex<Vec<Arc<Counters>>>,
}

#[derive(Default)]
pub(super) struct Updates {
    queue: Vec<Update>,
    /// The loop waits in its poller, or is about to.
    pub(super) asleep: bool,
    /// The loop has ended.
    closed: bool,
    /// Number of times that the loop was woken.
    wakeups: u64,
}

impl RoamingShared {
    pub(super) fn new(waker: Arc<dyn Sleeper>) -> Arc<Self> {
        Arc::new(Self {
            updates: Mutex::default(),
            waker,
            timers: OnceLock::new(),
            counters: Mutex::default(),
        })
    }

    /// Sets the timers of its loop. Called once, before anything is registered.
    pub(crate) fn set_timers(&self, timers: LoopScheduler) {
        let _ = self.timers.set(timers);
    }

    pub(crate) fn timers(&self) -> Option<&LoopScheduler> {
        self.timers.get()
    }

    /// Queues `update` for the loop, and wakes the loop if it sleeps, once. Returns the update if
    /// the loop has ended.
    pub(crate) fn push(&self, update: Update) -> Result<(), Update> {
        let mut updates = lock(&self.updates);
        if updates.closed {
            return Err(update);
        }
        updates.queue.push(update);
        let wake = std::mem::take(&mut updates.asleep);
        updates.wakeups += u64::from(wake);
        drop(updates);
        if wake {
            self.waker.wake();
        }
        Ok(())
    }

    /// Takes the updates, oldest first, into `into`, which is empty.
    pub(super) fn take(&self, into: &mut Vec<Update>) {
        std::mem::swap(&mut lock(&self.updates).queue, into);
    }

    /// Announces that the loop goes to sleep. Returns `false` if there are updates.
    pub(super) fn fall_asleep(&self) -> bool {
        let mut updates = lock(&self.updates);
        updates.asleep = updates.queue.is_empty();
        updates.asleep
    }

    pub(super) fn wake_up(&self) {
        lock(&self.updates).asleep = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.updates).queue.is_empty()
    }

    /// Closes the queue and returns the updates that are left.
    pub(super) fn close(&self) -> Vec<Update> {
        let mut updates = lock(&self.updates);
        updates.closed = true;
        std::mem::take(&mut updates.queue)
    }

    /// Creates the counters of one more task.
    pub(super) fn more_counters(&self) -> Arc<Counters> {
        let more = Arc::<Counters>::default();
        lock(&self.counters).push(Arc::clone(&more));
        more
    }

    /// Returns how often the loop was woken for an update.
    pub(crate) fn wakeups(&self) -> u64 {
        lock(&self.updates).wakeups
    }

    /// Calls `look` with the counters of each task.
    pub(crate) fn each_counters(&self, mut look: impl FnMut(&Counters)) {
        for counters in lock(&self.counters).iter() {
            look(counters);
        }
    }
}
