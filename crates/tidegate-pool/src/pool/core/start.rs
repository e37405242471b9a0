//! How a pool starts its threads, and what happens if the system cannot start one.

use std::sync::Arc;

use tidegate_core::{RejectReason, Rejected, ThreadBuilder};

use crate::pool::queue::{Job, JobKey};

use super::lanes::{Lane, Purpose};
use super::shared::{PoolDispatchGuard, Shared};
use super::shutdown::is_over;
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
        if self.start_thread(post, Purpose::OwnJob) {
            return Ok(None);
        }
        match post.worker_slot.try_take() {
            Some(job) => self.offer_without_start(job, lane),
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
        if !self.threads.has_spawner() {
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
        let member = self.clock.join();
        let (shared, mine, body) = (self.arc(), Arc::clone(post), self.body);
        let started = self
            .threads
            .spawn(move || body(&shared, &mine, member, purpose));
        let mut turn = self.dispatcher.turn();
        if started.is_ok() {
            turn.counts.started_threads += 1;
            return true;
        }
        turn.counts.failed_starts += 1;
        turn.workers.remove(post);
        let wake = turn.not_started(purpose == Purpose::Waiting);
        turn.counts.wakeups += u64::from(wake.is_some());
        let over = is_over(&turn);
        self.end_turn(turn, || drop(wake));
        if over {
            self.end();
        }
        false
    }

    /// Places the job without a new thread, after none could be started.
    fn offer_without_start(&self, job: Job, lane: Lane) -> Result<Option<JobKey>, Rejected<Job>> {
        let mut turn = self.dispatcher.turn();
        let handed = turn
            .give_to_idle(job)
            .or_else(|job| self.dispatcher.claim(job));
        match handed {
            Ok(wake) => {
                self.end_turn(turn, || drop(wake));
                Ok(None)
            }
            Err(job) if turn.threads() > 0 && turn.has_room(lane) => {
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
    pub(super) fn start_for_all_waiting(&self) {
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
