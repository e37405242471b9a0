//! The calls of a pool that wait in a queue of the program.
//!
//! The line keeps the calls. The program's queue gets copies and only decides the order, so it can
//! lose nothing. The worker pool gets a *ticket* for each call: a job that, on a thread of the pool,
//! asks the queue which call to run. Tickets are all alike: a ticket runs the call that the queue
//! chooses, not the one that it was made for. The worker pool therefore decides as always when a
//! thread starts and how many may wait.
//!
//! # Invariants
//!
//! * There is a ticket for each call: when no thread is inside, there are as many tickets as calls,
//!   and there are never fewer. A call and its ticket go under one lock, or the call goes first.
//! * While a thread asks the queue, there may be a ticket more, so that no call relies on that thread
//!   alone. It takes no place away: a call that the worker pool refuses uses it.
//! * The queue is user code. One thread of the pool at a time takes it out of its seat and calls it
//!   with no lock held. If it does not come back in time, the other threads go on without it.
//! * A queue that broke its contract is never called again; the calls then run in the order of
//!   their arrival.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tidegate_core::internal::{PlainTask, as_nanos, contain, discard};
use tidegate_core::{Clock, OnUnhandled, Parker, RejectReason, Rejected, Task, Unhandled};
use tidegate_pool::WorkerPool;
use tidegate_pool::queue::{Job, JobKey};

use super::call_queue::{CallQueue, WaitingCall};
use super::tickets::Tickets;
use crate::bulkhead::partition::Criticality;
use crate::key::Key;

/// How long a method of the program's queue may take.
const LONGEST: Duration = Duration::from_secs(1);

/// The calls of one pool that wait in a queue of the program.
pub(super) struct CallLine {
    pool: Key,
    clock: Clock,
    unhandled: OnUnhandled,
    waiting: Mutex<Waiting>,
    seat: Mutex<Seat>,
    /// Why the queue is not used any more.
    broken: OnceLock<String>,
    /// For tickets that leave, and for one in place of one whose thread does not come back.
    threads: OnceLock<Weak<WorkerPool>>,
}

/// The calls and tickets. No user code runs under its lock.
#[derive(Default)]
struct Waiting {
    next: u64,
    /// In the order of their numbers, which is that of their arrival.
    calls: VecDeque<(WaitingCall, Job)>,
    tickets: Tickets,
    /// What the queue has not been told yet, in order.
    news: Vec<News>,
}

enum News {
    Arrived(WaitingCall),
    Left(WaitingCall),
}

/// The place of the program's queue. It is empty while a thread calls the queue.
struct Seat {
    queue: Option<OwnedQueue>,
    /// When the queue was taken out, and for which ticket.
    since: u64,
    holder: u64,
    waiters: Vec<Parker>,
}

struct OwnedQueue {
    queue: Box<dyn CallQueue>,
    /// The number of calls that the queue has.
    len: usize,
}

/// Why a queue is not used any more.
struct Broken(String);

