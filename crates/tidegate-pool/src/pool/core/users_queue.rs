//! The user's own queue: which thread asks it, and what happens if it breaks its contract.
//!
//! The queue decides the order of the jobs. It is user code, so it is called with no lock held: one
//! thread at a time takes it out of its seat. The jobs themselves are under the pool's lock
//! (`LineJobs`), and so is what the queue has not been told yet.
//!
//! # Invariants
//!
//! * A thread that does not bring the queue back in time is left behind: another thread gets its
//!   ticket, and the queue is not used any more.
//! * A queue that broke its contract is never called again; the jobs then run in the order of their
//!   arrival.
//! * The lock of the seat and the lock of the pool are never held together.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};
use std::time::Duration;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::{as_nanos, contain, discard, discard_all};
use tidegate_core::{Parker, RejectReason, Rejected};

use crate::pool::queue::{AskingEnd, Job, JobKey, JobQueue, LineJobs, News, Popped};

use super::lanes::Lane;
use super::shared::{PoolDispatchGuard, Shared};

/// How long a method of the queue may take while other threads need the queue.
const LONGEST: Duration = Duration::from_secs(1);

/// The place of the user's queue.
pub(super) struct UsersQueue {
    seat: Mutex<Seat>,
    /// Why the queue is not used any more.
    broken: OnceLock<String>,
}

/// Empty while a thread calls the queue.
struct Seat {
    queue: Option<OwnedQueue>,
    /// When the queue was taken out, and by which thread.
    since: u64,
    holder: Option<ThreadId>,
    waiters: Vec<Parker>,
}

struct OwnedQueue {
    queue: Box<dyn JobQueue>,
    /// The queue's key of each job that it has, by the pool's key.
    keys: HashMap<u64, JobKey>,
}

/// Why a queue is not used any more.
struct Broken(String);

/// A job that took the place of another one.
struct Replaced {
    key: Option<JobKey>,
    displaced: Job,
}

impl UsersQueue {
    pub(super) fn new(queue: Box<dyn JobQueue>) -> Self {
        let keys = HashMap::new();
        Self {
            seat: Mutex::new(Seat {
                queue: Some(OwnedQueue { queue, keys }),
                since: 0,
                holder: None,
                waiters: Vec::new(),
            }),
            broken: OnceLock::new(),
        }
    }

    fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Puts the queue back into its seat. Returns it if it is not used any more.
    fn put_back(&self, owned: OwnedQueue) -> Option<Box<dyn JobQueue>> {
        let mut seat = lock(&self.seat);
        // Under the lock: a thread that gives the queue up afterwards finds it in its seat.
        if self.is_broken() {
            return Some(owned.queue);
        }
        seat.queue = Some(owned);
        seat.holder = None;
        let waiters = std::mem::take(&mut seat.waiters);
        drop(seat);
        waiters.iter().for_each(Parker::unpark);
        None
    }

    /// Returns `true` if a submitter may ask the queue: it is free, or this thread may wait for it.
    fn may_ask(&self) -> bool {
        let seat = lock(&self.seat);
        let is_mine = seat.holder == Some(thread::current().id());
        seat.queue.is_some() || (!is_mine && wait_policy() == WaitPolicy::Free)
    }
}

impl Drop for UsersQueue {
    fn drop(&mut self) {
        let queue = lock(&self.seat).queue.take();
        discard(queue.map(|owned| owned.queue));
    }
}

impl Shared {
    /// Returns `true` if a queue of the user's own decides the order of the jobs.
    pub(super) fn asks_users_queue(&self) -> bool {
        let users = self.users_queue.as_ref();
        users.is_some_and(|users| !users.is_broken())
    }

    /// Returns the job that the user's queue chooses for a ticket, or `None` if no job is left.
    /// `begin` is called with it while the pool's lock is held, so that a job which can no longer be
    /// handed back is visible as running.
    ///
    /// Also returns the queue if it is not used any more. The caller drops it after the job has run:
    /// the drop is user code, and the job must not wait for it.
    pub(super) fn choose(&self, begin: impl Fn(&Job)) -> (Option<Job>, Option<Box<dyn JobQueue>>) {
        let Some(users) = &self.users_queue else {
            return (None, None);
        };
        let Some(mut owned) = self.take_queue(users) else {
            return (self.claim(LineJobs::claim_oldest, begin), None);
        };
        match self.ask(&mut owned, &begin) {
            Ok(chosen) => (chosen, users.put_back(owned)),
            Err(broken) => {
                self.give_up_queue(users, broken);
                let chosen = self.claim(LineJobs::claim_oldest_if_asking, begin);
                (chosen, Some(owned.queue))
            }
        }
    }

