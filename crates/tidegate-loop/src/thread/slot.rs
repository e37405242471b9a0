//! The protocol by which an event loop gets a thread: one caller starts it, others wait for the
//! outcome.
//!
//! Starting a thread runs user code, a spawner, which may block, fail, or use the event loop. So no
//! lock is held meanwhile: the starter leaves a record in the slot. The start ends when the thread
//! has arrived or the spawner has returned, whichever comes first.
//!
//! A submitter that finds the record waits for the outcome, so that a failed start refuses its task
//! and does not strand it. A caller that must not wait, because it is the spawner itself or runs on
//! an event loop, continues: its task runs with this start or with the next one. A caller without a
//! task does not wait either.

use std::cell::Cell;
use std::sync::Arc;

use tidegate_core::executor::{ExecutorId, WaitPolicy, wait_policy};
use tidegate_core::internal::prim::{Mutex, MutexGuard, lock};
use tidegate_core::internal::{ThreadWatch, discard};
use tidegate_core::{Parker, ThreadBuilder};
use tidegate_pool::Lease;
use tidegate_pool::strategy::Strategy;

use super::presence::ThreadPresence;
use crate::state::lifecycle::State;

tidegate_core::internal::prim::thread_local! {
    /// The event loop for which this thread runs a spawner; 0 if none.
    static STARTS: Cell<u64> = const { Cell::new(0) };
}

/// The thread of an event loop, and how to start one.
pub(crate) struct ThreadSlot {
    slot: Mutex<Slot>,
    /// The number of the event loop's threads, for waits until there is none.
    pub(crate) presence: Arc<ThreadPresence>,
}

/// The data behind the lock of a [`ThreadSlot`]. No start begins or ends while it is held.
#[derive(Default)]
pub(crate) struct Slot {
    /// `None` if a strategy drives the event loop, or its owner by hand.
    builder: Option<ThreadBuilder>,
    watch: Option<ThreadWatch>,
    /// The strategy that drives the event loop instead of a thread of its own, and its name.
    strategy: Option<(Arc<dyn Strategy>, &'static str)>,
    /// The lease for the thread that a roaming loop keeps. Ended with the loop.
    lease: Option<Arc<Lease>>,
    /// The start that is in progress.
    starting: Option<Starting>,
    /// The number of starts so far.
    starts: u64,
}

/// A start that is in progress.
#[derive(Default)]
pub(crate) struct Starting {
    number: u64,
    waiting: Vec<Parker>,
    /// `true` if a shutdown was requested meanwhile: the thread that ends the start continues with
    /// it.
    end_requested: bool,
}

/// How an event loop gets a thread.
pub(crate) enum Launch {
    /// A strategy drives it.
    Strategy(Arc<dyn Strategy>),
    /// It has a thread of its own.
    Thread(ThreadBuilder),
    /// Its owner drives it by hand.
    ByHand,
}

impl ThreadSlot {
    pub(crate) fn new(builder: Option<ThreadBuilder>) -> Self {
        Self {
            slot: Mutex::new(Slot {
                builder,
                ..Slot::default()
            }),
            presence: Arc::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }

    /// Returns the locked slot if the caller has to start a thread for the event loop `id`. Waits
    /// for a start that is in progress, if the calling thread may wait.
    pub(crate) fn claim_start(
        &self,
        state: &State,
        id: ExecutorId,
    ) -> Option<MutexGuard<'_, Slot>> {
        loop {
            let mut slot = self.lock();
            if !state.needs_thread() {
                return None;
            }
            let Some(starting) = &mut slot.starting else {
                return Some(slot);
            };
            if wait_policy() != WaitPolicy::Free || is_spawner(id) {
                return None;
            }
            let parker = Parker::new();
            starting.waiting.push(parker.clone());
            drop(slot);
            parker.park(None);
        }
    }

    /// Returns the thread that drives the event loop, if there is one.
    pub(crate) fn watch(&self) -> Option<ThreadWatch> {
        self.lock().watch.clone()
    }

    pub(crate) fn strategy(&self) -> Option<Arc<dyn Strategy>> {
        let slot = self.lock();
        let strategy = slot.strategy.as_ref();
        strategy.map(|(strategy, _)| Arc::clone(strategy))
    }

