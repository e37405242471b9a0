//! The thread of a timer: it expires calls that are due, runs tasks at their time, and sleeps until
//! the next deadline.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::{FastClock, PlainTask, contain, trace};
use tidegate_core::{CancelToken, Clock, OnUnhandled, Parker, Task, ThreadBuilder, Unhandled};

use super::aside::{CallbackThreads, StarvedTasks};
use super::tasks::{Due, Tasks};
use crate::in_flight::{CallbackRunner, EntryTimeouts, Flight};
use crate::key::Key;
use crate::lock::lock;

/// The shortest and the longest sleep of a timer that has nothing due, in nanoseconds.
const PAUSES: (u64, u64) = (1_000_000, 1_000_000_000);
/// The delay before a starved task, one that the system had no thread for, is offered again.
const STARVED_RETRY_NANOS: u64 = 10_000_000;

pub(super) struct Shared {
    pub(super) id: u64,
    pub(super) clock: FastClock,
    parker: Parker,
    /// The time at which the thread wakes by itself.
    pub(super) next_wake: AtomicU64,
    /// The shortest timeout of any command.
    pub(super) shortest: AtomicU64,
    started: AtomicBool,
    pub(super) closed: AtomicBool,
    flights: Mutex<Vec<Arc<Flight>>>,
    /// Idle call slots that no thread keeps.
    pub(super) spare: Mutex<Vec<Arc<Flight>>>,
    tasks: Mutex<Tasks>,
    /// The callback threads of each command, by number.
    asides: Mutex<HashMap<u64, Arc<CallbackThreads>>>,
    pub(super) next_aside: AtomicU64,
    starved: Arc<StarvedTasks>,
    /// Starts the timer's thread.
    threads: ThreadBuilder,
    unhandled: OnUnhandled,
}

