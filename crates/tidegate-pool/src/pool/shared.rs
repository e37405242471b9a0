//! What the handles of a pool and its threads share: how a job gets in.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tidegate_core::prim::Mutex;
use tidegate_core::{
    CancelToken, CaughtPanic, Clock, Executor, ExecutorId, FastClock, OnUnhandled, Parker, Refusal,
    Rejected, Signal, Task, ThreadBuilder, Unhandled, WaitRefused, as_nanos, change_width, contain,
    is_current,
};

use crate::pool::raw::{Desk, Placed, Sent, Turn};

use super::job::Job;
use super::lanes::{Lane, Lanes};
use super::limits::PoolLimits;
use super::policy::{PoolPolicy, displacing};
use super::queue::{JobKey, JobQueue};
use super::start::{Purpose, enroll};
use super::stop::Ending;
use super::worker;
use crate::executor::HandedBack;
use crate::executor::Left;
use crate::headroom::{Headroom, Room};

/// Hears that the pool is low on threads, or is not any more.
pub(super) type OnLow = Arc<dyn Fn(bool) + Send + Sync>;

/// A turn at the desk of a pool.
pub(super) type PoolTurn<'a> = Turn<'a, Job, Lanes>;

/// Tries to step up to the desk before `try_execute` gives up.
const TRIES: u32 = 32;

/// The shared side of one pool.
pub(super) struct Shared {
    me: Weak<Self>,
    pub(super) id: ExecutorId,
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) desk: Desk<Job, Lanes>,
    pub(super) threads: ThreadBuilder,
    pub(super) policy: PoolPolicy,
    pub(super) on_unhandled: OnUnhandled,
    pub(super) on_low: Option<OnLow>,
    /// What jobs are timed by, if they are.
    pub(super) times: Option<FastClock>,
    /// Maximum and bound, for `room`; 0 once the pool is closed.
    room: AtomicU64,
    /// Nanoseconds that a thread may be idle; 0 means for ever.
    keep_alive: AtomicU64,
    /// Threads that may wait for each other, for the check of waits.
    width: AtomicUsize,
    /// Threads that were leased and are not used yet.
    kept: AtomicUsize,
    pub(super) handles: AtomicUsize,
    pub(super) tells: Tells,
    /// Tripped when no more jobs are taken: ends whoever waits for a place.
    pub(super) closing: CancelToken,
    /// Tripped when running jobs should stop.
    pub(super) stopping: CancelToken,
    pub(super) reaper: Mutex<Option<Parker>>,
    /// Gone once the pool is over and nobody has a handle: jobs that were handed back hold on to
    /// their pool, and would keep it and themselves alive.
    /// What was accepted and has not begun.
    pub(super) left: Left,
    pub(super) ending: Mutex<Option<Ending>>,
}

/// Counters beside the lock.
#[derive(Debug, Default)]
pub(super) struct Tells {
    pub(super) refused: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) caller_ran: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) reserve_hits: AtomicU64,
    pub(super) reserve_misses: AtomicU64,
}

/// What a new pool is made of.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) limits: PoolLimits,
    pub(super) queue: Box<dyn JobQueue>,
    pub(super) threads: ThreadBuilder,
    pub(super) policy: PoolPolicy,
    pub(super) on_unhandled: OnUnhandled,
    pub(super) on_low: Option<OnLow>,
    pub(super) times: Option<FastClock>,
}

