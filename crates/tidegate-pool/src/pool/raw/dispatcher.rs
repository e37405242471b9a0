//! The dispatcher's data: idle workers, queue and counts. `turn` has the decisions that are made
//! with the lock held.

use std::fmt;
use std::sync::Arc;

use tidegate_core::internal::prim::{AtomicU64, ModelMutex as Mutex, Ordering};

use super::reserve::ReservedWorkers;
use super::wake_backoff::WakeBackoff;
use super::worker_slot::WorkerSlot;

/// The queue of a [`Dispatcher`]. The jobs belong to the code that created the dispatcher.
pub trait JobSource<J> {
    /// Removes and returns the job that is to run next.
    fn take(&mut self) -> Option<J>;
    /// Returns the number of queued jobs.
    fn len(&self) -> usize;
    /// Returns `true` if no job is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns how many of the queued jobs may use any thread up to the maximum, regardless of
    /// [`Growth`].
    fn urgent(&self) -> usize {
        0
    }
}

/// What a pool does first when all its threads are busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Starts threads up to the maximum, then queues.
    #[default]
    ThreadsFirst,
    /// Starts threads up to the core size, and at least one; then queues. Starts more threads when
    /// the queue is full.
    QueueFirst,
}

/// The limits on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchLimits {
    /// Threads that stay alive while idle.
    pub core: usize,
    /// The maximum number of threads.
    pub max: usize,
    /// Leased threads. One job may occupy each of them for an unlimited time.
    pub leased: usize,
    /// Whether threads are started or jobs are queued first when all threads are busy.
    pub growth: Growth,
}

impl DispatchLimits {
    /// Returns how many threads are started before a job that is not urgent is queued. Leased
    /// threads come on top of the core, because no other job gets one of them.
    pub fn first(&self) -> usize {
        match self.growth {
            Growth::ThreadsFirst => self.max,
            Growth::QueueFirst => (self.core.max(1) + self.leased).min(self.max),
        }
    }
}

/// The lowest bit of the `finished_jobs` word: a deferred wake-up is still owed.
const PUT_OFF: u64 = 1;
/// One step of the counter in that word.
pub(super) const MOVE: u64 = 2;

/// Idle workers, queued jobs and the counts of both, under one lock.
///
/// `W` is the queue. See the module for how jobs reach workers.
///
/// Each use of the lock writes here, and different threads alternate. Data that changes lies
/// together, in the order of these fields, so that as few cache lines as possible move with the
/// lock. A queue should also begin with the fields that change.
#[repr(C, align(64))]
pub struct Dispatcher<J, W> {
    pub(super) tally: AtomicU64,
    /// How often a worker has requested its next job. The lowest bit is set while a wake-up is
    /// deferred.
    pub(super) finished_jobs: AtomicU64,
    pub(super) state: Mutex<State<J, W>>,
    pub(super) reserve: ReservedWorkers<J>,
}

#[repr(C)]
pub(super) struct State<J, W> {
    /// How often a worker has requested its next job.
    pub(super) finished_jobs: u64,
    pub(super) threads: usize,
    /// Threads that were started for queued jobs and have not reached the dispatcher yet.
    pub(super) starting: usize,
    pub(super) wake_backoff: WakeBackoff,
    /// Set while a woken worker has not come back to the dispatcher.
    pub(super) searching: bool,
    /// Set while a wake-up is deferred: its submitter, or a busy worker, takes care of the queued
    /// jobs.
    pub(super) wake_deferred: bool,
    pub(super) closed: bool,
    /// Workers without a job end at once, instead of waiting for one.
    pub(super) idle_leave: bool,
    /// Newest last.
    pub(super) idle: Vec<Arc<WorkerSlot<J>>>,
    pub(super) limits: DispatchLimits,
    pub(super) work: W,
}

/// The counts of a dispatcher at one moment, read without its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchCounts {
    /// Idle workers that are not reserved.
    pub idle: usize,
    /// Threads that are started or about to start.
    pub threads: usize,
    /// Queued jobs.
    pub queued: usize,
}

/// The decision about a job.
#[derive(Debug)]
#[must_use = "the job may be inside"]
pub enum Dispatch<J> {
    /// An idle worker has the job.
    Handed(WorkerWake<J>),
    /// The job goes to a new thread, which is counted already.
    Start(J),
    /// The job has to wait. The caller adds it to the queue before it releases the lock.
    Queue(J),
    /// There is neither a thread nor a place in the queue for the job.
    Full(J),
}

