//! Timeouts of running calls, and tasks at a time.
//!
//! Arming a timeout puts nothing into a queue: a call writes its deadline into a [`Flight`] that
//! its thread keeps for the next call, and one thread looks over the flights when the earliest
//! deadline has come. Most calls end long before, so that thread sleeps nearly always: it wakes
//! once per timeout while calls are made, and not at all when none are.
//!
//! # Why not the wheel
//!
//! A wheel pays for each call, an insertion and a removal, and most calls need no timeout. With a
//! thousand others waiting that is 409 instructions in a `Wheel` of the thread's own, which nobody
//! would turn; 455 in one that threads share under a lock; 754 in a `WheelTimer`, which owns one.
//! Arming and disarming a flight is 27, two of them locked, on a line of the thread's own, and the
//! deadline is exact to the clock. What pays for it is the look over all flights that were ever under
//! way at the same time, once per deadline that is reached. The bench suite `isolate` has the table
//! in nanoseconds ("a timeout that is not needed"). What a call is told by, a word and a token, has to
//! be found for it in either way, and is in none of these figures.
//!
//! # Invariants
//!
//! * The thread wakes at the earliest deadline or before: whoever arms an earlier one than the
//!   thread sleeps towards wakes it.
//! * A flight is idle, or used by one call; the timer only ever expires the call that it looked at.
//! * The thread runs and drops nothing of the user's: it decides, wakes callers that wait, and hands
//!   the rest to the threads of the command that it concerns ([`Aside`]).
//! * Nothing of the user's runs under a lock.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{
    Clock, FastClock, JoinPolicy, OnUnhandled, Parker, Task, ThreadBuilder, Unhandled, contain,
};

mod aside;
mod flight;
mod pause;

pub(crate) use self::aside::{Aside, AsideHandle};
pub(crate) use self::flight::{Expires, Flight};
pub(crate) use self::pause::{Pause, WakerSlot};

use crate::Key;

/// Flights that a thread keeps for its next calls, at most. Calls may be nested, and those that a
/// worker has ended began on another thread: what is above half goes back in one step.
const KEPT: usize = 32;
/// Flights that are kept for all threads, at most.
const SPARE: usize = 1024;
/// The shortest and the longest pause of an idle timer, in nanoseconds.
const PAUSES: (u64, u64) = (1_000_000, 1_000_000_000);
/// When a task is offered again for which the system had no thread.
const AGAIN: u64 = 10_000_000;

/// The timer of an isolation and its commands. When the last handle is gone the thread ends.
#[derive(Clone)]
pub(crate) struct Alarms {
    shared: Arc<Shared>,
    /// What handles share, and the thread does not.
    _life: Arc<Life>,
}

/// Closes the timer when it is dropped.
struct Life(Arc<Shared>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Shared {
    id: u64,
    clock: FastClock,
    parker: Parker,
    /// When the thread wakes by itself.
    next_wake: AtomicU64,
    /// The shortest timeout that any command has.
    shortest: AtomicU64,
    started: AtomicBool,
    closed: AtomicBool,
    flights: Mutex<Vec<Arc<Flight>>>,
    /// Idle flights that no thread keeps.
    spare: Mutex<Vec<Arc<Flight>>>,
    tasks: Mutex<Tasks>,
    /// Where user code of each command runs, by number.
    asides: Mutex<HashMap<u64, Arc<Aside>>>,
    next_aside: AtomicU64,
    /// What the system had no thread for.
    starved: Mutex<Vec<(Arc<Aside>, Task)>>,
    /// Starts the timer's thread.
    threads: ThreadBuilder,
    unhandled: OnUnhandled,
}

#[derive(Default)]
struct Tasks {
    next: u64,
    /// By time, then by number.
    due: BTreeMap<(u64, u64), Due>,
}

/// What happens at a time.
enum Due {
    /// Something short of this crate.
    Here(Task),
    /// User code of a command.
    Aside(Arc<Aside>, Task),
}

/// A task that was set to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlarmId {
    at: u64,
    number: u64,
}

thread_local! {
    /// Idle flights by the timer that watches them.
    static IDLE: RefCell<Vec<(u64, Arc<Flight>)>> = const { RefCell::new(Vec::new()) };
}

impl Alarms {
    pub(crate) fn new(clock: &Clock, unhandled: &OnUnhandled) -> Self {
        Self::with_threads(clock, unhandled, ThreadBuilder::new("tidegate-timer"))
    }

