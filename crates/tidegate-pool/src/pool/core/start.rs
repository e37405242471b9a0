//! How a pool starts its threads, and what happens if the system cannot start one.
//!
//! A thread factory or an executor of the user answers each request for a thread. It may refuse, and
//! then there is no thread. Work that it accepts runs once, on a thread of its own; a part that drops
//! such work, or runs it on the thread that asks, closes the pool.
//!
//! ```text
//!   ASKED ──── accepted ───▶ ACCEPTED ─── begins ──▶ BEGUN
//!     │ │ └─── begins ──────────────────────────────▶ BEGUN     (before the answer)
//!     │ └───── refused ────▶ REFUSED
//!     └─────── dropped ────▶ DROPPED      a breach, unless it is refused after that
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, ThreadId};

use tidegate_core::internal::{ClockMember, PlainTask, contain};
use tidegate_core::{RejectReason, Rejected};

use crate::pool::queue::{Job, JobKey};

use super::lanes::{Lane, Purpose};
use super::shared::{PoolDispatchGuard, Shared, ThreadLender};
use super::shutdown::is_over;
use super::workers::WorkerEntry;

/// The user's code is being asked for a thread.
const ASKED: u8 = 0;
/// It has accepted the work, and has not run it yet.
const ACCEPTED: u8 = 1;
/// The thread runs.
const BEGUN: u8 = 2;
/// There will be no thread.
const REFUSED: u8 = 3;
/// The work was dropped before it began.
const DROPPED: u8 = 4;

/// Creates the worker entry of a thread that was counted under this guard.
pub(super) fn add_worker(turn: &mut PoolDispatchGuard<'_>) -> Arc<WorkerEntry> {
    turn.counts.most_threads = turn.counts.most_threads.max(turn.threads());
    turn.workers.add()
}

impl Shared {
    /// Releases the guard and starts a thread, which is counted already, with its first job. Until
    /// the thread begins the job, the end of the pool finds the job in the worker slot.
    #[cold]
    pub(super) fn start(
        &self,
        mut turn: PoolDispatchGuard<'_>,
        job: Job,
        lane: Lane,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        let post = add_worker(&mut turn);
        let given = post.worker_slot.give(job);
        debug_assert!(given.is_ok(), "a new slot is empty");
        self.end_turn(turn, || {
            if self.start_thread(&post, Purpose::OwnJob(lane)) {
                return Ok(None);
            }
            match post.worker_slot.try_take() {
                Some(job) => self.offer_without_start(job, lane),
                // The job was accepted, and the end of the pool has taken it.
                None => Ok(None),
            }
        })
    }

    /// Starts a thread that is counted already. If that fails, takes the count back and returns
    /// `false`. Queued jobs may have relied on the thread: if the pool has no other, it asks once
    /// more.
    pub(super) fn start_thread(&self, post: &Arc<WorkerEntry>, purpose: Purpose) -> bool {
        let is_started = self.spawn(post, purpose);
        if !is_started {
            self.replace_start();
        }
        is_started
    }

    /// Starts a thread, or takes its count back and returns `false`.
    fn spawn(&self, post: &Arc<WorkerEntry>, purpose: Purpose) -> bool {
        let start = PendingStart {
            shared: self.arc(),
            post: Arc::clone(post),
            asked_by: thread::current().id(),
            // A borrowed thread joins the clock when it begins, since it may never begin.
            member: self.lender.is_none().then(|| self.clock.join()),
            purpose,
        };
        let asked = match &self.lender {
            None => self.threads.spawn(move || start.begin()).map(drop),
            Some(lend) => lend_to(lend, start),
        };
        // ORDERING: AcqRel: the step orders this thread with the one that begins or drops the work.
        let answer = match &asked {
            Ok(()) => {
                let to = (Ordering::AcqRel, Ordering::Acquire);
                let accepted = post.start.compare_exchange(ASKED, ACCEPTED, to.0, to.1);
                accepted.unwrap_or_else(|step| step)
            }
            Err(_) => post.start.swap(REFUSED, Ordering::AcqRel),
        };
        let message = match (asked, answer) {
            (Ok(()), DROPPED) => {
                self.lost_start(post, purpose);
                return false;
            }
            // Work that runs counts, whatever the answer is.
            (Ok(()), _) | (_, BEGUN) => {
                let mut turn = self.dispatcher.turn();
                turn.counts.started_threads += 1;
                self.widen_width(&turn.limits, turn.budget.leased());
                return true;
            }
            (Err(error), _) => error.to_string(),
        };
        let over = self.take_back_start(post, purpose);
        self.report_part(self.source_of_threads(), &message);
        if over {
            self.end();
        }
        false
    }

    /// Takes back the count of a thread that did not start. Returns `true` if a closed pool has no
    /// thread left.
    fn take_back_start(&self, post: &Arc<WorkerEntry>, purpose: Purpose) -> bool {
        let mut turn = self.dispatcher.turn();
        turn.counts.failed_starts += 1;
        turn.workers.remove(post);
        let wake = turn.not_started(purpose == Purpose::Waiting);
        turn.counts.wakeups += u64::from(wake.is_some());
        let over = is_over(&turn);
        if turn.threads() > 0 {
            // Waits that rely on more threads already go on.
            self.narrow_width(turn.threads());
        }
        self.end_turn(turn, || drop(wake));
        over
    }