/// The worker that takes care of the queued jobs.
#[derive(Debug)]
#[must_use = "jobs wait for it"]
pub enum WorkerWanted<J> {
    /// An idle worker, which got the first of the jobs.
    Idle(WorkerWake<J>),
    /// A new thread, which the caller has to start and which is counted already. The thread calls
    /// [`DispatchGuard::started`](super::DispatchGuard::started) first. If it cannot be started,
    /// [`DispatchGuard::not_started`](super::DispatchGuard::not_started) takes the count back.
    Start,
}

/// What a worker does next after a call of the dispatcher.
#[derive(Debug, PartialEq, Eq)]
pub enum WorkerStep<J> {
    /// Runs this job.
    Run(J),
    /// Waits in its slot.
    Wait {
        /// `true` if the worker spins for a while before it sleeps.
        look: bool,
    },
    /// Ends. The thread is no longer counted.
    Leave,
}

/// A worker that may have to be woken after the lock is released. Dropping this value wakes it.
#[must_use = "dropping it wakes the worker: drop it after the lock"]
pub struct WorkerWake<J> {
    pub(super) worker_slot: Arc<WorkerSlot<J>>,
    pub(super) asleep: bool,
}

impl<J> WorkerWake<J> {
    /// Returns `true` if the worker sleeps, so that waking it costs a system call.
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }
}

impl<J> Drop for WorkerWake<J> {
    fn drop(&mut self) {
        if self.asleep {
            self.worker_slot.wake();
        }
    }
}

impl<J> fmt::Debug for WorkerWake<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerWake")
            .field("asleep", &self.asleep)
            .finish_non_exhaustive()
    }
}

impl<J, W: JobSource<J>> Dispatcher<J, W> {
    /// Creates a dispatcher without workers over the queue `work`.
    pub fn new(work: W, limits: DispatchLimits, reserved: usize) -> Self {
        Self {
            state: Mutex::new(State {
                work,
                idle: Vec::new(),
                searching: false,
                wake_deferred: false,
                wake_backoff: WakeBackoff::new(),
                threads: 0,
                starting: 0,
                limits,
                closed: false,
                idle_leave: false,
                finished_jobs: 0,
            }),
            reserve: ReservedWorkers::new(reserved),
            tally: AtomicU64::new(0),
            finished_jobs: AtomicU64::new(0),
        }
    }

    /// Returns the reserved workers.
    pub fn reserve(&self) -> &ReservedWorkers<J> {
        &self.reserve
    }

    /// Gives `job` to a reserved worker. Takes no lock and never waits.
    ///
    /// # Errors
    ///
    /// Returns the job if no worker is reserved, or if the workers were
    /// [dismissed](super::DispatchGuard::dismiss).
    pub fn claim(&self, job: J) -> Result<WorkerWake<J>, J> {
        let Some(worker_slot) = self.reserve.claim() else {
            return Err(job);
        };
        let asleep = worker_slot.give(job)?;
        Ok(WorkerWake {
            worker_slot,
            asleep,
        })
    }

    /// Returns the counts at this moment, without the lock.
    pub fn tally(&self) -> DispatchCounts {
        let word = self.tally.load(Ordering::Relaxed);
        DispatchCounts {
            idle: (word & 0xFFFF) as usize,
            threads: (word >> 16 & 0xFFFF) as usize,
            queued: (word >> 32) as usize,
        }
    }
}

impl<J, W> Dispatcher<J, W> {
    /// Returns how often a worker has requested its next job, without the lock. While this grows,
    /// not all workers are blocked by their jobs.
    pub fn finished_jobs(&self) -> u64 {
        self.finished_jobs.load(Ordering::Relaxed) / MOVE
    }

    /// Returns `true` if a deferred wake-up is still owed; a snapshot, for the submitter that
    /// deferred it.
    #[inline]
    pub fn is_wake_deferred(&self) -> bool {
        self.finished_jobs.load(Ordering::Relaxed) & PUT_OFF != 0
    }
}

impl<J, W> fmt::Debug for Dispatcher<J, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("reserve", &self.reserve)
            .finish_non_exhaustive()
    }
}

pub(super) fn hand<J>(worker_slot: Arc<WorkerSlot<J>>, job: J) -> WorkerWake<J> {
    let Ok(asleep) = worker_slot.give(job) else {
        unreachable!(
            "an idle worker's slot is empty, and only the thread that took it out uses it"
        );
    };
    WorkerWake {
        worker_slot,
        asleep,
    }
}