impl Shared {
    pub(super) fn new(parts: Parts) -> Arc<Self> {
        let (promise, completion) = tidegate_promise::promise_of();
        // An end is shared by all who wait for it: none of them can cancel it.
        promise.set_uncancellable();
        let stopped = completion
            .share()
            .unwrap_or_else(|_| unreachable!("a new completion was not taken"));
        let limits = parts.limits;
        let handed_back = HandedBack::default();
        let shared = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id: ExecutorId::next(),
            name: parts.name,
            clock: parts.clock,
            desk: Desk::new(
                Lanes::new(limits, parts.queue, promise),
                limits.desk(0),
                limits.reserved,
            ),
            threads: parts.threads,
            policy: parts.policy,
            on_unhandled: parts.on_unhandled,
            on_low: parts.on_low,
            times: parts.times,
            room: AtomicU64::new(0),
            keep_alive: AtomicU64::new(0),
            width: AtomicUsize::new(limits.width(0)),
            kept: AtomicUsize::new(0),
            handles: AtomicUsize::new(1),
            tells: Tells::default(),
            closing: CancelToken::new(),
            stopping: CancelToken::new(),
            reaper: Mutex::default(),
            left: Left::of(&handed_back),
            ending: Mutex::new(Some(Ending {
                stopped,
                handed_back,
            })),
        });
        shared.show(&limits);
        shared
    }

    pub(super) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }

    /// Accepts a user job, as far as the policy goes, or gives it back.
    #[inline]
    pub(super) fn submit(&self, job: Job) -> Result<Option<JobKey>, Rejected<Job>> {
        match self.offer(job, Lane::User) {
            Err(refused) => self.refuse(refused),
            accepted => accepted,
        }
    }

    /// Accepts a job of the runtime's own, whatever the bound.
    pub(super) fn submit_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.offer(Job::new(task), Lane::Internal) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.map(Job::into_task)),
        }
    }

    /// Finds a thread or a place for a job; says under which key it waits.
    #[inline]
    pub(super) fn offer(&self, mut job: Job, lane: Lane) -> Result<Option<JobKey>, Rejected<Job>> {
        self.stamp(&mut job);
        let mut turn = self.desk.turn();
        // As long as a thread is there, what the runtime itself has accepted can still run.
        if turn.is_closed() && (lane == Lane::User || turn.threads() == 0) {
            return Err(Rejected::new(job, Refusal::Closed));
        }
        let has_room = turn.has_room(lane);
        if has_room && let Some(looks) = turn.may_put_off() {
            let key = turn.push(lane, job);
            turn.counts.accepted += 1;
            turn.put_off();
            self.end_turn(turn, || self.look_for_taker(looks));
            return Ok(key);
        }
        match turn.place(job, has_room, lane.is_urgent()) {
            Placed::Handed(wake) => {
                turn.counts.accepted += 1;
                turn.counts.wakeups += u64::from(wake.is_asleep());
                self.end_turn(turn, || drop(wake));
                Ok(None)
            }
            Placed::Queue(job) => {
                let key = turn.push(lane, job);
                turn.counts.accepted += 1;
                self.end_turn(turn, || ());
                Ok(key)
            }
            Placed::Start(job) => {
                turn.counts.accepted += 1;
                self.start(turn, job, lane)
            }
            Placed::Full(job) => self.offer_by_force(turn, job),
        }
    }

    /// Notes when the job came, if that is measured.
    #[inline]
    fn stamp(&self, job: &mut Job) {
        if let Some(clock) = &self.times {
            job.since = clock.nanos();
        }
    }

    /// Waits a moment for a busy worker to come for a job whose wakeup was put off, and makes up
    /// for it if none does.
    #[inline]
    fn look_for_taker(&self, looks: u32) {
        for _ in 0..looks {
            std::hint::spin_loop();
            if !self.desk.is_put_off() {
                return;
            }
        }
        let mut turn = self.desk.turn();
        let sent = turn.make_up();
        self.follow(turn, sent);
    }

    /// Gives up the turn and does what was decided for the jobs that wait.
    pub(super) fn follow(&self, mut turn: PoolTurn<'_>, sent: Option<Sent<Job>>) {
        match sent {
            Some(Sent::Idle(wake)) => {
                turn.counts.wakeups += 1;
                self.end_turn(turn, || drop(wake));
            }
            Some(Sent::Start) => {
                let post = enroll(&mut turn);
                self.end_turn(turn, || self.start_thread(&post, Purpose::Waiting));
            }
            None => self.end_turn(turn, || ()),
        }
    }

    /// The last resort of a pool that drops the oldest.
    fn offer_by_force(
        &self,
        mut turn: PoolTurn<'_>,
        job: Job,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        let displaced = match self.policy {
            PoolPolicy::DropOldest => turn.displace(&job),
            _ => None,
        };
        if displaced.is_none() {
            drop(turn);
            return Err(Rejected::new(job, Refusal::Full));
        }
        let key = turn.push(Lane::User, job);
        turn.counts.accepted += 1;
        self.end_turn(turn, || ());
        self.displace(displaced);
        Ok(key)
    }

    /// Gives a task to a thread that already waits, or gives it back. Waits for nothing.
    pub(super) fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        let mut job = Job::new(task);
        self.stamp(&mut job);
        if self.desk.reserve().capacity() > 0 {
            match self.desk.claim(job) {
                Ok(wake) => {
                    drop(wake);
                    self.tells.reserve_hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(missed) => job = missed,
            }
            match self.try_idle(job) {
                Ok(()) => {
                    self.tells.reserve_hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(missed) => job = missed,
            }
        }
        self.tells.reserve_misses.fetch_add(1, Ordering::Relaxed);
        Err(Rejected::new(job.into_task(), Refusal::Busy))
    }

    /// An idle thread outside the reserve, if the desk is free at once; else starts a thread for
    /// the next time.
    fn try_idle(&self, job: Job) -> Result<(), Job> {
        let mut tries = (0..TRIES).map(|_| {
            std::hint::spin_loop();
            self.desk.try_turn()
        });
        let Some(mut turn) = tries.find_map(|turn| turn) else {
            return Err(job);
        };
        if turn.is_closed() {
            return Err(job);
        }
        match turn.hand_idle(job) {
            Ok(wake) => {
                self.end_turn(turn, || drop(wake));
                Ok(())
            }
            Err(job) => {
                let spare = turn.count_thread().then(|| enroll(&mut turn));
                drop(turn);
                if let Some(post) = spare {
                    self.start_thread(&post, Purpose::Spare);
                }
                Err(job)
            }
        }
    }

    /// Takes a waiting job back.
    pub(super) fn remove(&self, key: JobKey) -> Option<Job> {
        let mut turn = self.desk.turn();
        let job = turn.remove(key);
        self.end_turn(turn, || ());
        job
    }

    /// Drops jobs that had to make room; their promises say so.
    pub(super) fn displace(&self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            let name = job.name();
            let dropped = contain(|| displacing(|| drop(job)));
            if let Err(panic) = dropped {
                self.hear_panic(name, panic);
            }
        }
    }

    /// Gives up the turn, then does what must not be done with the lock held: first `then`, which
    /// jobs may depend on, and after it the code of the user's, which may take its time.
    #[inline]
    pub(super) fn end_turn<R>(&self, mut turn: PoolTurn<'_>, then: impl FnOnce() -> R) -> R {
        let shed = std::mem::take(&mut turn.shed);
        let news = match &self.on_low {
            Some(hear) => Some(hear).zip(self.news_of_low(&mut turn)),
            None => None,
        };
        drop(turn);
        let done = then();
        if !shed.is_empty() {
            self.displace(shed);
        }
        if let Some((hear, low)) = news {
            self.tell_low(hear, low);
        }
        done
    }

    /// What the hook has to be told, by this thread, if that has changed. While another thread
    /// tells it something, that one goes on.
    fn news_of_low(&self, turn: &mut PoolTurn<'_>) -> Option<bool> {
        let low = self.is_low(turn);
        if low == turn.low || turn.telling {
            return None;
        }
        turn.telling = true;
        turn.low = low;
        Some(low)
    }

    /// Tells the hook `low`, and then whatever has changed meanwhile: one call at a time, in the
    /// order of the changes. The calling thread has other things to do: what changes again while
    /// it tells the second one is told by a thread of its own.
    #[cold]
    fn tell_low(&self, hear: &OnLow, low: bool) {
        let Some(next) = self.tell_low_once(hear, low) else {
            return;
        };
        let Some(next) = self.tell_low_once(hear, next) else {
            return;
        };
        let (shared, told_there) = (self.arc(), Arc::clone(hear));
        let teller = ThreadBuilder::new("tidegate-low")
            .spawn(move || shared.tell_low_to_the_end(&told_there, next));
        if teller.is_err() {
            self.tell_low_to_the_end(hear, next);
        }
    }

    fn tell_low_to_the_end(&self, hear: &OnLow, low: bool) {
        let mut news = Some(low);
        while let Some(low) = news {
            news = self.tell_low_once(hear, low);
        }
    }

    /// Calls the hook and returns what it has to be told next.
    fn tell_low_once(&self, hear: &OnLow, low: bool) -> Option<bool> {
        if let Err(panic) = contain(|| hear(low)) {
            let message = panic.message();
            self.unhandled(&Unhandled::HookPanic { message });
        }
        let mut turn = self.desk.turn();
        turn.telling = false;
        self.news_of_low(&mut turn)
    }

    /// Looks whether the hook has to be told something, after a thread was taken without the lock.
    pub(super) fn look_at_low(&self) {
        if self.on_low.is_some() {
            self.end_turn(self.desk.turn(), || ());
        }
    }

    pub(super) fn is_low(&self, turn: &PoolTurn<'_>) -> bool {
        let limits = turn.limits;
        let queued = turn.user_len() + turn.internal_len();
        let free = (limits.max + turn.ready()).saturating_sub(turn.threads() + queued);
        free <= limits.low
    }

    pub(super) fn hear_panic(&self, task: &str, panic: CaughtPanic) {
        self.tells.panics.fetch_add(1, Ordering::Relaxed);
        let message = panic.message();
        self.unhandled(&Unhandled::TaskPanic { task, message });
        drop(panic);
    }

    /// Shows the limits to whoever looks without the lock. Called with the lock held.
    pub(super) fn show(&self, limits: &PoolLimits) {
        let word = (limits.max as u64) << 32 | limits.queue as u64;
        self.room.store(word, Ordering::Relaxed);
        let keep_alive = as_nanos(limits.keep_alive);
        self.keep_alive.store(keep_alive, Ordering::Relaxed);
    }

    /// Changes how many threads waits may rely on. Called with the lock held.
    ///
    /// # Errors
    ///
    /// The circle, when waits that go on rely on more; nothing is changed.
    pub(super) fn set_width(&self, limits: &PoolLimits, leased: usize) -> Result<(), WaitRefused> {
        let width = limits.width(leased);
        change_width(self.id, width, || {
            self.width.store(width, Ordering::Relaxed);
        })
    }

    /// A job of this pool says that it is about to end. Where there is a queue its thread finds
    /// what came meanwhile there.
    pub(super) fn about_to_end(&self) {
        let has_queue = self.room.load(Ordering::Relaxed) as u32 != 0;
        if !has_queue && is_current(self.id) {
            worker::is_coming(self);
        }
    }

    pub(super) fn show_no_room(&self) {
        self.room.store(0, Ordering::Relaxed);
    }

    /// Nanoseconds that a thread above the core size may be idle; 0 means for ever.
    pub(super) fn keep_alive(&self) -> u64 {
        self.keep_alive.load(Ordering::Relaxed)
    }

    /// Keeps one more, or one less, of the threads out of the room.
    pub(super) fn keep_for_lessee(&self, one_more: bool) {
        if one_more {
            self.kept.fetch_add(1, Ordering::Relaxed);
        } else {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn end_lease(&self, id: u64) {
        let mut turn = self.desk.turn();
        turn.budget.remove(id);
        if !turn.is_closed() {
            let leased = turn.budget.leased();
            turn.set_leased(leased);
            // More threads are never too few.
            let widened = self.set_width(&turn.limits, leased);
            debug_assert!(widened.is_ok(), "{widened:?}");
        }
    }
}

impl Headroom for Shared {
    fn room(&self) -> Room {
        let word = self.room.load(Ordering::Relaxed);
        let (max, bound) = ((word >> 32) as usize, word as u32 as usize);
        if max == 0 {
            return Room::default();
        }
        let tally = self.desk.tally();
        let idle = tally.idle + self.desk.reserve().available();
        let may_start = max.saturating_sub(tally.threads);
        let kept = self.kept.load(Ordering::Relaxed);
        Room {
            idle: idle.saturating_sub(tally.queued + kept.saturating_sub(may_start)),
            may_start: may_start.saturating_sub(kept),
            places: bound.saturating_sub(tally.queued),
        }
    }

    fn has_thread(&self) -> bool {
        let max = (self.room.load(Ordering::Relaxed) >> 32) as usize;
        let tally = self.desk.tally();
        match max {
            0 => false,
            _ if self.kept.load(Ordering::Relaxed) > 0 => self.room().has_thread(),
            max if max > tally.threads => true,
            // Jobs wait: how many threads are left over takes counting.
            _ if tally.queued > 0 => self.room().idle > 0,
            _ => tally.idle > 0 || self.desk.reserve().has_any(),
        }
    }

    fn moves(&self) -> u64 {
        self.desk.moves()
    }

    fn waiting(&self) -> usize {
        self.desk.tally().queued
    }
}

/// A pool as an executor: what promises and other crates know of it. Holding one does not keep
/// the pool running.
impl Executor for Shared {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.submit(Job::new(task)) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.map(Job::into_task)),
        }
    }

    fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit_internal(task)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        // A task could not give the signal back: look first, then keep that from changing.
        let mut turn = self.desk.turn();
        if turn.is_closed() && turn.threads() == 0 {
            return Err(Rejected::new(signal, Refusal::Closed));
        }
        let task = Task::non_blocking(move || signal.deliver());
        turn.counts.accepted += 1;
        let mut job = Job::new(task);
        self.stamp(&mut job);
        match turn.place(job, true, Lane::Internal.is_urgent()) {
            Placed::Handed(wake) => {
                turn.counts.wakeups += u64::from(wake.is_asleep());
                self.end_turn(turn, || drop(wake));
            }
            Placed::Queue(job) | Placed::Full(job) => {
                turn.push(Lane::Internal, job);
                self.end_turn(turn, || ());
            }
            Placed::Start(job) => {
                // A refused one is dropped, which tells it as orphaned: news is never lost.
                drop(self.start(turn, job, Lane::Internal));
            }
        }
        Ok(())
    }

    fn is_current(&self) -> bool {
        is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.width.load(Ordering::Relaxed)
    }

    fn has_left_tasks(&self) -> bool {
        self.left.is_left()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.on_unhandled.tell(&self.name, what);
    }
}
