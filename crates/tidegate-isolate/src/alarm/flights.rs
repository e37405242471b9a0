//! The call slots of a timer: how a call takes an idle slot, arms it and returns it.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use tidegate_core::internal::PlainTask;

use super::handle::CallTimer;
use crate::in_flight::Flight;
use tidegate_core::internal::unpoisoned;

/// The largest number of call slots that a thread keeps for its next calls. Calls may be nested,
/// and calls that a worker ends were begun on another thread, so slots can pile up: above this
/// number, half of them are returned in one step.
const KEPT: usize = 32;
/// The largest number of call slots that are kept for all threads.
const SPARE: usize = 1024;

thread_local! {
    static IDLE: Idle = const {
        Idle { last: Cell::new(None), others: RefCell::new(Vec::new()) }
    };
}

/// The idle call slots of a thread, each with the id of the timer that watches it.
struct Idle {
    /// The slot that became idle last. A thread whose calls are not nested uses no other.
    last: Cell<Option<(u64, Arc<Flight>)>>,
    others: RefCell<Vec<(u64, Arc<Flight>)>>,
}

impl Idle {
    #[inline(always)]
    fn take(&self, timer: u64) -> Option<Arc<Flight>> {
        match self.last.take() {
            Some((of, flight)) if of == timer => Some(flight),
            last => self.take_other(timer, last),
        }
    }

    #[cold]
    fn take_other(&self, timer: u64, last: Option<(u64, Arc<Flight>)>) -> Option<Arc<Flight>> {
        self.last.set(last);
        let mut others = self.others.borrow_mut();
        let at = others.iter().rposition(|(of, _)| *of == timer)?;
        Some(others.swap_remove(at).1)
    }
}

impl CallTimer {
    /// Returns an idle call slot of this thread, or a new one.
    #[inline]
    pub(crate) fn take_flight(&self) -> Arc<Flight> {
        let id = self.shared.id;
        let kept = IDLE.try_with(|idle| idle.take(id));
        kept.ok().flatten().unwrap_or_else(|| self.fetch_flights())
    }

    /// Keeps a call slot for the next call, if no other thread uses it. Called on the thread of the
    /// call that it served.
    #[inline(always)]
    pub(crate) fn keep_flight(&self, flight: Arc<Flight>) {
        if flight.is_reusable() {
            let id = self.shared.id;
            let _ = IDLE.try_with(|idle| {
                if let Some(older) = idle.last.replace(Some((id, flight))) {
                    self.keep_other(idle, older);
                }
            });
        } else {
            flight.retire();
        }
    }

    #[cold]
    fn keep_other(&self, idle: &Idle, older: (u64, Arc<Flight>)) {
        let mut others = idle.others.borrow_mut();
        others.push(older);
        if others.len() > KEPT {
            self.give_flights(&mut others);
        }
    }

    /// Begins a call on `flight` that must end by `deadline`. `command_id` is the number of its
    /// command.
    #[inline]
    pub(crate) fn arm(&self, flight: &Flight, deadline: u64, command_id: u64, interrupts: bool) {
        flight.prepare(self.shared.clock.clock(), deadline, command_id, interrupts);
        flight.word().begin();
        self.watch(deadline);
    }

    /// Makes sure that the timer checks a started call at its deadline.
    #[inline]
    pub(crate) fn watch(&self, deadline: u64) {
        // The call was published before this load, and the timer stores its wake-up time before its
        // last look at the call slots: at least one of the two sees the other.
        if deadline < self.shared.next_wake.load(Ordering::Relaxed) {
            self.shared.wake(deadline);
        }
    }

    /// Takes an idle call slot from the shared ones, and some more for later, or creates one.
    #[cold]
    fn fetch_flights(&self) -> Arc<Flight> {
        let mut spare = self.spare();
        let Some(flight) = spare.pop() else {
            drop(spare);
            return self.new_flight();
        };
        let id = self.shared.id;
        let _ = IDLE.try_with(|idle| {
            let mut others = idle.others.borrow_mut();
            let room = (KEPT / 2).saturating_sub(others.len()).min(spare.len());
            let from = spare.len() - room;
            others.extend(spare.drain(from..).map(|flight| (id, flight)));
        });
        flight
    }

    /// Returns the older half of a thread's call slots to the shared ones.
    #[cold]
    fn give_flights(&self, idle: &mut Vec<(u64, Arc<Flight>)>) {
        let id = self.shared.id;
        let mut spare = self.spare();
        let room = SPARE.saturating_sub(spare.len());
        // What finds no room is dropped under the lock. A slot that is kept has no hook and no
        // waker, so no user code is dropped with it.
        let given = idle.drain(..KEPT / 2).filter(|(of, _)| *of == id);
        spare.extend(given.take(room).map(|(_, flight)| flight));
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Arc<Flight>>> {
        let spare = self.shared.spare.lock();
        unpoisoned(spare)
    }

    #[cold]
    fn new_flight(&self) -> Arc<Flight> {
        let flight = Arc::new(Flight::default());
        let mut flights = self.shared.flights();
        let mut gone = Vec::new();
        if flights.len() == flights.capacity() {
            // A slot that was dropped by its callers is referenced by this list only.
            let is_gone = |flight: &mut Arc<Flight>| Arc::strong_count(flight) == 1;
            gone.extend(flights.extract_if(.., is_gone));
        }
        flights.push(Arc::clone(&flight));
        drop(flights);
        // Hooks that were rejected stayed in their tokens; their `Drop` is user code.
        for flight in gone.into_iter().filter(|one| one.token().has_hooks()) {
            if let Some(aside) = self.shared.aside_of(flight.command_id()) {
                let drop_hooks = PlainTask::new(move || flight.token().drop_hooks());
                self.run_aside(&aside, drop_hooks);
            }
        }
        flight
    }
}