    /// Asks the queue for the next job, and checks what it returns.
    fn ask(&self, owned: &mut OwnedQueue, begin: &impl Fn(&Job)) -> Result<Option<Job>, Broken> {
        if !self.with_line(LineJobs::begin_asking) {
            // The queue was given up meanwhile.
            return Ok(self.claim(LineJobs::claim_oldest, begin));
        }
        loop {
            owned.tell(self.with_line(LineJobs::take_news))?;
            let popped = guarded("pop", || owned.queue.pop().map(chosen))?;
            let (key, is_shed) = match popped {
                Some(chosen) => chosen,
                None => match self.with_line(LineJobs::end_asking) {
                    AskingEnd::Over => return Ok(None),
                    AskingEnd::News => continue,
                    AskingEnd::Jobs => {
                        let lost = owned.keys.len();
                        return Err(Broken(format!("it lost {lost} of its jobs")));
                    }
                },
            };
            owned.forget(key)?;
            if is_shed {
                self.shed(key);
                continue;
            }
            let claim = |line: &mut LineJobs| line.claim(key);
            if let Some(job) = self.claim(claim, begin) {
                return Ok(Some(job));
            }
            if !self.with_line(|line| line.is_asking()) {
                // This thread was left behind.
                return Ok(None);
            }
            // The job has left since, and the queue need not be told.
        }
    }

    fn claim(
        &self,
        claim: impl FnOnce(&mut LineJobs) -> Option<Job>,
        begin: impl Fn(&Job),
    ) -> Option<Job> {
        let mut turn = self.dispatcher.turn();
        let job = turn.line().and_then(claim);
        if let Some(job) = &job {
            begin(job);
        }
        turn.count_line();
        self.end_turn(turn, || ());
        job
    }

    /// Drops a job that the queue sheds.
    fn shed(&self, key: JobKey) {
        let mut turn = self.dispatcher.turn();
        if let Some(job) = turn.line().and_then(|line| line.give_up(key)) {
            turn.counts.shed += 1;
            turn.shed.push(job);
        }
        turn.count_line();
        self.end_turn(turn, || ());
    }

    /// Lets the user's queue choose the job that makes room for `job`. Returns `job` as refused if
    /// the queue chooses none, or if this thread cannot wait for the queue.
    pub(super) fn offer_by_queue(&self, job: Job) -> Result<Option<JobKey>, Rejected<Job>> {
        let asked = self.users_queue.as_ref().filter(|users| users.may_ask());
        let Some(users) = asked else {
            return Err(Rejected::new(job, RejectReason::Full));
        };
        let Some(mut owned) = self.take_queue(users) else {
            // It is not used any more.
            return self.offer(job, Lane::User);
        };
        let mut waits = Some(job);
        let (unused, offered) = match (self.replace(&mut owned, &mut waits), waits) {
            (Ok(Ok(Replaced { key, displaced })), _) => {
                let unused = users.put_back(owned);
                self.displace([displaced]);
                (unused, Ok(key))
            }
            (Ok(Err(why)), Some(job)) => (users.put_back(owned), Err(Rejected::new(job, why))),
            (Err(broken), Some(job)) => {
                self.give_up_queue(users, broken);
                (Some(owned.queue), self.offer(job, Lane::User))
            }
            (_, None) => unreachable!("a job that was not placed is returned"),
        };
        discard(unused);
        offered
    }

    /// Asks the queue which job makes room, and puts the job of `waits` in its place.
    fn replace(
        &self,
        owned: &mut OwnedQueue,
        waits: &mut Option<Job>,
    ) -> Result<Result<Replaced, RejectReason>, Broken> {
        loop {
            owned.tell(self.with_line(LineJobs::take_news))?;
            let Some(by) = waits.as_ref().map(|job| job.stand_in(JobKey(0))) else {
                return Ok(Err(RejectReason::Full));
            };
            let queue = &mut owned.queue;
            let given = guarded("displace", move || {
                let given = queue.displace(&by);
                given.map(|stand_in| stand_in.stands_for())
            })?;
            let Some(key) = given else {
                return Ok(Err(RejectReason::Full));
            };
            owned.forget(key)?;
            let mut turn = self.dispatcher.turn();
            let is_closed = turn.is_closed();
            let Some(line) = turn.line() else {
                return Ok(Err(RejectReason::Full));
            };
            if is_closed {
                line.tell_again(key);
                return Ok(Err(RejectReason::Closed));
            }
            let Some(displaced) = line.give_up(key) else {
                // That job has left since.
                continue;
            };
            turn.counts.displaced += 1;
            turn.counts.accepted += 1;
            let key = waits.take().and_then(|job| turn.push(Lane::User, job));
            self.end_turn(turn, || ());
            return Ok(Ok(Replaced { key, displaced }));
        }
    }

