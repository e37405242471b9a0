//! The data under the pool's lock: two lanes of queued jobs, the worker entries, limits and
//! counters. A lane is a queue for one kind of job.

use std::sync::Arc;

use tidegate_promise::Promise;

use crate::executor::ShutdownError;
use crate::pool::budget::Budget;
use crate::pool::limits::PoolLimits;
use crate::pool::queue::{Breach, Job, JobKey, JobList, JobQueue, Popped, UsersQueue};
use crate::pool::raw::JobSource;
use crate::pool::shutdown_report::ShutdownReport;

use super::counts::Counts;
use super::workers::Workers;

/// Internal jobs in a row after which one user job runs.
const INTERNAL_RUN: u8 = 16;

/// The lane of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Jobs of the runtime itself. They are never refused because the queue is full.
    Internal,
    /// Jobs of users. Their number is bounded.
    User,
}

impl Lane {
    /// Returns `true` if jobs of this lane get threads up to the maximum before they are queued,
    /// regardless of the pool's growth. A busy thread may be waiting for a job of the runtime.
    pub(super) fn is_urgent(self) -> bool {
        self == Self::Internal
    }
}

/// The queue of user jobs.
pub(crate) enum UserLane {
    /// A queue of this workspace, which owns its jobs and keeps its contract.
    BuiltIn(Box<dyn JobQueue>),
    /// A queue of the user's own.
    Users(UsersQueue),
}

/// The two lanes and all data that changes with them. Fields that change with each job come first:
/// they move between threads, and should occupy as few cache lines as possible.
#[repr(C)]
pub(super) struct Lanes {
    user: UserLane,
    /// Queued user jobs.
    waiting: usize,
    internal: JobList,
    /// Internal jobs taken since the last user job.
    in_a_row: u8,
    /// The value that the low-threads hook was last called with, and whether a thread is calling it
    /// now.
    pub(super) low: bool,
    pub(super) calling_low_hook: bool,
    /// Jobs that the user's queue shed. The thread that holds the guard drops them after releasing
    /// it.
    pub(super) shed: Vec<Job>,
    /// What the user's queue did wrong, and the queue. The thread that holds the guard closes the
    /// pool.
    pub(super) breach: Option<Box<(Breach, UsersQueue)>>,
    /// Workers whose job has announced its end. Each of them takes one more job at once.
    pub(super) ending_jobs: usize,
    pub(super) counts: Counts,
    pub(super) limits: PoolLimits,
    pub(super) budget: Budget,
    pub(super) shutdown: Option<ShutdownPlan>,
    /// Taken under the guard that drains the queue for the report. The thread that takes it
    /// reports.
    pub(super) termination: Option<Promise<ShutdownReport, ShutdownError>>,
    /// All threads, from the moment that they are counted. Changed only with this lock held; read
    /// also without it.
    pub(super) workers: Arc<Workers>,
    /// `true` from the moment that the pool is closed until its scheduled tasks are cancelled.
    pub(super) cancelling_timers: bool,
    /// How many scheduled tasks were pending when the pool was closed.
    pub(super) cancelled_timers: u64,
}

/// The reason for which a thread is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The job of this lane in its worker slot.
    OwnJob(Lane),
    /// Queued jobs.
    Waiting,
    /// None yet.
    Spare,
}

/// The deadlines of a pool that stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShutdownPlan {
    pub(super) deadline: u64,
    /// When running jobs are interrupted.
    pub(super) interrupt_at: u64,
    /// The number of finished jobs when the shutdown began.
    pub(super) done: u64,
}

impl Lanes {
    pub(super) fn new(
        limits: PoolLimits,
        user: UserLane,
        termination: Promise<ShutdownReport, ShutdownError>,
        workers: &Arc<Workers>,
    ) -> Self {
        Self {
            user,
            waiting: 0,
            internal: JobList::default(),
            in_a_row: 0,
            low: false,
            calling_low_hook: false,
            shed: Vec::new(),
            breach: None,
            ending_jobs: 0,
            counts: Counts::default(),
            limits,
            budget: Budget::default(),
            shutdown: None,
            termination: Some(termination),
            workers: Arc::clone(workers),
            cancelling_timers: false,
            cancelled_timers: 0,
        }
    }

    /// Returns `true` if a job may be queued. A pool without a queue accepts one for each worker
    /// whose job has announced its end.
    pub(super) fn has_room(&self, lane: Lane) -> bool {
        let places = match self.limits.queue {
            0 => self.ending_jobs,
            places => places,
        };
        lane == Lane::Internal || self.waiting < places
    }

