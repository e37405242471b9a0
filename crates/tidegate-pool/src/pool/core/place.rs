//! How a job gets a thread or a place in the queue.

use tidegate_core::{RejectReason, Rejected};

use crate::pool::policy::PoolPolicy;
use crate::pool::queue::{Job, JobKey};
use crate::pool::raw::{Dispatch, WorkerWanted};

use super::lanes::{Lane, Purpose};
use super::shared::{PoolDispatchGuard, Shared};
use super::start::add_worker;

impl Shared {
    /// Gives a job to a thread or queues it. Returns the key of a queued user job.
    #[inline]
    pub(super) fn offer(&self, mut job: Job, lane: Lane) -> Result<Option<JobKey>, Rejected<Job>> {
        self.stamp(&mut job);
        let turn = self.dispatcher.turn();
        // As long as a worker thread exists, tasks of the runtime itself can still run.
        if turn.is_closed() && (lane == Lane::User || turn.threads() == 0) {
            return Err(Rejected::new(job, RejectReason::Closed));
        }
        self.offer_in(turn, job, lane, false)
    }

    /// Gives a user job to a thread or queues it, for a caller that must not wait and must not run
    /// user code: no policy applies to a job that is refused.
    pub(super) fn offer_plainly(&self, mut job: Job) -> Result<(), Rejected<Job>> {
        self.stamp(&mut job);
        let turn = self.dispatcher.turn();
        if turn.is_closed() {
            return Err(Rejected::new(job, RejectReason::Closed));
        }
        self.offer_in(turn, job, Lane::User, true).map(drop)
    }

    /// Gives a job to a thread or queues it, within a turn. If `plainly`, the caller neither waits
    /// for a worker nor displaces a job.
    #[inline(always)]
    pub(super) fn offer_in(
        &self,
        mut turn: PoolDispatchGuard<'_>,
        job: Job,
        lane: Lane,
        plainly: bool,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        let has_room = turn.has_room(lane);
        if has_room
            && !plainly
            && let Some(spins) = turn.may_defer_wake()
        {
            let key = turn.push(lane, job);
            turn.counts.accepted += 1;
            turn.defer_wake();
            self.end_turn(turn, || self.wait_for_taker(spins));
            return Ok(key);
        }
        match turn.place(job, has_room, lane.is_urgent()) {
            Dispatch::Handed(wake) => {
                turn.counts.accepted += 1;
                turn.counts.wakeups += u64::from(wake.is_asleep());
                self.end_turn(turn, || drop(wake));
                Ok(None)
            }
            Dispatch::Queue(job) => {
                let key = turn.push(lane, job);
                turn.counts.accepted += 1;
                self.end_turn(turn, || ());
                Ok(key)
            }
            Dispatch::Start(job) => {
                turn.counts.accepted += 1;
                self.start(turn, job, lane)
            }
            Dispatch::Full(job) if plainly => Err(Rejected::new(job, RejectReason::Full)),
            Dispatch::Full(job) => self.offer_by_force(turn, job),
        }
    }

    /// Records when the job arrived, if times are measured.
    #[inline]
    pub(super) fn stamp(&self, job: &mut Job) {
        if let Some(clock) = &self.times {
            job.since = clock.nanos();
        }
    }

    /// Spins briefly until a busy worker takes the job whose wake-up was deferred. If none does,
    /// wakes a worker after all.
    ///
    /// Each pause is twice as long as the one before. The word that is read lies beside the lock, so
    /// each reading takes the cache line from the worker that is about to come.
    #[inline]
    fn wait_for_taker(&self, spins: u32) {
        let (mut spun, mut pause) = (0, 1);
        while spun < spins {
            for _ in 0..pause {
                std::hint::spin_loop();
            }
            if !self.dispatcher.is_wake_deferred() {
                return;
            }
            spun += pause;
            pause *= 2;
        }
        self.send_worker(|turn| turn.perform_deferred_wake());
    }

    /// Sends a worker to the queued jobs, as `send` decides.
    pub(super) fn send_worker(
        &self,
        send: impl FnOnce(&mut PoolDispatchGuard<'_>) -> Option<WorkerWanted<Job>>,
    ) {
        let mut turn = self.dispatcher.turn();
        let sent = send(&mut turn);
        self.carry_out(turn, sent);
    }

    /// Releases the dispatch guard and carries out what was decided for the queued jobs.
    pub(super) fn carry_out(
        &self,
        mut turn: PoolDispatchGuard<'_>,
        sent: Option<WorkerWanted<Job>>,
    ) {
        match sent {
            Some(WorkerWanted::Idle(wake)) => {
                turn.counts.wakeups += 1;
                self.end_turn(turn, || drop(wake));
            }
            Some(WorkerWanted::Start) => {
                let post = add_worker(&mut turn);
                self.end_turn(turn, || self.start_thread(&post, Purpose::Waiting));
            }
            None => self.end_turn(turn, || ()),
        }
    }

    /// Displaces a queued job to make room, if that is the policy. Otherwise returns `job` as
    /// refused.
    fn offer_by_force(
        &self,
        mut turn: PoolDispatchGuard<'_>,
        job: Job,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        let displaced = match self.policy {
            PoolPolicy::DropOldest => turn.displace(&job),
            _ => None,
        };
        if displaced.is_none() {
            return self.end_turn(turn, || Err(Rejected::new(job, RejectReason::Full)));
        }
        let key = turn.push(Lane::User, job);
        turn.counts.accepted += 1;
        self.end_turn(turn, || ());
        self.displace(displaced);
        Ok(key)
    }

    /// Removes a queued job.
    pub(crate) fn remove(&self, key: JobKey) -> Option<Job> {
        let mut turn = self.dispatcher.turn();
        let job = turn.remove(key);
        self.end_turn(turn, || ());
        job
    }
}