    /// Takes the queue out of its seat, or returns `None` if it is not used any more. Waits while
    /// another thread calls it.
    fn take_queue(&self, users: &UsersQueue) -> Option<OwnedQueue> {
        let mut parker = None;
        loop {
            if users.is_broken() {
                return None;
            }
            let now = self.clock.nanos();
            let mut seat = lock(&users.seat);
            if let Some(owned) = seat.queue.take() {
                (seat.since, seat.holder) = (now, Some(thread::current().id()));
                return Some(owned);
            }
            let until = seat.since.saturating_add(as_nanos(LONGEST));
            if now >= until {
                drop(seat);
                self.leave_behind(users);
                return None;
            }
            let parker: &Parker = parker.get_or_insert_with(Parker::new);
            seat.waiters.push(parker.clone());
            drop(seat);
            self.clock.park_until(parker, Some(until));
        }
    }

    /// Gives up a queue that has been called for too long.
    #[inline]
    pub(super) fn note_blocked_queue(&self) {
        if let Some(users) = &self.users_queue {
            self.note_blocked(users);
        }
    }

    #[inline(never)]
    fn note_blocked(&self, users: &UsersQueue) {
        let seat = lock(&users.seat);
        let is_out = seat.queue.is_none();
        let until = seat.since.saturating_add(as_nanos(LONGEST));
        drop(seat);
        if is_out && !users.is_broken() && self.clock.nanos() >= until {
            self.leave_behind(users);
        }
    }

    /// Gives up a queue that does not return. The thread that calls it loses its ticket, so that
    /// another thread can run the job.
    #[cold]
    fn leave_behind(&self, users: &UsersQueue) {
        let reason = format!("a method of it has not returned for {LONGEST:?}");
        if !self.give_up_queue(users, Broken(reason)) {
            return;
        }
        self.send_worker(|turn| {
            if let Some(line) = turn.line() {
                line.revoke_ticket();
            }
            turn.count_line();
            turn.send_for_waiting()
        });
    }

    /// Stops using the queue, and reports why. Returns `false` if that was done before.
    #[cold]
    fn give_up_queue(&self, users: &UsersQueue, Broken(reason): Broken) -> bool {
        if users.broken.set(reason.clone()).is_err() {
            return false;
        }
        self.with_line(LineJobs::be_plain);
        let mut seat = lock(&users.seat);
        let (waiters, unused) = (std::mem::take(&mut seat.waiters), seat.queue.take());
        drop(seat);
        waiters.iter().for_each(Parker::unpark);
        discard(unused.map(|owned| owned.queue));
        let message = format!("{reason}; its jobs run in the order of their arrival now");
        self.report_part("the queue", &message);
        true
    }

    fn with_line<R: Default>(&self, change: impl FnOnce(&mut LineJobs) -> R) -> R {
        let mut turn: PoolDispatchGuard<'_> = self.dispatcher.turn();
        turn.line().map(change).unwrap_or_default()
    }
}

impl OwnedQueue {
    /// Tells the queue which jobs have arrived and left.
    fn tell(&mut self, news: Vec<News>) -> Result<(), Broken> {
        let mut news = news.into_iter();
        let told = news.try_for_each(|one| self.tell_one(one));
        discard_all(news);
        told?;
        let (len, has) = (guarded("len", || self.queue.len())?, self.keys.len());
        match len == has {
            true => Ok(()),
            false => Err(Broken(format!(
                "its length is {len}, but it has {has} jobs"
            ))),
        }
    }

    fn tell_one(&mut self, news: News) -> Result<(), Broken> {
        let left = match news {
            News::Arrived(stand_in) => {
                let key = stand_in.stands_for();
                let theirs = guarded("push", || self.queue.push(stand_in))?;
                self.keys.insert(key.0, theirs);
                return Ok(());
            }
            News::Left(key) => key,
        };
        // The queue has not heard of a job that left soon.
        let Some(theirs) = self.keys.remove(&left.0) else {
            return Ok(());
        };
        let removed = guarded("remove", || {
            let removed = self.queue.remove(theirs);
            removed.map(|stand_in| stand_in.stands_for())
        })?;
        match removed == Some(left) {
            true => Ok(()),
            false => Err(Broken("its `remove` did not return the job".to_owned())),
        }
    }

    /// Forgets a job that the queue has returned.
    fn forget(&mut self, key: JobKey) -> Result<(), Broken> {
        match self.keys.remove(&key.0) {
            Some(_) => Ok(()),
            None => {
                let reason = "it returned a job that it does not have, or returned one twice";
                Err(Broken(reason.to_owned()))
            }
        }
    }
}

/// Returns the key of the job that the queue chose, and whether the queue sheds it. What the queue
/// returned is dropped: it may be a value of the user, so this is called in containment.
fn chosen(popped: Popped) -> (JobKey, bool) {
    match popped {
        Popped::Run(stand_in) => (stand_in.stands_for(), false),
        Popped::Shed(stand_in) => (stand_in.stands_for(), true),
    }
}

/// Runs a method of the user's queue, and drops what it returned. A panic breaks the contract.
fn guarded<R>(method: &str, call: impl FnOnce() -> R) -> Result<R, Broken> {
    contain(call).map_err(|panic| Broken(format!("its `{method}` panicked: {}", panic.message())))
}