    /// Adds a job to its lane. Internal jobs get no key, because they are never removed.
    pub(super) fn push(&mut self, lane: Lane, job: Job) -> Option<JobKey> {
        let key = match lane {
            Lane::Internal => {
                self.internal.push_back(job);
                None
            }
            Lane::User => {
                self.waiting += 1;
                Some(match &mut self.user {
                    UserLane::BuiltIn(queue) => queue.push(job),
                    UserLane::Users(users) => {
                        let (key, told) = users.push(job);
                        self.heed(told);
                        key
                    }
                })
            }
        };
        self.counts.most_queued = self.counts.most_queued.max(self.len());
        key
    }

    pub(super) fn remove(&mut self, key: JobKey) -> Option<Job> {
        let removed = match &mut self.user {
            UserLane::BuiltIn(queue) => queue.remove(key),
            UserLane::Users(users) => {
                let (job, told) = users.remove(key);
                self.heed(told);
                job
            }
        };
        self.waiting -= usize::from(removed.is_some());
        self.counts.removed += u64::from(removed.is_some());
        removed
    }

    /// Removes a job to make room for `job`, if the queue agrees.
    pub(super) fn displace(&mut self, job: &Job) -> Option<Job> {
        let displaced = match &mut self.user {
            UserLane::BuiltIn(queue) => queue.displace(job),
            UserLane::Users(users) => {
                let told = users.displace(job);
                self.heed(told)
            }
        };
        self.waiting -= usize::from(displaced.is_some());
        self.counts.displaced += u64::from(displaced.is_some());
        displaced
    }

    pub(super) fn user_len(&self) -> usize {
        self.waiting
    }

    pub(super) fn internal_len(&self) -> usize {
        self.internal.len()
    }

    /// Moves all internal jobs to `left`, in their order.
    pub(super) fn drain_internal(&mut self, left: &mut Vec<Job>) {
        left.reserve(self.internal.len());
        while let Some(job) = self.internal.pop_front() {
            left.push(job);
        }
    }

    /// Moves all user jobs to `left`, in their order.
    pub(super) fn drain_user(&mut self, left: &mut Vec<Job>) {
        left.reserve(self.waiting);
        // A queue that breaks its contract here returns nothing once.
        while self.waiting > 0 {
            if let Some(Popped::Run(job) | Popped::Shed(job)) = self.take_user() {
                left.push(job);
            }
        }
    }

    /// Moves all jobs to `left`, and counts them as displaced.
    pub(super) fn displace_all(&mut self, left: &mut Vec<Job>) {
        let before = left.len();
        self.drain_internal(left);
        self.drain_user(left);
        self.counts.displaced += (left.len() - before) as u64;
    }

    fn pop_user(&mut self) -> Option<Job> {
        loop {
            match self.take_user()? {
                Popped::Run(job) => return Some(job),
                Popped::Shed(job) => {
                    self.counts.shed += 1;
                    self.shed.push(job);
                }
            }
        }
    }

    fn take_user(&mut self) -> Option<Popped> {
        let popped = match &mut self.user {
            UserLane::BuiltIn(queue) => queue.pop(),
            UserLane::Users(users) => {
                let told = users.pop();
                self.heed(told)
            }
        };
        self.waiting -= usize::from(popped.is_some());
        popped
    }

    /// Returns what the user's queue told. If it broke its contract, puts it aside.
    fn heed<R: Default>(&mut self, told: Result<R, Breach>) -> R {
        told.unwrap_or_else(|breach| {
            self.put_aside(breach);
            R::default()
        })
    }

    #[cold]
    fn put_aside(&mut self, breach: Breach) {
        let plain = UserLane::BuiltIn(Box::new(JobList::default()));
        if let UserLane::Users(users) = std::mem::replace(&mut self.user, plain) {
            let (jobs, users) = users.give_up();
            self.user = UserLane::BuiltIn(Box::new(jobs));
            self.breach = Some(Box::new((breach, users)));
        }
    }
}

impl JobSource<Job> for Lanes {
    fn take(&mut self) -> Option<Job> {
        if self.in_a_row >= INTERNAL_RUN {
            self.in_a_row = 0;
            if let Some(job) = self.pop_user() {
                return Some(job);
            }
        }
        if let Some(job) = self.internal.pop_front() {
            self.in_a_row += 1;
            return Some(job);
        }
        self.in_a_row = 0;
        self.pop_user()
    }

    fn len(&self) -> usize {
        self.internal.len() + self.waiting
    }

    fn urgent(&self) -> usize {
        self.internal.len()
    }
}
