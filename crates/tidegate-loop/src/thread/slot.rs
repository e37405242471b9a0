//! The protocol by which a loop gets a thread: one caller starts it, others wait for the outcome.
//!
//! Starting a thread runs user code, a spawner, which may block, fail, or use the loop. So no lock is
//! held meanwhile: the starter leaves a note in the slot, and the start is over when the thread has
//! arrived or the spawner has returned, whichever comes first.
//!
//! A submitter that finds the note waits for the outcome, so that a failed start refuses its task
//! rather than strands it. A caller that must not wait, because it is the spawner itself or runs on a
//! loop, goes on: its task then runs with this start or with the next one. So does a caller that
//! brings no task.

use std::cell::Cell;
use std::sync::Arc;

use tidegate_core::prim::{Mutex, MutexGuard, lock};
use tidegate_core::{ExecutorId, Parker, Stance, ThreadBuilder, ThreadWatch, stance};
use tidegate_pool::Strategy;

use super::presence::Presence;
use crate::state::lifecycle::State;

tidegate_core::prim::thread_local! {
    /// The loop for which this thread runs a spawner; 0 for none.
    static STARTS: Cell<u64> = const { Cell::new(0) };
}

/// What is known of a loop's thread, and how to get one.
pub(crate) struct ThreadSlot {
    slot: Mutex<Slot>,
    /// Whether the loop has a thread, for waits until it has none.
    pub(crate) presence: Arc<Presence>,
}

/// What the lock of a [`ThreadSlot`] guards. While it is held, no start begins or ends.
#[derive(Default)]
pub(crate) struct Slot {
    /// `None`: driven by a strategy, or by hand.
    builder: Option<ThreadBuilder>,
    watch: Option<ThreadWatch>,
    /// What drives the loop instead of a thread of its own.
    strategy: Option<Arc<dyn Strategy>>,
    /// A start that is not over.
    starting: Option<Starting>,
    /// Starts so far.
    starts: u64,
}

/// A start that is not over.
#[derive(Default)]
pub(crate) struct Starting {
    number: u64,
    waiting: Vec<Parker>,
    /// The loop was asked to end meanwhile: the thread that ends the start goes on with that.
    end_asked: bool,
}

/// How a loop gets a thread.
pub(crate) enum Launch {
    /// A strategy drives it.
    Strategy(Arc<dyn Strategy>),
    /// It has threads of its own.
    Thread(ThreadBuilder),
    /// It is driven by hand.
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

    /// Returns the slot, locked, if the caller has to start a thread for the loop `id`. Waits for a
    /// start that is not over, where the calling thread may wait.
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
            if stance() != Stance::Free || is_spawner(id) {
                return None;
            }
            let parker = Parker::new();
            starting.waiting.push(parker.clone());
            drop(slot);
            parker.park(None);
        }
    }

    /// The thread that drives the loop, if there is one.
    pub(crate) fn watch(&self) -> Option<ThreadWatch> {
        self.lock().watch.clone()
    }

    pub(crate) fn strategy(&self) -> Option<Arc<dyn Strategy>> {
        self.lock().strategy.clone()
    }

    /// Makes `strategy` drive the loop.
    pub(crate) fn drive_by(&self, strategy: Arc<dyn Strategy>) {
        let mut slot = self.lock();
        slot.builder = None;
        slot.strategy = Some(strategy);
    }

    /// Makes the loop one that is driven by hand.
    pub(crate) fn drive_by_hand(&self) {
        self.lock().builder = None;
    }
}

impl Slot {
    /// Returns `true` while a start is not over.
    pub(crate) fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// Notes that a start begins; returns its number, and how to get the thread.
    pub(crate) fn begin_start(&mut self) -> (u64, Launch) {
        self.starts += 1;
        self.starting = Some(Starting {
            number: self.starts,
            ..Starting::default()
        });
        self.watch = None;
        let how = match (&self.strategy, &self.builder) {
            (Some(strategy), _) => Launch::Strategy(Arc::clone(strategy)),
            (None, Some(builder)) => Launch::Thread(builder.clone()),
            (None, None) => Launch::ByHand,
        };
        (self.starts, how)
    }

    /// Returns `true` if the start with this number is not over: no thread has arrived.
    pub(crate) fn is_start(&self, number: u64) -> bool {
        self.starting.as_ref().map(|one| one.number) == Some(number)
    }

    /// Ends the start; [`Starting::tell`] is called without the lock.
    pub(crate) fn end_start(&mut self) -> Starting {
        self.starting.take().unwrap_or_default()
    }

    /// Asks the thread that ends a start to go on with the end of the loop; `false` if there is none.
    pub(crate) fn ask_end_of_starter(&mut self) -> bool {
        match &mut self.starting {
            Some(starting) => {
                starting.end_asked = true;
                true
            }
            None => false,
        }
    }

    /// Notes the thread that drives the loop.
    pub(crate) fn set_watch(&mut self, watch: &ThreadWatch) {
        self.watch = Some(watch.clone());
    }

    /// The same for the thread that started it, which may come second.
    pub(crate) fn set_watch_if_none(&mut self, watch: impl FnOnce() -> ThreadWatch) {
        self.watch.get_or_insert_with(watch);
    }
}

impl Starting {
    /// Wakes the submitters that wait for this start; `true` if the loop was asked to end meanwhile.
    pub(crate) fn tell(self) -> bool {
        for parker in self.waiting {
            parker.unpark();
        }
        self.end_asked
    }
}

/// Runs `spawn`, the spawner of the loop `id`, so that it does not wait for itself when it uses the
/// loop.
pub(crate) fn as_spawner<R>(id: ExecutorId, spawn: impl FnOnce() -> R) -> R {
    let outer = STARTS.replace(id.get());
    let spawned = spawn();
    STARTS.set(outer);
    spawned
}

/// Returns `true` if the calling thread runs the spawner of the loop `id`.
fn is_spawner(id: ExecutorId) -> bool {
    STARTS.try_with(Cell::get) == Ok(id.get())
}
