//! What a worker thread of a pool does.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::Executor;
use tidegate_core::executor::{WaitPolicy, enter, is_current, wait_policy};
use tidegate_core::internal::{ClockMember, FastClock, SpinWait, contain};

use crate::executor::mark_worker;
use crate::pool::queue::Job;
use crate::pool::raw::{SlotWait, WorkerStep};

use super::counts::JobDuration;
use super::lanes::Purpose;
use super::shared::{PoolDispatchGuard, Shared};
use super::shutdown::is_over;
use super::workers::WorkerEntry;

tidegate_core::internal::prim::thread_local! {
    /// `true` if the job on this thread has announced its end and the dispatcher has counted that.
    static COMING: Cell<bool> = const { Cell::new(false) };
}

impl Shared {
    /// Records that the job on this thread is about to end; at most once per job. Does nothing if
    /// the pool has a queue, because new jobs can wait there.
    pub(crate) fn about_to_end(&self) {
        if !self.has_queue()
            && is_current(self.id)
            && !COMING.with(|ending_jobs| ending_jobs.replace(true))
        {
            self.dispatcher.turn().ending_jobs += 1;
        }
    }
}

/// Runs jobs until the dispatcher tells the thread to end.
pub(crate) fn run(
    shared: &Arc<Shared>,
    post: &Arc<WorkerEntry>,
    mut member: ClockMember,
    purpose: Purpose,
) {
    member.enter();
    let marked = mark_worker(shared.id);
    let policy = match &shared.lender {
        None => WaitPolicy::Free,
        // A borrowed thread keeps the policy of its owner.
        Some(_) => wait_policy(),
    };
    let mark = enter(Arc::clone(shared) as Arc<dyn Executor>, policy);
    let entered = post.running.enter();
    let name = || std::thread::current().name().unwrap_or("?").to_owned();
    post.thread.get_or_init(name);
    let mut worker = Worker {
        shared,
        post,
        look: SpinWait::new(),
        done: 0,
        took: None,
        last: false,
    };
    let mut job = match purpose {
        Purpose::Waiting => worker.first_of_waiting(),
        Purpose::OwnJob(_) | Purpose::Spare => worker.first(),
    };
    while let Some(next) = job {
        worker.run(next);
        job = worker.next();
    }
    let last = worker.last;
    drop(entered);
    drop(mark);
    drop(marked);
    if last {
        shared.end();
    }
}

struct Worker<'a> {
    shared: &'a Arc<Shared>,
    post: &'a Arc<WorkerEntry>,
    look: SpinWait,
    /// Jobs that ran and are not counted yet: 0 or 1.
    done: u64,
    /// The times of the last job, if times are measured.
    took: Option<JobDuration>,
    /// Set if this is the last thread of a stopped pool.
    last: bool,
}