    fn with_threads(clock: &Clock, unhandled: &OnUnhandled, threads: ThreadBuilder) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let shared = Arc::new(Shared {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            clock: FastClock::new(clock),
            parker: Parker::new(),
            next_wake: AtomicU64::new(u64::MAX),
            shortest: AtomicU64::new(PAUSES.1),
            started: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            flights: Mutex::default(),
            spare: Mutex::default(),
            tasks: Mutex::default(),
            asides: Mutex::default(),
            next_aside: AtomicU64::new(0),
            starved: Mutex::default(),
            threads: threads.join_policy(JoinPolicy::Detached),
            unhandled: unhandled.clone(),
        });
        Self {
            _life: Arc::new(Life(Arc::clone(&shared))),
            shared,
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &FastClock {
        &self.shared.clock
    }

    /// Says that calls with this timeout will come: the timer may pause for so long.
    pub(crate) fn expect_timeout(&self, nanos: u64) {
        self.shared.shortest.fetch_min(nanos, Ordering::Relaxed);
    }

    /// An idle flight of this thread, or a new one.
    #[inline]
    pub(crate) fn take_flight(&self) -> Arc<Flight> {
        let id = self.shared.id;
        let kept = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            let at = idle.iter().rposition(|(of, _)| *of == id)?;
            Some(idle.swap_remove(at).1)
        });
        kept.ok().flatten().unwrap_or_else(|| self.fetch_flights())
    }

    /// Keeps a flight for the next call, if nobody else knows it. Called on the thread of the call
    /// that it served.
    #[inline]
    pub(crate) fn keep_flight(&self, flight: Arc<Flight>) {
        if flight.is_reusable() {
            let id = self.shared.id;
            let _ = IDLE.try_with(|idle| {
                let mut idle = idle.borrow_mut();
                idle.push((id, flight));
                if idle.len() > KEPT {
                    self.give_flights(&mut idle);
                }
            });
        } else {
            flight.retire();
        }
    }

    /// Begins a call on `flight` that must end by `deadline`; `whose` is the number of its
    /// command.
    #[inline]
    pub(crate) fn arm(&self, flight: &Flight, deadline: u64, whose: u64, interrupts: bool) {
        flight.prepare(self.shared.clock.clock(), deadline, whose, interrupts);
        flight.word().begin();
        self.watch(deadline);
    }

    /// Sees to it that a call which has begun is looked at when its time is over.
    #[inline]
    pub(crate) fn watch(&self, deadline: u64) {
        // The flight was published before this look, and the timer says when it wakes before its
        // last look at the flights: one of the two sees the other.
        if deadline < self.shared.next_wake.load(Ordering::Relaxed) {
            self.shared.wake(deadline);
        }
    }

    /// Runs `task`, which is short and no user code, at `at` on the timer's thread.
    pub(crate) fn call_at(&self, at: u64, task: Task) -> AlarmId {
        self.set(at, Due::Here(task))
    }

    /// Runs `task` at `at` on the threads of a command. When the timer ends before, it is dropped
    /// there.
    pub(crate) fn run_at(&self, at: u64, aside: &Arc<Aside>, task: Task) -> AlarmId {
        self.set(at, Due::Aside(Arc::clone(aside), task))
    }

    fn set(&self, at: u64, due: Due) -> AlarmId {
        let mut tasks = self.tasks();
        let number = tasks.next;
        tasks.next += 1;
        if self.is_closed() {
            // Nobody would ever call it.
            drop(tasks);
            drop(due);
            return AlarmId { at, number };
        }
        tasks.due.insert((at, number), due);
        drop(tasks);
        fence(Ordering::SeqCst);
        if at < self.shared.next_wake.load(Ordering::SeqCst) {
            self.shared.wake(at);
        }
        AlarmId { at, number }
    }

    /// Takes a task back; false when it ran or runs.
    pub(crate) fn cancel(&self, id: AlarmId) -> bool {
        let task = self.tasks().due.remove(&(id.at, id.number));
        task.is_some()
    }

    /// Calls that run now and have a timeout.
    pub(crate) fn in_flight(&self) -> usize {
        let flights = self.flights();
        flights.iter().filter(|flight| flight.is_running()).count()
    }

    /// Tells every running call to stop.
    pub(crate) fn expire_all(&self) {
        let flights = self.flights().clone();
        for flight in &flights {
            flight.expire_now(&self.shared);
        }
        self.shared.see_to_starved();
    }

    /// Threads of a command's own, for user code that the timer finds due.
    pub(crate) fn aside(&self, key: &Key) -> AsideHandle {
        let id = self.shared.next_aside.fetch_add(1, Ordering::Relaxed);
        let threads = ThreadBuilder::new(format!("tidegate-aside-{key}"));
        self.add_aside(Aside::new(id, key, threads, &self.shared))
    }

    fn add_aside(&self, aside: Aside) -> AsideHandle {
        let aside = Arc::new(aside);
        let known = Arc::clone(&aside);
        self.shared.asides().insert(aside.id, known);
        AsideHandle {
            alarms: self.clone(),
            aside,
        }
    }

    /// Runs a task on the threads of a command: from a thread that must not run it itself.
    pub(crate) fn run_aside(&self, aside: &Arc<Aside>, task: Task) {
        self.shared.run_aside(aside, task);
        self.shared.see_to_starved();
    }

    fn forget_aside(&self, id: u64) {
        let aside = self.shared.asides().remove(&id);
        drop(aside);
    }

    /// Whether nothing is called at its time any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::SeqCst)
    }

    /// Ends the thread. With `expire`, every running call is told to stop.
    pub(crate) fn close(&self, expire: bool) {
        self.shared.close();
        if expire {
            self.expire_all();
        }
    }

    /// Takes idle flights from those that no thread keeps, some for later, or makes one.
    #[cold]
    fn fetch_flights(&self) -> Arc<Flight> {
        let mut spare = self.spare();
        let Some(flight) = spare.pop() else {
            drop(spare);
            return self.new_flight();
        };
        let id = self.shared.id;
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            let room = (KEPT / 2).saturating_sub(idle.len()).min(spare.len());
            let from = spare.len() - room;
            idle.extend(spare.drain(from..).map(|flight| (id, flight)));
        });
        flight
    }

    /// Gives the older half of what a thread keeps to everybody.
    #[cold]
    fn give_flights(&self, idle: &mut Vec<(u64, Arc<Flight>)>) {
        let mut given: Vec<_> = idle.drain(..KEPT / 2).collect();
        given.retain(|(id, _)| *id == self.shared.id);
        let mut spare = self.spare();
        let room = SPARE.saturating_sub(spare.len());
        spare.extend(given.drain(..).take(room).map(|(_, flight)| flight));
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Arc<Flight>>> {
        let spare = self.shared.spare.lock();
        spare.unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn new_flight(&self) -> Arc<Flight> {
        let flight = Arc::new(Flight::default());
        let mut flights = self.flights();
        let mut gone = Vec::new();
        if flights.len() == flights.capacity() {
            // Nobody but this list knows the ones that were let go of.
            let is_gone = |flight: &mut Arc<Flight>| Arc::strong_count(flight) == 1;
            gone.extend(flights.extract_if(.., is_gone));
        }
        flights.push(Arc::clone(&flight));
        drop(flights);
        // Hooks that found no room are left in their tokens; their `Drop` is user code.
        for flight in gone.into_iter().filter(|one| one.token().has_hooks()) {
            if let Some(aside) = self.shared.aside_of(flight.whose()) {
                let drop_hooks = Task::new(move || flight.token().drop_hooks());
                self.run_aside(&aside, drop_hooks);
            }
        }
        flight
    }

    fn flights(&self) -> MutexGuard<'_, Vec<Arc<Flight>>> {
        let flights = self.shared.flights.lock();
        flights.unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        let tasks = self.shared.tasks.lock();
        tasks.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Wakes the timer's thread, or starts it. A timer that is closed needs one only for what is
    /// starved.
    #[cold]
    fn wake(self: &Arc<Self>, deadline: u64) {
        if self.closed.load(Ordering::SeqCst) && self.starved().is_empty() {
            return;
        }
        // One waker is enough: the thread looks at everything.
        self.next_wake.fetch_min(deadline, Ordering::SeqCst);
        if self.started.swap(true, Ordering::SeqCst) {
            self.parker.unpark();
            return;
        }
        let shared = Arc::clone(self);
        let mut member = shared.clock.clock().join();
        let spawned = self.threads.spawn(move || {
            member.enter();
            shared.run();
            // Left before the thread is gone, so that nobody waits for it.
            drop(member);
        });
        if spawned.is_err() {
            // The next call tries again, whenever it is due.
            self.next_wake.store(u64::MAX, Ordering::SeqCst);
            self.started.store(false, Ordering::SeqCst);
            self.run_starved_here();
        }
    }

    /// Sees to it that what is starved is offered again.
    fn see_to_starved(self: &Arc<Self>) {
        if !self.starved().is_empty() {
            self.wake(self.clock.nanos().saturating_add(AGAIN));
        }
    }

    /// Runs what is starved on this thread: only if the timer is closed and has no thread either,
    /// so that nothing would ever offer it again.
    fn run_starved_here(&self) {
        if !self.closed.load(Ordering::SeqCst) {
            return;
        }
        let starved = std::mem::take(&mut *self.starved());
        for (_, task) in starved {
            self.run_contained(task);
        }
    }

    fn run_contained(&self, task: Task) {
        let name = task.name();
        if let Err(panic) = contain(|| task.run()) {
            let (task, message) = (name, panic.message());
            self.unhandled
                .tell("isolation", &Unhandled::TaskPanic { task, message });
        }
    }

    fn close(self: &Arc<Self>) {
        self.closed.store(true, Ordering::SeqCst);
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .due
            .split_off(&(0, 0));
        for due in tasks.into_values() {
            if let Due::Aside(aside, task) = due {
                self.run_aside(&aside, Task::new(move || drop(task)));
            }
        }
        self.see_to_starved();
        self.parker.unpark();
    }

    /// Runs a task on the threads of a command; later, if the system has no thread now.
    fn run_aside(&self, aside: &Arc<Aside>, task: Task) {
        if let Err(task) = aside.offer(task) {
            let starved = (Arc::clone(aside), task);
            self.starved().push(starved);
        }
    }

    /// Where user code of the command with this number runs.
    fn aside_of(&self, id: u64) -> Option<Arc<Aside>> {
        self.asides().get(&id).cloned()
    }

    fn asides(&self) -> MutexGuard<'_, HashMap<u64, Arc<Aside>>> {
        self.asides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn starved(&self) -> MutexGuard<'_, Vec<(Arc<Aside>, Task)>> {
        self.starved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: &Arc<Self>) {
        loop {
            self.run_until_closed();
            // Either this thread sees what was starved meanwhile, or its bringer sees that the
            // thread has gone and starts another.
            self.started.store(false, Ordering::SeqCst);
            if self.starved().is_empty() || self.started.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Looks after calls and tasks until the timer is closed and nothing is starved.
    fn run_until_closed(&self) {
        let clock = self.clock.clock().clone();
        let mut seen = u64::MAX;
        while !self.closed.load(Ordering::SeqCst) || !self.starved().is_empty() {
            let now = clock.nanos();
            let (first, calls) = self.look(now);
            let active = calls != seen;
            seen = calls;
            let mut wake = first;
            if first == u64::MAX && active && !clock.is_manual() {
                // Calls are being made: the next ones need no wakeup to be seen in time.
                let shortest = self.shortest.load(Ordering::Relaxed);
                wake = now.saturating_add(shortest.clamp(PAUSES.0, PAUSES.1));
            }
            self.next_wake.store(wake, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // The look that the callers' order with `next_wake` is about.
            let (again, _) = self.look(clock.nanos());
            if again < wake {
                self.next_wake.store(again, Ordering::SeqCst);
                wake = again;
            }
            let until = (wake != u64::MAX).then_some(wake);
            clock.park_until(&self.parker, until);
        }
    }

    /// Expires what is due; returns the next deadline and how many calls there have been.
    fn look(&self, now: u64) -> (u64, u64) {
        let flights: Vec<_> = {
            let flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            flights.clone()
        };
        let (mut next, mut calls) = (u64::MAX, 0_u64);
        for flight in &flights {
            next = next.min(flight.expire_if_due(now, self));
            calls = calls.wrapping_add(flight.calls());
        }
        drop(flights);
        loop {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = tasks.due.first_entry() else {
                break;
            };
            let at = entry.key().0;
            if at > now {
                next = next.min(at);
                break;
            }
            let due = entry.remove();
            drop(tasks);
            match due {
                Due::Here(task) => self.run_contained(task),
                Due::Aside(aside, task) => self.run_aside(&aside, task),
            }
        }
        (next.min(self.offer_again(now)), calls)
    }

    /// Offers what was starved again; returns when it is worth another look.
    fn offer_again(&self, now: u64) -> u64 {
        let starved = std::mem::take(&mut *self.starved());
        for (aside, task) in starved {
            self.run_aside(&aside, task);
        }
        match self.starved().is_empty() {
            true => u64::MAX,
            false => now.saturating_add(AGAIN),
        }
    }
}

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarms")
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