    /// Returns the name of the strategy. It was read when the event loop was built, so this does
    /// not call the user's code.
    pub(crate) fn strategy_name(&self) -> Option<&'static str> {
        self.lock().strategy.as_ref().map(|(_, name)| *name)
    }

    /// Makes `strategy` drive the event loop.
    pub(crate) fn drive_by(&self, strategy: Arc<dyn Strategy>, name: &'static str) {
        let mut slot = self.lock();
        slot.builder = None;
        slot.strategy = Some((strategy, name));
    }

    /// Keeps the lease for the thread that the event loop needs until its end.
    pub(crate) fn keep_lease(&self, lease: Option<Arc<Lease>>) {
        self.lock().lease = lease;
    }

    /// Returns the leased thread: the event loop has ended and needs none.
    pub(crate) fn end_lease(&self) {
        let lease = self.lock().lease.take();
        if let Some(lease) = lease {
            lease.end();
        }
    }

    /// Drops the strategy, which may be user code; a panic is contained.
    pub(crate) fn forget_strategy(&self) {
        let strategy = self.lock().strategy.take();
        discard(strategy);
    }

    /// Marks the event loop as driven by hand.
    pub(crate) fn drive_manually(&self) {
        self.lock().builder = None;
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.forget_strategy();
    }
}

impl Slot {
    /// Returns `true` while a start is in progress.
    pub(crate) fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// Records that a start begins. Returns its number, and how to get the thread.
    pub(crate) fn begin_start(&mut self) -> (u64, Launch) {
        self.starts += 1;
        self.starting = Some(Starting {
            number: self.starts,
            ..Starting::default()
        });
        self.watch = None;
        let how = match (&self.strategy, &self.builder) {
            (Some((strategy, _)), _) => Launch::Strategy(Arc::clone(strategy)),
            (None, Some(builder)) => Launch::Thread(builder.clone()),
            (None, None) => Launch::ByHand,
        };
        (self.starts, how)
    }

    /// Returns `true` if the start with this number is in progress: no thread has arrived.
    pub(crate) fn is_start(&self, number: u64) -> bool {
        self.starting.as_ref().map(|one| one.number) == Some(number)
    }

    /// Ends the start. The caller releases the lock and then calls [`Starting::wake_waiters`].
    pub(crate) fn end_start(&mut self) -> Starting {
        self.starting.take().unwrap_or_default()
    }

    /// Asks the thread that ends the current start to continue with the shutdown. Returns `false`
    /// if no start is in progress.
    pub(crate) fn defer_shutdown(&mut self) -> bool {
        match &mut self.starting {
            Some(starting) => {
                starting.end_requested = true;
                true
            }
            None => false,
        }
    }

    /// Stores the thread that drives the event loop.
    pub(crate) fn set_watch(&mut self, watch: &ThreadWatch) {
        self.watch = Some(watch.clone());
    }

    /// Stores the thread unless one is stored. Called by the starter; the new thread may have
    /// stored itself first.
    pub(crate) fn set_watch_if_none(&mut self, watch: impl FnOnce() -> ThreadWatch) {
        self.watch.get_or_insert_with(watch);
    }
}

impl Starting {
    /// Wakes the submitters that wait for this start. Returns `true` if a shutdown was requested
    /// meanwhile.
    pub(crate) fn wake_waiters(self) -> bool {
        for parker in self.waiting {
            parker.unpark();
        }
        self.end_requested
    }
}

/// Runs `spawn`, the spawner of the event loop `id`. Marks the calling thread, so that the spawner
/// does not wait for itself if it uses the event loop.
pub(crate) fn as_spawner<R>(id: ExecutorId, spawn: impl FnOnce() -> R) -> R {
    let outer = STARTS.replace(id.get());
    let spawned = spawn();
    STARTS.set(outer);
    spawned
}

/// Returns `true` if the calling thread runs the spawner of the event loop `id`.
fn is_spawner(id: ExecutorId) -> bool {
    STARTS.try_with(Cell::get) == Ok(id.get())
}
