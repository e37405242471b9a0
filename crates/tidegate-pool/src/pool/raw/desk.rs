//! The desk: who gets a job, who sits down, who leaves.

use std::fmt;
use std::sync::Arc;

use tidegate_core::prim::{AtomicU64, ModelMutex as Mutex, Ordering};

use super::patience::Patience;
use super::reserve::Reserve;
use super::seat::Seat;

/// What waits at a [`Desk`]: the jobs themselves belong to whoever made it.
pub trait Work<J> {
    /// Takes the job that is to run next.
    fn take(&mut self) -> Option<J>;
    /// How many jobs wait.
    fn len(&self) -> usize;
    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many of the jobs that wait may have any thread up to the maximum, whatever the
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
    /// Starts threads up to the core size, and at least one, then queues, and starts more when
    /// the queue is full.
    QueueFirst,
}

/// How many threads there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskLimits {
    /// Threads that stay though they are idle.
    pub core: usize,
    /// The most threads.
    pub max: usize,
    /// Threads that one job each keeps for as long as it likes.
    pub leased: usize,
    /// What comes first when all are busy.
    pub growth: Growth,
}

impl DeskLimits {
    /// Returns how many threads are started before a job that is not urgent waits. Threads that
    /// are leased come on top of the core: no other job gets one of them.
    pub fn first(&self) -> usize {
        match self.growth {
            Growth::ThreadsFirst => self.max,
            Growth::QueueFirst => (self.core.max(1) + self.leased).min(self.max),
        }
    }
}

/// The lowest bit of the word of moves: a wakeup is owed.
const PUT_OFF: u64 = 1;
/// One move in that word.
pub(super) const MOVE: u64 = 2;

/// Idle workers, queued jobs and the counts of both, under one lock.
///
/// `W` is the queue. See the module for how jobs and workers meet.
///
/// Every turn writes here, and turns alternate between threads: what changes lies together, in
/// the order of these fields, so that as few cache lines as possible move with the lock. A queue
/// does well to begin with what changes, too.
#[repr(C, align(64))]
pub struct Desk<J, W> {
    pub(super) tally: AtomicU64,
    /// How often a worker has come for its next job, and in the lowest bit whether a submitter
    /// has put off a wakeup.
    pub(super) moves: AtomicU64,
    pub(super) state: Mutex<State<J, W>>,
    pub(super) reserve: Reserve<J>,
}

#[repr(C)]
pub(super) struct State<J, W> {
    /// How often a worker has come for its next job.
    pub(super) moves: u64,
    pub(super) threads: usize,
    /// Threads that were started for what waits and have not come to the desk yet.
    pub(super) starting: usize,
    pub(super) patience: Patience,
    /// A woken worker has not come back to the desk yet.
    pub(super) searching: bool,
    /// A submitter has put off a wakeup: it, or a worker that was busy, looks after what waits.
    pub(super) put_off: bool,
    pub(super) closed: bool,
    /// Newest last.
    pub(super) idle: Vec<Arc<Seat<J>>>,
    pub(super) limits: DeskLimits,
    pub(super) work: W,
}

/// The counts of a desk at one moment, read without its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Idle workers outside the reserve.
    pub idle: usize,
    /// Threads, started or about to.
    pub threads: usize,
    /// Jobs that wait.
    pub queued: usize,
}

/// What becomes of a job.
#[derive(Debug)]
#[must_use = "the job may be inside"]
pub enum Placed<J> {
    /// An idle worker has it.
    Handed(Wake<J>),
    /// It goes to a new thread, which is counted already.
    Start(J),
    /// It has to wait: the caller puts it into the queue before it gives up the lock.
    Queue(J),
    /// There is neither a thread nor room for it.
    Full(J),
}

/// Who was sent after the jobs that wait.
#[derive(Debug)]
#[must_use = "jobs wait for it"]
pub enum Sent<J> {
    /// An idle worker, with the first of them.
    Idle(Wake<J>),
    /// Nobody yet: a thread has to be started, which is counted already. It comes to the desk with
    /// [`Turn::started`](super::Turn::started); if none can be had,
    /// [`Turn::not_started`](super::Turn::not_started) takes the count back.
    Start,
}

/// What a worker that comes to the desk does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<J> {
    /// Runs this.
    Run(J),
    /// Waits in its seat.
    Wait {
        /// Looks on for a while before it sleeps.
        look: bool,
    },
    /// Ends. It is not counted any more.
    Leave,
}

/// A worker that may have to be woken, when no lock is held any more: dropping this does it.
#[must_use = "dropping it wakes the worker: drop it after the lock"]
pub struct Wake<J> {
    pub(super) seat: Arc<Seat<J>>,
    pub(super) asleep: bool,
}

impl<J> Wake<J> {
    /// Whether the worker sleeps, so that waking it costs a system call.
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }
}

impl<J> Drop for Wake<J> {
    fn drop(&mut self) {
        if self.asleep {
            self.seat.wake();
        }
    }
}

impl<J> fmt::Debug for Wake<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake")
            .field("asleep", &self.asleep)
            .finish_non_exhaustive()
    }
}

impl<J, W: Work<J>> Desk<J, W> {
    /// A desk without workers over the queue `work`.
    pub fn new(work: W, limits: DeskLimits, reserved: usize) -> Self {
        Self {
            state: Mutex::new(State {
                work,
                idle: Vec::new(),
                searching: false,
                put_off: false,
                patience: Patience::new(),
                threads: 0,
                starting: 0,
                limits,
                closed: false,
                moves: 0,
            }),
            reserve: Reserve::new(reserved),
            tally: AtomicU64::new(0),
            moves: AtomicU64::new(0),
        }
    }

    /// The workers in reserve.
    pub fn reserve(&self) -> &Reserve<J> {
        &self.reserve
    }

    /// Gives `job` to a worker in reserve. Takes no lock and never waits.
    ///
    /// # Errors
    ///
    /// The job, when nobody is in reserve, or the workers were [dismissed](super::Turn::dismiss).
    pub fn claim(&self, job: J) -> Result<Wake<J>, J> {
        let Some(seat) = self.reserve.claim() else {
            return Err(job);
        };
        let asleep = seat.give(job)?;
        Ok(Wake { seat, asleep })
    }

    /// The counts at this moment, without the lock.
    pub fn tally(&self) -> Tally {
        let word = self.tally.load(Ordering::Relaxed);
        Tally {
            idle: (word & 0xFFFF) as usize,
            threads: (word >> 16 & 0xFFFF) as usize,
            queued: (word >> 32) as usize,
        }
    }
}

impl<J, W> Desk<J, W> {
    /// How often a worker has come to the desk for its next job, without the lock. While it
    /// grows, not every worker is held by what it runs.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed) / MOVE
    }

    /// Whether a wakeup that was put off is still owed. A look, for whoever put it off.
    #[inline]
    pub fn is_put_off(&self) -> bool {
        self.moves.load(Ordering::Relaxed) & PUT_OFF != 0
    }
}

impl<J, W> fmt::Debug for Desk<J, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("reserve", &self.reserve)
            .finish_non_exhaustive()
    }
}

pub(super) fn hand<J>(seat: Arc<Seat<J>>, job: J) -> Wake<J> {
    let Ok(asleep) = seat.give(job) else {
        unreachable!("an idle worker's seat is empty, and whoever took it out is alone with it");
    };
    Wake { seat, asleep }
}
