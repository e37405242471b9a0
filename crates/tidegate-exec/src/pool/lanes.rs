//! What waits for a pool's threads, and what is counted: everything under the pool's lock.

use std::sync::Arc;

use tidegate_sync::{Running, Work};

use super::budget::Budget;
use super::job::Job;
use super::limits::PoolLimits;
use super::queue::{JobKey, JobList, JobQueue, Popped};
use super::times::{JobTimes, Took};

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

/// The two lanes and everything that changes with them. What changes with each job comes first:
/// it moves between threads, and with it as few cache lines as possible.
#[repr(C)]
pub(super) struct Lanes {
    user: Box<dyn JobQueue>,
    internal: JobList,
    /// Internal jobs taken since the last user job.
    in_a_row: u8,
    pub(super) low: bool,
    /// Jobs that the user's queue gave up; dropped by whoever holds the turn, after it.
    pub(super) shed: Vec<Job>,
    /// Workers whose job has said that it is about to end: each comes for one more at once.
    pub(super) coming: usize,
    pub(super) counts: Counts,
    pub(super) limits: PoolLimits,
    pub(super) budget: Budget,
    pub(super) stop: Option<StopPlan>,
    pub(super) roster: Vec<Member>,
    next_member: u64,
}

/// One running thread.
pub(super) struct Member {
    pub(super) number: u64,
    pub(super) thread: String,
    pub(super) running: Arc<Running>,
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

/// Counters that are only touched with the lock held; those that each job touches come first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) done: u64,
    pub(super) wakeups: u64,
    pub(super) most_queued: usize,
    pub(super) removed: u64,
    pub(super) displaced: u64,
    pub(super) shed: u64,
    pub(super) started_threads: u64,
    pub(super) ended_threads: u64,
    pub(super) most_threads: usize,
    pub(super) failed_starts: u64,
    pub(super) waits: JobTimes,
    pub(super) runs: JobTimes,
}

impl Counts {
    /// Counts jobs that a worker has run since it was last at the desk: none or one.
    pub(super) fn add_done(&mut self, jobs: u64, took: Option<Took>) {
        self.done += jobs;
        if let Some(took) = took {
            self.waits.add(took.waited);
            self.runs.add(took.ran);
        }
    }
}

impl Lanes {
    pub(super) fn new(limits: PoolLimits, user: Box<dyn JobQueue>) -> Self {
        Self {
            user,
            internal: JobList::default(),
            in_a_row: 0,
            low: false,
            shed: Vec::new(),
            coming: 0,
            counts: Counts::default(),
            limits,
            budget: Budget::default(),
            stop: None,
            roster: Vec::new(),
            next_member: 0,
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
            Lane::User => Some(self.user.push(job)),
        };
        self.counts.most_queued = self.counts.most_queued.max(self.len());
        key
    }

    pub(super) fn remove(&mut self, key: JobKey) -> Option<Job> {
        let job = self.user.remove(key)?;
        self.counts.removed += 1;
        Some(job)
    }

    /// Makes room for `job`, if the queue agrees.
    pub(super) fn displace(&mut self, job: &Job) -> Option<Job> {
        let displaced = self.user.displace(job)?;
        self.counts.displaced += 1;
        Some(displaced)
    }

    pub(super) fn user_len(&self) -> usize {
        self.user.len()
    }

    pub(super) fn internal_len(&self) -> usize {
        self.internal.len()
    }

    /// Takes everything out: internal jobs first, each lane in its order.
    pub(super) fn drain(&mut self) -> Vec<Job> {
        let mut left = Vec::with_capacity(self.len());
        while let Some(job) = self.internal.pop_front() {
            left.push(job);
        }
        while let Some(Popped::Run(job) | Popped::Shed(job)) = self.user.pop() {
            left.push(job);
        }
        left
    }

    pub(super) fn enroll(&mut self, thread: String, running: Arc<Running>) -> u64 {
        let number = self.next_member;
        self.next_member += 1;
        self.roster.push(Member {
            number,
            thread,
            running,
        });
        number
    }

    pub(super) fn strike(&mut self, number: u64) {
        self.counts.ended_threads += 1;
        self.roster.retain(|member| member.number != number);
    }

    fn pop_user(&mut self) -> Option<Job> {
        loop {
            match self.user.pop()? {
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
        self.internal.len() + self.user.len()
    }
}
