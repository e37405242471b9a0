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
//! * Nothing of the user's runs under a lock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_exec::WorkerPool;
use tidegate_sync::{Clock, FastClock, JoinPolicy, Parker, Task, ThreadBuilder, contain};

mod flight;
mod pause;

pub(crate) use self::flight::Flight;
pub(crate) use self::pause::Pause;

/// Flights that a thread keeps for its next calls, at most. Calls may be nested, and those that a
/// worker has ended began on another thread: what is above half goes back in one step.
const KEPT: usize = 32;
/// Flights that are kept for all threads, at most.
const SPARE: usize = 1024;
/// The shortest and the longest pause of an idle timer, in nanoseconds.
const PAUSES: (u64, u64) = (1_000_000, 1_000_000_000);
/// Threads and places for what runs beside the timer.
const ASIDE: usize = 4;
const ASIDE_QUEUE: usize = 1024;

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
    aside: OnceLock<WorkerPool>,
}

#[derive(Default)]
struct Tasks {
    next: u64,
    /// By time, then by number.
    due: BTreeMap<(u64, u64), Task>,
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
    pub(crate) fn new(clock: &Clock) -> Self {
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
            aside: OnceLock::new(),
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

    /// Keeps a flight for the next call, if nobody else knows it.
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
        }
    }

    /// Begins a call on `flight` that must end by `deadline`.
    #[inline]
    pub(crate) fn arm(&self, flight: &Flight, deadline: u64, interrupts: bool) {
        flight.prepare(self.shared.clock.clock(), deadline, interrupts);
        flight.word().begin();
        self.watch(deadline);
    }

    /// Sees to it that a call which has begun is looked at when its time is over.
    #[inline]
    pub(crate) fn watch(&self, deadline: u64) {
        // The flight was published before this look, and the timer says when it wakes before its
        // last look at the flights: one of the two sees the other.
        if deadline < self.shared.next_wake.load(Ordering::Relaxed) {
            self.wake(deadline);
        }
    }

    /// Runs `task` at `at`, on the timer's thread; it should be short.
    pub(crate) fn call_at(&self, at: u64, task: Task) -> AlarmId {
        let mut tasks = self.tasks();
        let number = tasks.next;
        tasks.next += 1;
        if self.is_closed() {
            // Nobody would ever call it.
            drop(tasks);
            drop(task);
            return AlarmId { at, number };
        }
        tasks.due.insert((at, number), task);
        drop(tasks);
        fence(Ordering::SeqCst);
        if at < self.shared.next_wake.load(Ordering::SeqCst) {
            self.wake(at);
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
        flights.iter().for_each(|flight| flight.expire_now());
    }

    /// Runs `task` on a thread beside the timer's: for code of a user's that nobody else can
    /// run. The threads end when they are idle.
    pub(crate) fn run_aside(&self, task: Task) -> Result<(), Task> {
        let pool = self.shared.aside.get_or_init(|| {
            let pool = WorkerPool::builder("tidegate-aside")
                .core(0)
                .max(ASIDE)
                .queue(ASIDE_QUEUE);
            let clock = self.shared.clock.clock();
            pool.clock(clock)
                .build()
                .expect("the limits agree with each other")
        });
        pool.execute_task(task)
            .map_err(|refused| refused.into_inner())
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
        if flights.len() == flights.capacity() {
            // Nobody but this list knows the ones that were let go of.
            flights.retain(|flight| Arc::strong_count(flight) > 1);
        }
        flights.push(Arc::clone(&flight));
        flight
    }

    #[cold]
    fn wake(&self, deadline: u64) {
        if self.shared.closed.load(Ordering::Relaxed) {
            return;
        }
        // One waker is enough: the thread looks at everything.
        self.shared.next_wake.fetch_min(deadline, Ordering::SeqCst);
        if self.shared.started.swap(true, Ordering::Relaxed) {
            self.shared.parker.unpark();
            return;
        }
        let shared = Arc::clone(&self.shared);
        let mut member = shared.clock.clock().join();
        let spawned = ThreadBuilder::new("tidegate-timer")
            .join_policy(JoinPolicy::Detached)
            .spawn(move || {
                member.enter();
                shared.run();
                // Left before the thread is gone, so that nobody waits for it.
                drop(member);
            });
        if spawned.is_err() {
            self.shared.started.store(false, Ordering::Relaxed);
        }
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
    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .due
            .split_off(&(0, 0));
        drop(tasks);
        self.parker.unpark();
    }

    fn run(&self) {
        let clock = self.clock.clock().clone();
        let mut seen = u64::MAX;
        while !self.closed.load(Ordering::SeqCst) {
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

    /// Expires what is due; answers the next deadline and how many calls there have been.
    fn look(&self, now: u64) -> (u64, u64) {
        let flights: Vec<_> = {
            let flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            flights.clone()
        };
        let (mut next, mut calls) = (u64::MAX, 0_u64);
        for flight in &flights {
            next = next.min(flight.expire_if_due(now));
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
            let task = entry.remove();
            drop(tasks);
            let _ = contain(|| task.run());
        }
        (next, calls)
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
mod tests {
    //! Calls expire at their time and not before, and flights serve again.

    use super::*;
    use std::time::Duration;
    use tidegate_sync::ManualClock;

    const MS: u64 = 1_000_000;

    fn timer() -> (ManualClock, Alarms) {
        let manual = ManualClock::new();
        let alarms = Alarms::new(&Clock::from(&manual));
        (manual, alarms)
    }

    #[test]
    fn a_call_expires_at_its_deadline_and_its_token_is_tripped() {
        let (manual, alarms) = timer();
        let flight = alarms.take_flight();
        alarms.arm(&flight, 10 * MS, true);
        manual.advance(Duration::from_millis(9));
        assert!(!flight.is_expired() && !flight.token().is_cancelled());
        manual.advance(Duration::from_millis(1));
        assert!(flight.is_expired() && flight.token().is_cancelled());
        assert!(!flight.finish());
        alarms.close(false);
    }

    #[test]
    fn an_earlier_deadline_wakes_the_timer() {
        let (manual, alarms) = timer();
        let (late, early) = (alarms.take_flight(), alarms.take_flight());
        alarms.arm(&late, 50 * MS, true);
        manual.settle();
        alarms.arm(&early, 10 * MS, false);
        manual.advance(Duration::from_millis(10));
        assert!(early.is_expired() && !late.is_expired());
        assert!(
            !early.token().is_cancelled(),
            "it was not to be interrupted"
        );
        assert!(late.finish());
        alarms.close(false);
    }

    #[test]
    fn a_flight_serves_again_unless_its_token_was_kept() {
        let (_manual, alarms) = timer();
        let flight = alarms.take_flight();
        let first = Arc::as_ptr(&flight);
        alarms.arm(&flight, u64::MAX, true);
        assert!(flight.finish());
        alarms.keep_flight(flight);
        let flight = alarms.take_flight();
        assert_eq!(Arc::as_ptr(&flight), first);
        alarms.arm(&flight, u64::MAX, true);
        let kept = flight.token().clone();
        assert!(flight.finish());
        alarms.keep_flight(flight);
        assert_ne!(Arc::as_ptr(&alarms.take_flight()), first);
        drop(kept);
    }

    #[test]
    fn tasks_run_in_order_at_their_time_and_can_be_taken_back() {
        let (manual, alarms) = timer();
        let log = Arc::new(Mutex::new(Vec::new()));
        let note = |n: u32| {
            let log = Arc::clone(&log);
            Task::new(move || log.lock().unwrap().push(n))
        };
        alarms.call_at(20 * MS, note(2));
        alarms.call_at(10 * MS, note(1));
        let third = alarms.call_at(30 * MS, note(3));
        alarms.call_at(15 * MS, Task::new(|| panic!("on purpose")));
        manual.advance(Duration::from_millis(20));
        assert_eq!(*log.lock().unwrap(), [1, 2]);
        assert!(alarms.cancel(third) && !alarms.cancel(third));
        manual.advance(Duration::from_millis(20));
        assert_eq!(*log.lock().unwrap(), [1, 2]);
        alarms.close(false);
    }

    #[test]
    fn the_end_of_the_work_and_of_its_time_exclude_each_other() {
        let clock = Clock::system();
        for _ in 0..2_000 {
            let flight = Flight::default();
            flight.prepare(&clock, 0, true);
            flight.word().begin();
            let finished = std::thread::scope(|scope| {
                let timer = scope.spawn(|| flight.expire_if_due(1));
                let finished = flight.finish();
                timer.join().expect("it does not panic");
                finished
            });
            assert_ne!(finished, flight.is_expired());
            assert_eq!(flight.token().is_cancelled(), !finished);
        }
    }

    #[test]
    fn closing_tells_running_calls_to_stop() {
        let (_manual, alarms) = timer();
        let flight = alarms.take_flight();
        alarms.arm(&flight, u64::MAX - 1, false);
        assert_eq!(alarms.in_flight(), 1);
        alarms.close(true);
        assert!(flight.is_expired() && flight.token().is_cancelled());
    }
}
