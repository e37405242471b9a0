//! Channels that travel: what a roaming loop and the threads that run its tasks share.
//!
//! A ready channel is moved, boxed, into the task that tells it: a [`Trip`]. Whoever runs the task
//! owns the channel meanwhile; when the task is over the box goes home as an update. Updates lie
//! under one lock that is held for a push or a swap, never while code of the user's runs.
//!
//! # Why this is enough
//!
//! * A channel is in one place: its slot, or one trip, or an update. There is no other way to
//!   it, so its handlers see one event at a time, in order, and need no lock.
//! * Each hand-over synchronises: from slot to task on the thread that produces, from there
//!   through the pool's queue or the strategy's cell, and back through the lock around the updates.
//!   So what a handler wrote on one thread is seen by its next event on another.
//! * A trip ends once: it goes home, or, when the loop is over, closes its channel where it is.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_core::Sleeper;
use tidegate_loop::LoopTimers;

use super::super::source::{EventSource, Next, SourceHandle};
use super::trip::Trip;
use crate::metrics::Counters;
use crate::sys::{Readiness, Token};

/// A source that can leave its thread.
pub(crate) type Traveller = Box<dyn EventSource + Send>;

/// Makes a source of the token that it will have.
pub(crate) type MakeTraveller = Box<dyn FnOnce(Token) -> Traveller + Send>;

/// Hears whether a source was registered.
pub(crate) type OnRegistered = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Gets the handles of the sources that a loop has.
pub(crate) type OnHandles = Box<dyn FnOnce(Vec<Arc<dyn SourceHandle>>) + Send>;

/// Something that the loop has to do for others.
pub(crate) enum Update {
    /// Registers a source and lets it begin.
    Register(MakeTraveller, OnRegistered),
    /// Somebody has something to tell a source.
    Tell(Token, Readiness),
    /// A channel has mail; nothing if it is gone.
    Mail(Token),
    /// A trip is over.
    Home(Box<Trip>, Next),
    /// A trip did not take place: nobody would run it.
    Refused(Box<Trip>),
    /// Asks for the handles of the sources that have one, at home or away.
    Handles(OnHandles),
}

/// What a roaming loop shares with whoever has something for it.
pub(crate) struct Roam {
    updates: Mutex<Updates>,
    waker: Arc<dyn Sleeper>,
    timers: OnceLock<LoopTimers>,
    /// What each trip counts: one writer at a time each.
    counters: Mutex<Vec<Arc<Counters>>>,
}

#[derive(Default)]
pub(super) struct Updates {
    queue: Vec<Update>,
    /// The loop waits in its poller, or is about to.
    pub(super) asleep: bool,
    /// The loop is over.
    closed: bool,
    /// Times that it was woken.
    wakeups: u64,
}

impl Roam {
    pub(super) fn new(waker: Arc<dyn Sleeper>) -> Arc<Self> {
        Arc::new(Self {
            updates: Mutex::default(),
            waker,
            timers: OnceLock::new(),
            counters: Mutex::default(),
        })
    }

    /// Tells it its loop; once, before anything is registered.
    pub(crate) fn set_timers(&self, timers: LoopTimers) {
        let _ = self.timers.set(timers);
    }

    pub(crate) fn timers(&self) -> Option<&LoopTimers> {
        self.timers.get()
    }

    /// Has the loop do `update`; wakes it if it sleeps, once. The update itself if the loop is
    /// over.
    pub(crate) fn push(&self, update: Update) -> Result<(), Update> {
        let mut updates = self.lock();
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

    /// Takes the updates out, oldest first, into `into`, which is empty.
    pub(super) fn take(&self, into: &mut Vec<Update>) {
        std::mem::swap(&mut self.lock().queue, into);
    }

    /// Announces sleep; false if there is something to do.
    pub(super) fn fall_asleep(&self) -> bool {
        let mut updates = self.lock();
        updates.asleep = updates.queue.is_empty();
        updates.asleep
    }

    pub(super) fn wake_up(&self) {
        self.lock().asleep = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    /// Takes no more updates; answers those that are left.
    pub(super) fn close(&self) -> Vec<Update> {
        let mut updates = self.lock();
        updates.closed = true;
        std::mem::take(&mut updates.queue)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Updates> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters for one more trip.
    pub(super) fn more_counters(&self) -> Arc<Counters> {
        let more = Arc::<Counters>::default();
        self.lock_counters().push(Arc::clone(&more));
        more
    }

    /// Times that the loop was woken for an update.
    pub(crate) fn wakeups(&self) -> u64 {
        self.lock().wakeups
    }

    /// What the trips have counted.
    pub(crate) fn each_counters(&self, mut look: impl FnMut(&Counters)) {
        for counters in self.lock_counters().iter() {
            look(counters);
        }
    }

    fn lock_counters(&self) -> MutexGuard<'_, Vec<Arc<Counters>>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Roam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roam").finish_non_exhaustive()
    }
}
