//! What waits for a pool's threads, and what is counted: everything under the pool's lock.

use std::sync::{Arc, OnceLock};

use tidegate_core::{Running, contain};
use tidegate_promise::Promise;

use crate::executor::ShutdownError;
use crate::pool::budget::Budget;
use crate::pool::limits::PoolLimits;
use crate::pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use crate::pool::raw::{Seat, Work};
use crate::pool::stop_report::StopReport;

use super::counts::Counts;

/// Internal jobs in a row after which a user job gets its turn.
const INTERNAL_RUN: u8 = 16;

/// Which way a job comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Jobs of the runtime itself: never refused for want of room.
    Internal,
    /// Jobs of users: bounded.
    User,
}

impl Lane {
    /// Returns `true` if its jobs get threads up to the maximum before they wait, whatever the
    /// pool's growth: the runtime's own may be what a busy thread waits for.
    pub(super) fn is_urgent(self) -> bool {
        self == Self::Internal
    }
}

/// The two lanes and everything that changes with them. What changes with each job comes first:
/// it moves between threads, and with it as few cache lines as possible.
#[repr(C)]
pub(super) struct Lanes {
    user: Box<dyn JobQueue>,
    /// User jobs that wait, as the queue said after its last change. The turn asks for it where a
    /// panic of the queue would cost a job.
    waiting: usize,
    internal: JobList,
    /// Internal jobs taken since the last user job.
    in_a_row: u8,
    /// What the hook of low threads was told last, and whether a thread is telling it something.
    pub(super) low: bool,
    pub(super) telling: bool,
    /// Jobs that the user's queue gave up; dropped by whoever holds the turn, after it.
    pub(super) shed: Vec<Job>,
    /// Workers whose job has said that it is about to end: each comes for one more at once.
    pub(super) coming: usize,
    pub(super) counts: Counts,
    pub(super) limits: PoolLimits,
    pub(super) budget: Budget,
    pub(super) stop: Option<StopPlan>,
    /// Taken in the turn that empties the queue for the report: whoever takes it reports.
    pub(super) termination: Option<Promise<StopReport, ShutdownError>>,
    /// Every thread, from the turn in which it is counted.
    pub(super) roster: Vec<Arc<Post>>,
}

/// One thread of a pool, started or about to.
#[derive(Default)]
pub(crate) struct Post {
    pub(super) seat: Arc<Seat<Job>>,
    /// Shows a job from the moment that it can no longer be handed back until it is counted.
    pub(super) running: Arc<Running>,
    /// The thread's name, once it runs.
    pub(super) thread: OnceLock<String>,
}

/// What a thread is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The job that lies in its seat.
    OwnJob,
    /// Jobs that wait in the queue.
    Waiting,
    /// Nothing yet.
    Spare,
}

/// What was asked of a pool at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopPlan {
    pub(super) deadline: u64,
    /// When running jobs are told to stop.
    pub(super) tell_at: u64,
    /// Jobs that were done when the end began.
    pub(super) done: u64,
}

impl Lanes {
    pub(super) fn new(
        limits: PoolLimits,
        user: Box<dyn JobQueue>,
        termination: Promise<StopReport, ShutdownError>,
    ) -> Self {
        Self {
            user,
            waiting: 0,
            internal: JobList::default(),
            in_a_row: 0,
            low: false,
            telling: false,
            shed: Vec::new(),
            coming: 0,
            counts: Counts::default(),
            limits,
            budget: Budget::default(),
            stop: None,
            termination: Some(termination),
            roster: Vec::new(),
        }
    }

    /// Whether a job may wait. Without a queue it may for a worker that is about to come.
    pub(super) fn has_room(&self, lane: Lane) -> bool {
        let places = match self.limits.queue {
            0 => self.coming,
            places => places,
        };
        lane == Lane::Internal || self.user.len() < places
    }

    /// Puts a job into its lane. Internal jobs have no key: nobody takes them back.
    pub(super) fn push(&mut self, lane: Lane, job: Job) -> Option<JobKey> {
        let key = match lane {
            Lane::Internal => {
                self.internal.push_back(job);
                None
            }
            Lane::User => {
                let key = self.user.push(job);
                self.count(self.waiting + 1);
                Some(key)
            }
        };
        self.counts.most_queued = self.counts.most_queued.max(self.len());
        key
    }

    pub(super) fn remove(&mut self, key: JobKey) -> Option<Job> {
        let job = self.user.remove(key)?;
        self.count(self.waiting.saturating_sub(1));
        self.counts.removed += 1;
        Some(job)
    }

    /// Makes room for `job`, if the queue agrees.
    pub(super) fn displace(&mut self, job: &Job) -> Option<Job> {
        let displaced = self.user.displace(job)?;
        self.count(self.waiting.saturating_sub(1));
        self.counts.displaced += 1;
        Some(displaced)
    }

    pub(super) fn user_len(&self) -> usize {
        self.waiting
    }

    /// Asks the queue how many jobs wait. It is code of the user's: if it panics, `guess` has to do.
    fn count(&mut self, guess: usize) {
        self.waiting = contain(|| self.user.len()).unwrap_or(guess);
    }

    pub(super) fn internal_len(&self) -> usize {
        self.internal.len()
    }

    /// Moves everything to `left`: internal jobs first, each lane in its order.
    pub(super) fn drain(&mut self, left: &mut Vec<Job>) {
        left.reserve(self.len());
        while let Some(job) = self.internal.pop_front() {
            left.push(job);
        }
        while let Some(Popped::Run(job) | Popped::Shed(job)) = self.user.pop() {
            left.push(job);
        }
        self.count(0);
    }

    /// A place for a thread that was counted.
    pub(super) fn enroll(&mut self) -> Arc<Post> {
        let post = Arc::new(Post::default());
        self.roster.push(Arc::clone(&post));
        post
    }

    /// Removes a thread that has ended, or could not be started.
    pub(super) fn strike(&mut self, post: &Arc<Post>) {
        self.roster.retain(|one| !Arc::ptr_eq(one, post));
    }

    fn pop_user(&mut self) -> Option<Job> {
        loop {
            let popped = self.user.pop();
            let less = usize::from(popped.is_some());
            self.count(self.waiting.saturating_sub(less));
            match popped? {
                Popped::Run(job) => return Some(job),
                Popped::Shed(job) => {
                    self.counts.shed += 1;
                    self.shed.push(job);
                }
            }
        }
    }
}

impl Work<Job> for Lanes {
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
