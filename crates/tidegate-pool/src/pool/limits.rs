//! Every limit of a pool in one value, and what can be wrong with it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::{WaitRefused, usable_cpus};

use crate::executor::DEFAULT_BOUND;

use super::budget::OverBudget;
use super::raw::{DeskLimits, Growth, MAX_RESERVED};

/// The most threads that a pool may have.
pub const MAX_THREADS: usize = 32_767;
/// The most threads of a pool when nothing else is said.
pub const DEFAULT_MAX_THREADS: usize = 200;
/// Threads that stay though they are idle, when nothing else is said.
pub const DEFAULT_CORE_THREADS: usize = 8;
/// How long a thread above the core size may be idle when nothing else is said.
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Free threads and places at which a pool counts as low on threads.
pub const DEFAULT_LOW_THREADS: usize = 1;
/// The longest queue.
const MAX_QUEUE: usize = u32::MAX as usize - 1;

/// The limits of a [`WorkerPool`](crate::WorkerPool), all of which can be changed while it runs.
///
/// ```
/// use tidegate_pool::{PoolLimits, WorkerPool};
///
/// let pool = WorkerPool::builder("workers").core(2).max(4).build()?;
/// let before = pool.resize(PoolLimits { core: 8, max: 16, ..pool.limits() })?;
/// assert_eq!((before.core, before.max), (2, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Threads that stay though they are idle. 0 lets all of them go.
    pub core: usize,
    /// The most threads.
    pub max: usize,
    /// The most user jobs that wait; 0 means that a job needs a thread at once.
    pub queue: usize,
    /// The most idle threads that [`try_execute`](crate::TryExecutor::try_execute) can have
    /// without a lock; with 0 it always refuses.
    pub reserved: usize,
    /// How long a thread above the core size may be idle before it ends; zero means for ever.
    pub keep_alive: Duration,
    /// What comes first when all threads are busy.
    pub growth: Growth,
    /// Free threads at which the pool counts as low on threads.
    pub low: usize,
}

impl PoolLimits {
    /// The reserve of a pool of `max` threads when nothing else is said: as many as there are
    /// CPUs, but at most about an eighth, and at least one.
    pub fn usual_reserve(max: usize) -> usize {
        let usual = usable_cpus().min(max / 8).next_power_of_two();
        usual.clamp(1, max.clamp(1, MAX_RESERVED))
    }

    pub(crate) fn desk(&self, leased: usize) -> DeskLimits {
        DeskLimits {
            core: self.core,
            max: self.max,
            leased,
            growth: self.growth,
        }
    }

    /// Returns how many threads jobs can count on while `leased` ones are kept by others. A pool
    /// that queues first has more only while its queue is full.
    pub(crate) fn width(&self, leased: usize) -> usize {
        let threads = match self.queue {
            0 => self.max,
            _ => self.desk(leased).first(),
        };
        threads.saturating_sub(leased).max(1)
    }

    pub(crate) fn check(&self) -> Result<(), PoolError> {
        let Self { core, max, .. } = *self;
        if max == 0 {
            return Err(PoolError::NoThreads);
        }
        if max > MAX_THREADS {
            return Err(PoolError::TooManyThreads { asked: max });
        }
        if core > max {
            return Err(PoolError::MaxBelowCore { core, max });
        }
        let most = max.min(MAX_RESERVED);
        if self.reserved > most {
            return Err(PoolError::TooManyReserved {
                asked: self.reserved,
                most,
            });
        }
        if self.queue > MAX_QUEUE {
            return Err(PoolError::QueueTooLong { asked: self.queue });
        }
        Ok(())
    }
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            core: DEFAULT_CORE_THREADS,
            max: DEFAULT_MAX_THREADS,
            queue: DEFAULT_BOUND,
            reserved: Self::usual_reserve(DEFAULT_MAX_THREADS),
            keep_alive: DEFAULT_KEEP_ALIVE,
            growth: Growth::default(),
            low: DEFAULT_LOW_THREADS,
        }
    }
}

/// Why a pool could not be built, or its limits not be changed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// A maximum of zero.
    NoThreads,
    /// More threads than a pool may have.
    TooManyThreads {
        /// How many were asked for.
        asked: usize,
    },
    /// Fewer threads at most than have to stay.
    MaxBelowCore {
        /// The core size.
        core: usize,
        /// The maximum.
        max: usize,
    },
    /// A reserve that the pool cannot have.
    TooManyReserved {
        /// How many were asked for.
        asked: usize,
        /// The most that there can be.
        most: usize,
    },
    /// A queue that cannot be counted.
    QueueTooLong {
        /// How long it should have been.
        asked: usize,
    },
    /// A back-off that never tries again.
    NoAttempts,
    /// The leases leave no thread for jobs.
    OverBudget(OverBudget),
    /// Jobs of the pool wait for each other and rely on more threads.
    WaitsRely(WaitRefused),
    /// The pool was stopped.
    Stopped,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoThreads => f.write_str("a pool needs at least one thread; raise `max`"),
            Self::TooManyThreads { asked } => {
                write!(f, "{asked} threads are too many; use at most {MAX_THREADS}")
            }
            Self::MaxBelowCore { core, max } => write!(
                f,
                "at most {max} threads, but {core} are to stay; raise `max` or lower `core`"
            ),
            Self::TooManyReserved { asked, most } => write!(
                f,
                "{asked} threads cannot be in reserve; use at most {most} here"
            ),
            Self::QueueTooLong { asked } => write!(
                f,
                "a queue of {asked} jobs is too long; use at most {MAX_QUEUE}"
            ),
            Self::NoAttempts => f.write_str(
                "a back-off needs at least one attempt; use `PoolPolicy::Fail` for none",
            ),
            Self::OverBudget(why) => why.fmt(f),
            Self::WaitsRely(why) => write!(
                f,
                "jobs of the pool rely on the threads that it has: {why}; change the limits when \
                 they have come back"
            ),
            Self::Stopped => f.write_str("the pool was stopped; build another one"),
        }
    }
}

tidegate_core::debug_as_display!(PoolError);

impl Error for PoolError {}