impl CallLine {
    pub(super) fn new(
        pool: &Key,
        queue: Box<dyn CallQueue>,
        (clock, unhandled): (&Clock, &OnUnhandled),
    ) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.clone(),
            clock: clock.clone(),
            unhandled: unhandled.clone(),
            waiting: Mutex::default(),
            seat: Mutex::new(Seat {
                queue: Some(OwnedQueue { queue, len: 0 }),
                since: 0,
                holder: 0,
                waiters: Vec::new(),
            }),
            broken: OnceLock::new(),
            threads: OnceLock::new(),
        })
    }

    /// Sets the worker pool that runs the tickets, once.
    pub(super) fn run_on(&self, threads: &Arc<WorkerPool>) {
        let _ = self.threads.set(Arc::downgrade(threads));
    }

    /// Adds a call and gives a ticket for it to the worker pool. Returns the key of the call. If the
    /// pool is full, the call takes the place of a less critical one, if there is one.
    pub(super) fn submit(
        self: &Arc<Self>,
        pool: &WorkerPool,
        job: Job,
        (command, criticality): (&Key, Criticality),
    ) -> Result<JobKey, Rejected<Job>> {
        let now = self.clock.nanos();
        self.note_blocked(now);
        let mut waiting = self.waiting();
        let id = waiting.next;
        waiting.next += 1;
        let call = WaitingCall {
            id,
            command: command.clone(),
            criticality,
            since_nanos: now,
        };
        waiting.news.push(News::Arrived(call.clone()));
        waiting.calls.push_back((call, job));
        waiting.tickets.add(id);
        drop(waiting);
        let ticket = Ticket(Some((Arc::clone(self), id)));
        match pool.place(PlainTask::named("a call from a queue", move || {
            ticket.run()
        })) {
            Ok(key) => {
                if let Some(key) = key {
                    self.waiting().tickets.set_key(id, key);
                    // The call may have left before the key was known.
                    self.take_surplus_back(pool);
                }
                Ok(JobKey(id))
            }
            Err(refused) => self.refused(pool, id, criticality, refused),
        }
    }

    /// Takes tickets out of the worker pool until there are no more of them than calls, without that of
    /// a thread that asks the queue.
    fn take_surplus_back(&self, pool: &WorkerPool) {
        loop {
            let mut waiting = self.waiting();
            if !waiting.has_surplus() {
                return;
            }
            let Some((ticket, key)) = waiting.tickets.let_one_leave() else {
                return;
            };
            drop(waiting);
            match pool.take_back(key) {
                Some(ticket) => drop(ticket),
                None => self.waiting().tickets.stays(ticket),
            }
        }
    }

    /// Ends the submission of a call whose ticket was refused.
    fn refused(
        self: &Arc<Self>,
        pool: &WorkerPool,
        id: u64,
        criticality: Criticality,
        refused: Rejected<Job>,
    ) -> Result<JobKey, Rejected<Job>> {
        let why = refused.why();
        let mut waiting = self.waiting();
        if waiting.position(id).is_none() {
            // Another ticket has run this call, and this one is for a call that waits; or it left.
            if waiting.has_surplus() {
                waiting.tickets.remove(id);
                drop(waiting);
                return Ok(JobKey(id));
            }
            drop(waiting);
            let task = refused.into_inner().into_task();
            // If the pool has ended, the drop of the ticket ends such a call.
            drop(pool.execute_internal(task));
            return Ok(JobKey(id));
        }
        if why == RejectReason::Full && waiting.tickets.len() > waiting.calls.len() {
            // The ticket of a call that has left is still there.
            waiting.tickets.remove(id);
            drop(waiting);
            return Ok(JobKey(id));
        }
        let less = |(call, _): &&(WaitingCall, Job)| call.criticality < criticality;
        let lesser = waiting.calls.iter().filter(less);
        let least = lesser.min_by_key(|(call, _)| call.criticality);
        let least = least.map(|(call, _)| call.id);
        let leaves = match (why, least) {
            (RejectReason::Full, Some(least)) => least,
            _ => id,
        };
        let left = waiting.remove(leaves);
        // This ticket is the one too many: a call that is displaced leaves its own to this call.
        waiting.tickets.remove(id);
        drop(waiting);
        drop(refused);
        match left {
            Some(job) if leaves == id => Err(Rejected::new(job, why)),
            displaced => {
                drop(displaced);
                Ok(JobKey(id))
            }
        }
    }

    /// Removes a call that no longer waits, and frees its place.
    pub(super) fn take_back(&self, pool: &WorkerPool, key: JobKey) -> Option<Task> {
        let mut waiting = self.waiting();
        let job = waiting.remove(key.0)?;
        drop(waiting);
        // Any ticket will do.
        self.take_surplus_back(pool);
        Some(job.into_task())
    }

    /// Returns why the queue is not used any more.
    pub(super) fn broken(&self) -> Option<&String> {
        self.broken.get()
    }

    /// Gives up a queue that has been called for too long. Called when a call is submitted or expires, so a
    /// call that waits alone for such a queue, without a timeout, is found by the next call.
    pub(super) fn note_blocked(self: &Arc<Self>, now: u64) {
        let seat = self.seat();
        let is_out = seat.queue.is_none() && self.broken.get().is_none();
        let until = seat.since.saturating_add(as_nanos(LONGEST));
        let holder = seat.holder;
        drop(seat);
        if is_out && now >= until {
            self.leave_behind(holder);
        }
    }

    /// Gives up a queue that does not return. The thread that calls it keeps no ticket: another
    /// thread may run the call.
    fn leave_behind(self: &Arc<Self>, holder: u64) {
        let reason = format!("a method of it has not returned for {LONGEST:?}");
        if !self.give_up(Broken(reason)) {
            return;
        }
        let mut waiting = self.waiting();
        waiting.tickets.remove(holder);
        let is_missing = waiting.tickets.len() < waiting.calls.len();
        let id = waiting.next;
        if is_missing {
            waiting.next += 1;
            waiting.tickets.add(id);
        }
        drop(waiting);
        if let (true, Some(threads)) = (is_missing, self.worker_pool()) {
            let ticket = Ticket(Some((Arc::clone(self), id)));
            let task = PlainTask::named("a call from a queue", move || ticket.run());
            // If the pool has ended, the drop of the ticket ends the call.
            drop(threads.execute_internal(task));
        }
    }

    /// Runs the call that the queue chooses.
    fn run(self: &Arc<Self>, ticket: u64) {
        let (chosen, unused) = self.choose(ticket);
        // Before the work begins: the place of a call that runs is free.
        let has_surplus = self.waiting().has_surplus();
        if let (true, Some(threads)) = (has_surplus, self.worker_pool()) {
            self.take_surplus_back(&threads);
        }
        if let Some(job) = chosen {
            job.into_task().run();
        }
        // Last: the drop is user code, and the call must not wait for it.
        discard(unused);
    }

    /// Returns the call that the queue chooses, and the queue itself if it is not used any more.
    fn choose(self: &Arc<Self>, ticket: u64) -> (Option<Job>, Option<Box<dyn CallQueue>>) {
        let Some(mut owned) = self.take_queue(ticket) else {
            return (self.waiting().oldest(ticket), None);
        };
        match self.ask(&mut owned, ticket) {
            Ok(chosen) => match self.put_queue_back(owned) {
                Ok(()) => (chosen, None),
                Err(unused) => {
                    let chosen = chosen.or_else(|| self.waiting().oldest(ticket));
                    (chosen, Some(unused))
                }
            },
            Err(broken) => {
                self.give_up(broken);
                (self.waiting().oldest(ticket), Some(owned.queue))
            }
        }
    }

    /// Asks the queue for the next call, and checks what it returns.
    fn ask(&self, owned: &mut OwnedQueue, ticket: u64) -> Result<Option<Job>, Broken> {
        loop {
            let news = self.waiting().begin_asking(ticket);
            owned.tell(news)?;
            let popped = guarded("pop", || owned.queue.pop())?;
            // Checked before the call is claimed: `len` may not return.
            let checked = popped.as_ref().map_or(Ok(()), |_| {
                owned.len = owned.len.wrapping_sub(1);
                owned.check_len()
            });
            let mut waiting = self.waiting();
            if self.broken.get().is_some() {
                // This thread was left behind.
                return Ok(None);
            }
            let Some(call) = popped else {
                if !waiting.news.is_empty() {
                    continue;
                }
                let lost = waiting.calls.len();
                if lost > 0 && owned.len > 0 {
                    return Err(Broken(format!("it lost {} of its calls", owned.len)));
                }
                waiting.tickets.remove(ticket);
                return Ok(None);
            };
            let is_left = |news: &News| matches!(news, News::Left(left) if left.id == call.id);
            if let Some(at) = waiting.news.iter().position(is_left) {
                // It has left since, and the queue need not be told.
                waiting.news.remove(at);
                continue;
            }
            let known = waiting
                .position(call.id)
                .is_some_and(|at| waiting.calls[at].0 == call);
            let is_new = |news: &News| matches!(news, News::Arrived(new) if new.id == call.id);
            if !known || waiting.news.iter().any(is_new) {
                let reason = "it returned a call that it does not have, or returned one twice";
                return Err(Broken(reason.to_owned()));
            }
            let chosen = waiting.claim(call.id, ticket);
            drop(waiting);
            if let Err(broken) = checked {
                // The call was chosen by the rules; only the rest is given up.
                self.give_up(broken);
            }
            return Ok(chosen);
        }
    }

    /// Takes the queue out of its seat, or returns `None` if it is not used any more. Waits while
    /// another thread calls it.
    fn take_queue(self: &Arc<Self>, ticket: u64) -> Option<OwnedQueue> {
        let mut parker = None;
        loop {
            if self.broken.get().is_some() {
                return None;
            }
            let now = self.clock.nanos();
            let mut seat = self.seat();
            if let Some(owned) = seat.queue.take() {
                (seat.since, seat.holder) = (now, ticket);
                return Some(owned);
            }
            let until = seat.since.saturating_add(as_nanos(LONGEST));
            if now >= until {
                let holder = seat.holder;
                drop(seat);
                self.leave_behind(holder);
                return None;
            }
            let parker: &Parker = parker.get_or_insert_with(Parker::new);
            seat.waiters.push(parker.clone());
            drop(seat);
            self.clock.park_until(parker, Some(until));
        }
    }

    /// Puts the queue back into its seat. Returns it if it is not used any more.
    fn put_queue_back(&self, owned: OwnedQueue) -> Result<(), Box<dyn CallQueue>> {
        let mut seat = self.seat();
        // Under the lock: a thread that gives the queue up afterwards finds it in its seat.
        if self.broken.get().is_some() {
            return Err(owned.queue);
        }
        seat.queue = Some(owned);
        let waiters = std::mem::take(&mut seat.waiters);
        drop(seat);
        waiters.iter().for_each(Parker::unpark);
        Ok(())
    }

    /// Stops using the queue, and reports why. Returns `false` if that was done before.
    fn give_up(&self, Broken(reason): Broken) -> bool {
        if self.broken.set(reason.clone()).is_err() {
            return false;
        }
        let mut waiting = self.waiting();
        waiting.news = Vec::new();
        drop(waiting);
        let mut seat = self.seat();
        let (waiters, unused) = (std::mem::take(&mut seat.waiters), seat.queue.take());
        drop(seat);
        waiters.iter().for_each(Parker::unpark);
        discard(unused.map(|owned| owned.queue));
        let part = format!("the queue of pool `{}`", self.pool);
        let message = format!("{reason}; its calls run in the order of their arrival now");
        let what = Unhandled::PartFailed {
            part: &part,
            message: &message,
        };
        self.unhandled.report(&self.pool, &what);
        true
    }

    /// Returns the worker pool that runs the tickets, unless it has ended.
    fn worker_pool(&self) -> Option<Arc<WorkerPool>> {
        self.threads.get().and_then(Weak::upgrade)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallLine {
    fn drop(&mut self) {
        let queue = self.seat().queue.take();
        discard(queue.map(|owned| owned.queue));
    }
}

impl OwnedQueue {
    /// Tells the queue which calls have arrived and left.
    fn tell(&mut self, news: Vec<News>) -> Result<(), Broken> {
        for one in news {
            match one {
                News::Arrived(call) => {
                    guarded("push", || self.queue.push(call))?;
                    self.len += 1;
                }
                News::Left(call) => {
                    guarded("remove", || self.queue.remove(&call))?;
                    self.len -= 1;
                }
            }
        }
        self.check_len()
    }

    fn check_len(&self) -> Result<(), Broken> {
        let (len, has) = (guarded("len", || self.queue.len())?, self.len);
        match len == has {
            true => Ok(()),
            false => Err(Broken(format!(
                "its length is {len}, but it has {has} calls"
            ))),
        }
    }
}

impl Waiting {
    /// Returns `true` if a ticket can be taken out.
    fn has_surplus(&self) -> bool {
        self.tickets.are_too_many_for(self.calls.len())
    }

    /// Notes that the thread of this ticket asks the queue. Returns what the queue has to be told first.
    fn begin_asking(&mut self, ticket: u64) -> Vec<News> {
        self.tickets.asks(ticket);
        std::mem::take(&mut self.news)
    }

    /// Returns the place of a call.
    fn position(&self, id: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.calls.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.calls[middle].0.id {
                at if at == id => return Some(middle),
                at if at < id => low = middle + 1,
                _ => high = middle,
            }
        }
        None
    }

    /// Removes a call that leaves without a thread. The queue is told, if it knows of the call.
    fn remove(&mut self, id: u64) -> Option<Job> {
        let at = self.position(id)?;
        let (call, job) = self.calls.remove(at)?;
        let is_new = |news: &News| matches!(news, News::Arrived(new) if new.id == id);
        match self.news.iter().position(is_new) {
            Some(at) => drop(self.news.remove(at)),
            None => self.news.push(News::Left(call)),
        }
        Some(job)
    }

    /// Takes a call for a ticket.
    fn claim(&mut self, call: u64, ticket: u64) -> Option<Job> {
        self.tickets.remove(ticket);
        let at = self.position(call)?;
        self.calls.remove(at).map(|(_, job)| job)
    }

    /// Takes the oldest call for a ticket, unless another ticket has replaced it. Only for a line
    /// whose queue is not used any more.
    fn oldest(&mut self, ticket: u64) -> Option<Job> {
        self.news = Vec::new();
        if !self.tickets.remove(ticket) {
            return None;
        }
        self.calls.pop_front().map(|(_, job)| job)
    }
}

