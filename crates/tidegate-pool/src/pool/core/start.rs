//! How a pool starts its threads, and what happens if the system cannot start one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::internal::{ClockMember, PlainTask, contain};
use tidegate_core::{RejectReason, Rejected, ThreadBuilder};

use crate::pool::queue::{Job, JobKey};

use super::lanes::{Lane, Purpose};
use super::shared::{PoolDispatchGuard, Shared, ThreadLender};
use super::shutdown::is_over;
use super::start_state::DROPPED;
use super::workers::WorkerEntry;

/// Creates the worker entry of a thread that was counted under this guard.
pub(super) fn add_worker(turn: &mut PoolDispatchGuard<'_>) -> Arc<WorkerEntry> {
    turn.counts.most_threads = turn.counts.most_threads.max(turn.threads());
    turn.workers.add()
}

/// Creates the worker entry of a thread that was counted under this guard, with its first job.
fn add_worker_for(turn: &mut PoolDispatchGuard<'_>, job: Job) -> Arc<WorkerEntry> {
    let post = add_worker(turn);
    let given = post.worker_slot.give(job);
    debug_assert!(given.is_ok(), "a new slot is empty");
    post
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
        let post = add_worker_for(&mut turn, job);
        self.end_turn(turn, || self.start_for_job(&post, lane))
    }

    /// Starts the thread of a worker entry that has a job. If that fails, places the job elsewhere.
    fn start_for_job(
        &self,
        post: &Arc<WorkerEntry>,
        lane: Lane,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        if self.start_thread(post, Purpose::OwnJob(lane)) {
            return Ok(None);
        }
        match post.worker_slot.try_take() {
            Some(job) => self.offer_without_start(job, lane, false),
            // The job was accepted, and the end of the pool has handed it back.
            None => Ok(None),
        }
    }

    /// Does the same as [`Shared::start`] for a user job and a caller that must not be blocked by
    /// the spawner of the pool's threads, which is user code: a separate thread calls it. If it
    /// fails, the job is queued, because it was accepted already.
    pub(super) fn start_aside(
        &self,
        mut turn: PoolDispatchGuard<'_>,
        job: Job,
    ) -> Result<(), Rejected<Job>> {
        if !self.threads.has_spawner() && self.lender.is_none() {
            return self.start(turn, job, Lane::User).map(drop);
        }
        let post = add_worker_for(&mut turn, job);
        let (shared, aside, mut member) = (self.arc(), Arc::clone(&post), self.clock.join());
        self.end_turn(turn, || {
            let started = ThreadBuilder::new("tidegate-start").spawn(move || {
                member.enter();
                if let Err(refused) = shared.start_for_job(&aside, Lane::User) {
                    shared.queue_accepted(refused.into_inner());
                }
            });
            match started {
                Ok(_) => Ok(()),
                // No thread at all: try it here.
                Err(_) => self.start_for_job(&post, Lane::User).map(drop),
            }
        })
    }

    /// Queues a job that was accepted and for which no thread could be started. It waits until the
    /// next job is submitted, or is handed back.
    fn queue_accepted(&self, job: Job) {
        let mut turn = self.dispatcher.turn();
        turn.counts.accepted += 1;
        turn.push(Lane::User, job);
        let over = is_over(&turn);
        self.end_turn(turn, || ());
        if over {
            self.end();
        }
    }

    /// Starts a thread that is counted already. If that fails, takes the count back and returns
    /// `false`.
    pub(super) fn start_thread(&self, post: &Arc<WorkerEntry>, purpose: Purpose) -> bool {
        if self.spawn(post, purpose) {
            return true;
        }
        // Queued jobs may have relied on the thread. If it would have been the only one, try once
        // more. If that fails too, the jobs wait until the next job is submitted.
        let mut turn = self.dispatcher.turn();
        if turn.threads() == 0 && turn.count_for_waiting() {
            let post = add_worker(&mut turn);
            drop(turn);
            self.spawn(&post, Purpose::Waiting);
        }
        false
    }

    /// Starts a thread, or takes its count back and returns `false`.
    fn spawn(&self, post: &Arc<WorkerEntry>, purpose: Purpose) -> bool {
        post.start.request();
        let start = PendingStart {
            shared: self.arc(),
            post: Arc::clone(post),
            // A borrowed thread joins the clock when it begins, since it may never begin.
            member: self.lender.is_none().then(|| self.clock.join()),
            purpose,
        };
        let asked = match &self.lender {
            None => self.threads.spawn(move || start.begin()).map(drop),
            Some(lend) => lend_to(lend, start),
        };
        let started = post
            .start
            .answered(asked.map_err(|error| error.to_string()));
        let Err(message) = started else {
            self.dispatcher.turn().counts.started_threads += 1;
            return true;
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
        self.end_turn(turn, || drop(wake));
        over
    }

    /// Handles a thread that was promised, and whose work was then dropped. Its job, if it had one,
    /// was accepted: it gets another thread or a place in the queue, or is dropped as displaced.
    #[cold]
    fn lost_start(&self, post: &Arc<WorkerEntry>, purpose: Purpose) {
        let over = self.take_back_start(post, purpose);
        self.report_part(self.source_of_threads(), DROPPED);
        let job = post.worker_slot.try_take();
        if over {
            self.end_with(job);
            return;
        }
        if let (Some(job), Purpose::OwnJob(lane)) = (job, purpose)
            && let Err(refused) = self.offer_without_start(job, lane, true)
        {
            self.displace([refused.into_inner()]);
        }
        self.replace_lost_start();
    }

    /// Asks for another thread if queued jobs relied on the lost one and the pool has no other. If
    /// that fails, too, the jobs are dropped as displaced: they would wait for the next submission.
    fn replace_lost_start(&self) {
        let is_second = self.tallies.lost_starts.fetch_add(1, Ordering::Relaxed) > 0;
        let mut turn = self.dispatcher.turn();
        // The end of a closed pool hands its jobs back.
        if turn.threads() > 0 || turn.is_closed() {
            return;
        }
        if !is_second && turn.count_for_waiting() {
            let post = add_worker(&mut turn);
            drop(turn);
            if self.spawn(&post, Purpose::Waiting) {
                return;
            }
            turn = self.dispatcher.turn();
        }
        let mut left = Vec::new();
        if turn.threads() == 0 {
            turn.drain_user(&mut left);
        }
        self.end_turn(turn, || self.displace(left));
    }

    fn source_of_threads(&self) -> &'static str {
        match self.lender {
            None => "the thread factory",
            Some(_) => "the executor",
        }
    }

    /// Places the job without a new thread, after none could be started. A job that `is_accepted` may
    /// wait although the pool has no thread.
    fn offer_without_start(
        &self,
        job: Job,
        lane: Lane,
        is_accepted: bool,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        let mut turn = self.dispatcher.turn();
        let handed = turn
            .give_to_idle(job)
            .or_else(|job| self.dispatcher.claim(job));
        match handed {
            Ok(wake) => {
                self.end_turn(turn, || drop(wake));
                Ok(None)
            }
            Err(job) if (turn.threads() > 0 || is_accepted) && turn.has_room(lane) => {
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
    member: Option<ClockMember>,
    purpose: Purpose,
}

impl PendingStart {
    /// Runs the thread, unless its request was given up, or this is the thread that requested it.
    fn begin(mut self) {
        if !self.post.start.begin() {
            return;
        }
        self.shared.tallies.lost_starts.store(0, Ordering::Relaxed);
        let member = self.member.take();
        let member = member.unwrap_or_else(|| self.shared.clock.join());
        (self.shared.body)(&self.shared, &self.post, member, self.purpose);
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        if self.post.start.dropped() {
            self.shared.lost_start(&self.post, self.purpose);
        }
    }
}

/// Gives the work of a thread to the executor of the user.
fn lend_to(lend: &ThreadLender, start: PendingStart) -> io::Result<()> {
    let task = PlainTask::named("calls of a pool", move || start.begin());
    match contain(|| lend(task)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refused)) => {
            let why = refused.why();
            drop(refused);
            Err(io::Error::other(format!("it refused a task: {why}")))
        }
        Err(panic) => Err(io::Error::other(format!(
            "it panicked: {}",
            panic.message()
        ))),
    }
}
