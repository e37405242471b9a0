//! How a loop gets a thread.
//!
//! Starting one runs code of the user's, a spawner, which may block, fail, or use the loop. So no
//! lock is held meanwhile: whoever starts leaves a note in the slot, and the start is over when the
//! thread has arrived or the spawner has answered, whichever comes first.
//!
//! A submitter that finds the note waits for the outcome, so that a failed start refuses its task
//! rather than strands it. Who must not wait, because it is the spawner itself or runs on a loop,
//! goes on: its task then runs with this start or with the next one. So does who brings no task.

use std::cell::Cell;
use std::sync::Arc;

use tidegate_core::prim::{MutexGuard, lock};
use tidegate_core::{
    Executor, Parker, Refusal, Stance, ThreadBuilder, ThreadWatch, Unhandled, contain, stance,
};
use tidegate_pool::Strategy;

use crate::global::default_loop::Presence;
use crate::state::shared::Shared;

tidegate_core::prim::thread_local! {
    /// The loop for which this thread runs a spawner; 0 for none.
    static STARTS: Cell<u64> = const { Cell::new(0) };
}

/// What is known of a loop's thread, and how to get one.
#[derive(Default)]
pub(crate) struct ThreadSlot {
    /// `None`: driven by a strategy, or by hand.
    builder: Option<ThreadBuilder>,
    watch: Option<ThreadWatch>,
    /// What drives the loop instead of a thread of its own.
    strategy: Option<Arc<dyn Strategy>>,
    /// Somebody starts a thread at this moment.
    pub(crate) starting: Option<Starting>,
    /// Starts so far.
    starts: u64,
}

/// A start that is not over.
#[derive(Default)]
pub(crate) struct Starting {
    number: u64,
    waiting: Vec<Parker>,
    /// The loop was asked to end meanwhile: whoever ends the start goes on with that.
    pub(crate) end_asked: bool,
}

impl ThreadSlot {
    pub(crate) fn of(builder: Option<ThreadBuilder>) -> Self {
        Self {
            builder,
            ..Self::default()
        }
    }
}

impl Shared {
    /// Starts a thread for the loop if it has none, or waits for whoever does.
    #[cold]
    pub(crate) fn start(&self) -> Result<(), Refusal> {
        loop {
            let mut slot = self.thread_slot();
            if !self.state.needs_thread() {
                return Ok(());
            }
            let Some(starting) = &mut slot.starting else {
                return self.start_with(slot);
            };
            if stance() != Stance::Free || self.is_spawner() {
                return Ok(());
            }
            let parker = Parker::new();
            starting.waiting.push(parker.clone());
            drop(slot);
            parker.park(None);
        }
    }

    /// Starts a thread if there is none and nobody does, where a failure has nobody to be told:
    /// what waits in the lanes runs with the next start.
    pub(crate) fn ensure_thread(&self) {
        if !self.state.needs_thread() {
            return;
        }
        let slot = self.thread_slot();
        if self.state.needs_thread() && slot.starting.is_none() {
            let _ = self.start_with(slot);
        }
    }

    /// Whether the calling thread runs the spawner of this very loop.
    fn is_spawner(&self) -> bool {
        STARTS.try_with(Cell::get) == Ok(self.id.get())
    }

    fn start_with(&self, mut slot: MutexGuard<'_, ThreadSlot>) -> Result<(), Refusal> {
        slot.starts += 1;
        let number = slot.starts;
        slot.starting = Some(Starting {
            number,
            ..Starting::default()
        });
        slot.watch = None;
        let (strategy, builder) = (slot.strategy.clone(), slot.builder.clone());
        drop(slot);
        let outer = STARTS.replace(self.id.get());
        let started = contain(|| match (strategy, builder) {
            (Some(strategy), _) => strategy.dispatch().map_err(|refused| refused.why()),
            (None, Some(builder)) => self.spawn_thread(&builder),
            // Whoever drives it by hand comes by.
            (None, None) => Ok(()),
        });
        STARTS.set(outer);
        let started = started.unwrap_or_else(|panic| {
            let message = panic.message();
            self.unhandled(&Unhandled::HookPanic { message });
            Err(Refusal::NoThread)
        });
        let slot = self.thread_slot();
        let mine = slot.starting.as_ref().map(|one| one.number) == Some(number);
        if !mine {
            // The thread has arrived, whatever its spawner says.
            return Ok(());
        }
        self.end_start(slot, started.is_ok());
        started
    }

    fn spawn_thread(&self, builder: &ThreadBuilder) -> Result<(), Refusal> {
        let member = self.clock.join();
        let shared = self.arc();
        let present = Presence::join(&self.presence);
        let thread = builder.spawn_watched(move |watch| {
            present.arrive();
            shared.arrive(Some(watch));
            crate::thread::run::run_thread(&shared, member);
        });
        let thread = thread.map_err(|_| Refusal::NoThread)?;
        self.thread_slot()
            .watch
            .get_or_insert_with(|| thread.watch());
        Ok(())
    }

    /// Called by a thread that is about to drive the loop: it has one from now on.
    pub(crate) fn arrive(&self, watch: Option<&ThreadWatch>) {
        let mut slot = self.thread_slot();
        if let Some(watch) = watch {
            slot.watch = Some(watch.clone());
        }
        if slot.starting.is_some() {
            self.end_start(slot, true);
        }
    }

    /// Ends a start: the loop counts as started if it has its thread, and whoever waits hears.
    fn end_start(&self, mut slot: MutexGuard<'_, ThreadSlot>, started: bool) {
        let over = slot.starting.take().unwrap_or_default();
        if started {
            self.state.begin();
        }
        drop(slot);
        for parker in over.waiting {
            parker.unpark();
        }
        if over.end_asked {
            self.go_on_ending();
        }
    }

    pub(crate) fn thread(&self) -> Option<ThreadWatch> {
        self.thread_slot().watch.clone()
    }

    /// Has `strategy` drive the loop.
    pub(crate) fn drive_by(&self, strategy: Arc<dyn Strategy>) {
        let mut slot = self.thread_slot();
        slot.builder = None;
        slot.strategy = Some(strategy);
    }

    pub(crate) fn strategy(&self) -> Option<Arc<dyn Strategy>> {
        self.thread_slot().strategy.clone()
    }

    pub(crate) fn drop_thread(&self) {
        self.thread_slot().builder = None;
    }

    pub(crate) fn thread_slot(&self) -> MutexGuard<'_, ThreadSlot> {
        lock(&self.thread)
    }
}