impl Worker<'_> {
    /// Returns the next job, or `None` if the thread ends.
    fn next(&mut self) -> Option<Job> {
        let has_come = COMING.with(|ending_jobs| ending_jobs.replace(false));
        let mut turn = self.shared.dispatcher.turn();
        turn.ending_jobs -= usize::from(has_come);
        self.post.running.idle();
        turn.counts
            .add_done(std::mem::take(&mut self.done), self.took.take());
        let next = turn.next_step(&self.post.worker_slot);
        self.settle(&mut turn, &next);
        self.shared.end_turn(turn, || ());
        match next {
            WorkerStep::Run(job) => Some(job),
            WorkerStep::Wait { look } => self.wait(look),
            WorkerStep::Leave => None,
        }
    }

    /// Returns the job that the thread was started with, or else the next job.
    fn first(&mut self) -> Option<Job> {
        let own = self.post.worker_slot.try_take_with(|job| self.begin(job));
        own.or_else(|| self.next())
    }

    /// Returns the first job of a thread that was started for queued jobs. May wake or start
    /// another worker.
    fn first_of_waiting(&mut self) -> Option<Job> {
        let mut turn = self.shared.dispatcher.turn();
        let (next, sent) = turn.started(&self.post.worker_slot);
        self.settle(&mut turn, &next);
        self.shared.carry_out(turn, sent);
        match next {
            WorkerStep::Run(job) => Some(job),
            WorkerStep::Wait { look } => self.wait(look),
            WorkerStep::Leave => None,
        }
    }

    fn run(&mut self, job: Job) {
        self.done += 1;
        if job.is_cancelled() {
            self.shared
                .tallies
                .cancelled
                .fetch_add(1, Ordering::Relaxed);
            let name = job.name();
            if let Err(panic) = contain(|| drop(job)) {
                self.shared.report_panic(name, panic);
            }
            return;
        }
        let since = job.since;
        let task = job.into_task();
        let name = task.name();
        let clock = self.shared.times.as_ref();
        let began = clock.map(FastClock::nanos);
        if let Some(began) = began {
            self.post.began.store(began.max(1), Ordering::Relaxed);
        }
        if let Err(panic) = contain(|| task.run()) {
            self.shared.report_panic(name, panic);
        }
        if let (Some(clock), Some(began)) = (clock, began) {
            self.took = Some(JobDuration {
                waited: began.saturating_sub(since),
                ran: clock.nanos().saturating_sub(began),
            });
        }
    }

    /// Spins for a while, then sleeps, until there is a job or the thread ends.
    fn wait(&mut self, look: bool) -> Option<Job> {
        let Self { shared, post, .. } = *self;
        let worker_slot = &post.worker_slot;
        if look && !shared.clock.is_manual() {
            let _given = self.look.spin_until(|| worker_slot.is_given());
            if let Some(job) = worker_slot.try_take_with(|job| self.begin(job)) {
                shared.look_at_low();
                return Some(job);
            }
        }
        let mut since = shared.clock.nanos();
        // A thread that may stay sleeps without a deadline. A change of the limits wakes it.
        let mut stays = false;
        loop {
            let keep_alive = shared.keep_alive();
            let may_end = keep_alive > 0 && !stays;
            let deadline = may_end.then(|| since.saturating_add(keep_alive));
            match worker_slot.sleep_with(&shared.clock, deadline, |job| self.begin(job)) {
                SlotWait::Given { job, asleep } => {
                    match asleep {
                        // More workers may be needed for the queued jobs.
                        true => shared.send_worker(|turn| turn.woken_worker_arrived()),
                        false => shared.look_at_low(),
                    }
                    return Some(job);
                }
                // The runtime may have submitted jobs after the pool was closed.
                SlotWait::Closed => return self.next(),
                SlotWait::Woken => {
                    let now = shared.clock.nanos();
                    let keep_alive = shared.keep_alive();
                    let expired = keep_alive > 0 && now >= since.saturating_add(keep_alive);
                    since = if expired { now } else { since };
                    match self.recheck_idle(expired) {
                        WorkerStep::Run(job) => return Some(job),
                        WorkerStep::Leave => return None,
                        WorkerStep::Wait { .. } => stays = expired,
                    }
                }
            }
        }
    }

    fn recheck_idle(&mut self, expired: bool) -> WorkerStep<Job> {
        let mut turn = self.shared.dispatcher.turn();
        let next = turn.recheck_idle(&self.post.worker_slot, expired);
        self.settle(&mut turn, &next);
        self.shared.end_turn(turn, || ());
        next
    }

    /// Applies the decision while the lock is still held. So a job that can no longer be handed
    /// back is visible as running to the thread that ends the pool.
    #[inline]
    fn settle(&mut self, turn: &mut PoolDispatchGuard<'_>, next: &WorkerStep<Job>) {
        match next {
            WorkerStep::Run(job) => self.begin(job),
            WorkerStep::Wait { .. } => {}
            WorkerStep::Leave => self.leave(turn),
        }
    }

    #[inline]
    fn begin(&self, job: &Job) {
        self.post.running.begin(job.task());
    }

    /// Removes the thread from the list of workers; its count was taken back before.
    #[cold]
    fn leave(&mut self, turn: &mut PoolDispatchGuard<'_>) {
        turn.workers.remove(self.post);
        turn.counts.ended_threads += 1;
        self.last = is_over(turn);
    }
}