    /// Closes the pool: its source of threads has dropped work that it had accepted. The job that the
    /// thread should have run is dropped with those that wait.
    #[cold]
    fn lost_start(&self, post: &Arc<WorkerEntry>, purpose: Purpose) {
        let over = self.take_back_start(post, purpose);
        let why = "it did not run the work of a thread on a thread of its own";
        self.break_pool(self.source_of_threads(), why, post.worker_slot.try_take());
        if over {
            self.end();
        }
    }

    /// Handles queued jobs after a thread was not started: asks for another one if the pool has none.
    /// If it then has none, the jobs are dropped as displaced: they would wait for the next
    /// submission.
    fn replace_start(&self) {
        let mut turn = self.dispatcher.turn();
        // The end of a closed pool hands its jobs back.
        if turn.is_closed() || turn.threads() > 0 {
            return;
        }
        if turn.count_for_waiting() {
            let post = add_worker(&mut turn);
            drop(turn);
            if self.spawn(&post, Purpose::Waiting) {
                return;
            }
            turn = self.dispatcher.turn();
        }
        let mut left = Vec::new();
        if turn.threads() == 0 && !turn.is_closed() {
            turn.displace_all(&mut left);
        }
        self.end_turn(turn, || self.displace(left));
    }

    fn source_of_threads(&self) -> &'static str {
        match self.lender {
            None => "the thread factory",
            Some(_) => "the executor",
        }
    }

    /// Places a new job without a new thread, after none could be started. It waits only for a thread
    /// that may get free: the others may wait for this job.
    fn offer_without_start(&self, job: Job, lane: Lane) -> Result<Option<JobKey>, Rejected<Job>> {
        let mut turn = self.dispatcher.turn();
        let given = turn.give_to_idle(job);
        match given.or_else(|job| self.dispatcher.claim(job)) {
            Ok(wake) => {
                self.end_turn(turn, || drop(wake));
                Ok(None)
            }
            Err(job)
                if turn.threads() > 0
                    && turn.has_room(lane)
                    && self.narrow_width(turn.threads()) =>
            {
                let key = turn.push(lane, job);
                self.end_turn(turn, || ());
                Ok(key)
            }
            Err(job) => {
                turn.counts.accepted -= 1;
                self.end_turn(turn, || ());
                Err(Rejected::new(job, RejectReason::NoThread))
            }
        }
    }

    /// Starts threads for the queued jobs, after the limits were raised.
    pub(crate) fn start_for_all_waiting(&self) {
        loop {
            let mut turn = self.dispatcher.turn();
            if !turn.count_for_waiting() {
                return;
            }
            let post = add_worker(&mut turn);
            drop(turn);
            if !self.start_thread(&post, Purpose::Waiting) {
                return;
            }
        }
    }

    /// Starts threads up to the core size. Returns the number of threads.
    pub(crate) fn prestart(&self) -> usize {
        loop {
            let mut turn = self.dispatcher.turn();
            if turn.threads() >= turn.limits.core || !turn.count_thread() {
                return turn.threads();
            }
            let post = add_worker(&mut turn);
            drop(turn);
            if !self.start_thread(&post, Purpose::Spare) {
                return self.dispatcher.tally().threads;
            }
        }
    }
}

/// The work of a thread that was requested. It begins on that thread, or is dropped by the thread
/// factory or the executor that should run it.
struct PendingStart {
    shared: Arc<Shared>,
    post: Arc<WorkerEntry>,
    asked_by: ThreadId,
    member: Option<ClockMember>,
    purpose: Purpose,
}

impl PendingStart {
    /// Runs the thread, unless its request was refused, or this is the thread that makes it.
    fn begin(mut self) {
        let may_begin = |step| match step {
            ASKED if self.asked_by == thread::current().id() => None,
            ASKED | ACCEPTED => Some(BEGUN),
            _ => None,
        };
        let step = &self.post.start;
        // ORDERING: AcqRel, as for the answer.
        let begun = step.fetch_update(Ordering::AcqRel, Ordering::Acquire, may_begin);
        if begun.is_err() {
            return;
        }
        // The thread that has requested this one may not know yet that it runs.
        let turn = self.shared.dispatcher.turn();
        self.shared.widen_width(&turn.limits, turn.budget.leased());
        drop(turn);
        let member = self.member.take();
        let member = member.unwrap_or_else(|| self.shared.clock.join());
        (self.shared.body)(&self.shared, &self.post, member, self.purpose);
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        // ORDERING: AcqRel, as for the answer.
        let to = (Ordering::AcqRel, Ordering::Acquire);
        let step = &self.post.start;
        if step.compare_exchange(ASKED, DROPPED, to.0, to.1) == Err(ACCEPTED) {
            self.shared.lost_start(&self.post, self.purpose);
        }
    }
}

/// Gives the work of a thread to the executor of the user.
fn lend_to(lend: &ThreadLender, start: PendingStart) -> io::Result<()> {
    let task = PlainTask::internal_named("calls of a pool", move || start.begin());
    match contain(|| lend(task)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refused)) => {
            let why = refused.why();
            Err(io::Error::other(format!("it refused a task: {why}")))
        }
        Err(panic) => Err(io::Error::other(format!(
            "it panicked: {}",
            panic.message()
        ))),
    }
}