impl Shared {
    pub(super) fn new(clock: &Clock, unhandled: &OnUnhandled, threads: ThreadBuilder) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
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
            starved: Arc::default(),
            threads: threads.detached(),
            unhandled: unhandled.clone(),
        }
    }

    /// Wakes the timer's thread, or starts it. A closed timer needs a thread only for starved
    /// tasks.
    #[cold]
    pub(super) fn wake(self: &Arc<Self>, deadline: u64) {
        // ORDERING: pairs with the store in `close`. If this load misses it, a thread wakes or
        // starts and finds the timer closed by itself.
        if self.closed.load(Ordering::SeqCst) && self.has_no_starved() {
            return;
        }
        // One wake-up is enough: the thread checks everything.
        // ORDERING: SeqCst. The minimum pairs with the stores in `run_until_closed`: after each of
        // them the thread looks again or is unparked. The swap pairs with the stores of `false`: an
        // ending thread finds the tasks that were added before, or this swap finds that there is no
        // thread.
        self.next_wake.fetch_min(deadline, Ordering::SeqCst);
        if self.started.swap(true, Ordering::SeqCst) {
            self.parker.unpark();
            return;
        }
        let shared = Arc::clone(self);
        let mut member = shared.clock.clock().join();
        let spawned = self.threads.spawn(move || {
            member.enter();
            // This thread runs no user code.
            let _muted = trace::mute();
            shared.run();
            // Leaves the clock before the thread ends, so that the clock does not wait for it.
            drop(member);
        });
        if spawned.is_err() {
            // The next call tries again, whatever its deadline.
            // ORDERING: SeqCst. `next_wake` pairs with its loads in `set` and `watch`, `started`
            // with the swap above. In `run_starved_here` a load of `closed` follows.
            self.next_wake.store(u64::MAX, Ordering::SeqCst);
            self.started.store(false, Ordering::SeqCst);
            self.run_starved_here();
        }
    }

    /// Makes sure that starved tasks are offered again.
    pub(super) fn retry_starved(self: &Arc<Self>) {
        if !self.has_no_starved() {
            self.wake(self.clock.nanos().saturating_add(STARVED_RETRY_NANOS));
        }
    }

    /// Runs starved tasks on this thread, but only if the timer is closed and has no thread either,
    /// so that nothing would ever offer them again.
    fn run_starved_here(&self) {
        // ORDERING: SeqCst pairs with the store in `close`, which is followed by the swap of
        // `started` in `wake`; here the store of `started` came before. Either that swap finds no
        // thread and starts one, or this load finds the timer closed.
        if !self.closed.load(Ordering::SeqCst) {
            return;
        }
        for (_, task) in self.take_starved() {
            self.run_contained(task);
        }
    }

    fn run_contained(&self, task: Task) {
        let name = task.name();
        if let Err(panic) = contain(|| task.run()) {
            let (task, message) = (name, panic.message());
            self.unhandled
                .report("isolation", &Unhandled::TaskPanic { task, message });
        }
    }

    pub(super) fn close(self: &Arc<Self>) {
        // ORDERING: SeqCst pairs with the load in `run_starved_here`; see there. `set` is ordered
        // with it by the lock of the tasks, and the thread by the unpark below.
        self.closed.store(true, Ordering::SeqCst);
        let tasks = self.tasks().drain();
        for due in tasks {
            if let Due::CallbackThreads(aside, task) = due.value {
                aside.run(PlainTask::new(move || drop(task)));
            }
        }
        self.retry_starved();
        self.parker.unpark();
    }

    /// Returns the callback threads of the command with this number.
    pub(super) fn aside_of(&self, id: u64) -> Option<Arc<CallbackThreads>> {
        self.asides().get(&id).cloned()
    }

    pub(super) fn asides(&self) -> MutexGuard<'_, HashMap<u64, Arc<CallbackThreads>>> {
        lock(&self.asides)
    }

    pub(super) fn flights(&self) -> MutexGuard<'_, Vec<Arc<Flight>>> {
        lock(&self.flights)
    }

    pub(super) fn tasks(&self) -> MutexGuard<'_, Tasks> {
        lock(&self.tasks)
    }

    /// Creates the callback threads of a command; the timer does not know them yet.
    pub(super) fn new_aside(&self, id: u64, key: &Key, threads: ThreadBuilder) -> CallbackThreads {
        let hooks = (self.clock.clock(), &self.unhandled);
        CallbackThreads::new(id, key, threads, hooks, &self.starved)
    }

    fn run(self: &Arc<Self>) {
        loop {
            self.run_until_closed();
            // Either this thread sees the tasks that were starved in the meantime, or the thread
            // that added them sees that this thread has ended and starts another.
            // ORDERING: SeqCst pairs with the swap in `wake`. The starved tasks have a lock: a
            // thread that adds one after this check takes the lock later, and so finds `false`.
            self.started.store(false, Ordering::SeqCst);
            if self.has_no_starved() || self.started.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Handles calls and tasks until the timer is closed and no task is starved.
    fn run_until_closed(&self) {
        let clock = self.clock.clock().clone();
        let mut seen = u64::MAX;
        // ORDERING: pairs with the store in `close`, which is followed by an unpark: a thread that
        // misses it does not sleep.
        while !self.closed.load(Ordering::SeqCst) || !self.has_no_starved() {
            let now = clock.nanos();
            let (first, calls) = self.look(now);
            let active = calls != seen;
            seen = calls;
            let mut wake = first;
            if first == u64::MAX && active && !clock.is_manual() {
                // Calls are being made: the next ones are noticed in time without waking this
                // thread.
                let shortest = self.shortest.load(Ordering::Relaxed);
                wake = now.saturating_add(shortest.clamp(PAUSES.0, PAUSES.1));
            }
            // ORDERING: SeqCst fence pairs with the one in `CallTimer::set`, and with the one of
            // `CallWord::begin` for call slots: a caller reads this thread's wake-up time, or the
            // look below finds the caller's task or call.
            self.next_wake.store(wake, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // The last look, which the fences order with the callers' loads of `next_wake`.
            let (again, _) = self.look(clock.nanos());
            if again < wake {
                self.next_wake.store(again, Ordering::SeqCst);
                wake = again;
            }
            let until = (wake != u64::MAX).then_some(wake);
            clock.park_until(&self.parker, until);
        }
    }

    /// Expires all calls and runs all tasks that are due; returns the next deadline and the number
    /// of calls made so far.
    fn look(&self, now: u64) -> (u64, u64) {
        let (mut next, mut calls) = (u64::MAX, 0_u64);
        let mut due = Vec::new();
        for flight in &*self.flights() {
            match flight.next_deadline() {
                at if at <= now => due.push(Arc::clone(flight)),
                at => next = next.min(at),
            }
            calls = calls.wrapping_add(flight.calls());
        }
        for flight in due {
            next = next.min(flight.expire_if_due(now, self));
        }
        loop {
            let mut tasks = self.tasks();
            let Some(due) = tasks.pop_due(now) else {
                next = next.min(tasks.next_deadline().unwrap_or(u64::MAX));
                break;
            };
            drop(tasks);
            match due.value {
                Due::Here(task) => self.run_contained(task),
                Due::CallbackThreads(aside, task) => aside.run(task),
            }
        }
        (next.min(self.offer_again(now)), calls)
    }

    fn has_no_starved(&self) -> bool {
        lock(&self.starved).is_empty()
    }

    fn take_starved(&self) -> Vec<(Arc<CallbackThreads>, Task)> {
        std::mem::take(&mut *lock(&self.starved))
    }

    /// Offers the starved tasks again; returns the time of the next attempt, if one is needed.
    fn offer_again(&self, now: u64) -> u64 {
        for (aside, task) in self.take_starved() {
            aside.run(task);
        }
        match self.has_no_starved() {
            true => u64::MAX,
            false => now.saturating_add(STARVED_RETRY_NANOS),
        }
    }
}

/// Runs callbacks on the callback threads of the commands.
impl CallbackRunner for Shared {
    fn run(&self, command_id: u64, task: Task) {
        match self.aside_of(command_id) {
            Some(aside) => aside.run(task),
            // Unreachable: a command lives as long as its futures.
            None => task.run(),
        }
    }

    fn run_hooks(&self, command_id: u64, token: &CancelToken) {
        if let Some(aside) = self.aside_of(command_id)
            && let Some(call) = aside.hooks_of(token)
        {
            aside.run(call);
        }
    }

    fn entries_of(&self, command_id: u64) -> Option<Arc<dyn EntryTimeouts>> {
        self.aside_of(command_id)?.command()
    }
}