/// Runs a method of the program's queue. A panic breaks the contract.
fn guarded<R>(method: &str, call: impl FnOnce() -> R) -> Result<R, Broken> {
    contain(call).map_err(|panic| Broken(format!("its `{method}` panicked: {}", panic.message())))
}

/// The right of one call to a thread, for whichever call the queue chooses. If the pool drops it,
/// the oldest call ends, too.
struct Ticket(Option<(Arc<CallLine>, u64)>);

impl Ticket {
    fn run(mut self) {
        if let Some((line, ticket)) = self.0.take() {
            line.run(ticket);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some((line, ticket)) = self.0.take() else {
            return;
        };
        let mut waiting = line.waiting();
        waiting.tickets.remove(ticket);
        let is_missing = waiting.tickets.len() < waiting.calls.len();
        let oldest = waiting.calls.front().map(|(call, _)| call.id);
        let ended = oldest.filter(|_| is_missing);
        let ended = ended.and_then(|id| waiting.remove(id));
        drop(waiting);
        // Dropped with no lock held: the drop of a job ends its call.
        drop(ended);
    }
}

impl std::fmt::Debug for CallLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallLine")
            .field("pool", &self.pool)
            .field("waiting", &self.waiting().calls.len())
            .field("broken", &self.broken.get())
            .finish_non_exhaustive()
    }
}
