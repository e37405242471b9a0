//! All limits of a pool in one value, and the errors of invalid limits.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::WaitRefusedError;
use tidegate_core::internal::usable_cpus;

use crate::executor::DEFAULT_BOUND;

use super::budget::OverBudget;
use super::raw::{DispatchLimits, Growth, MAX_RESERVED};

/// The maximum number of threads that a pool may have.
pub const MAX_THREADS: usize = 32_767;
/// The default maximum number of threads.
pub const DEFAULT_MAX_THREADS: usize = 200;
/// The default number of threads that stay alive while idle.
pub const DEFAULT_CORE_THREADS: usize = 8;
/// The default for how long a thread above the core size may be idle.
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The default for the number of free threads at which a pool counts as low on threads.
pub const DEFAULT_LOW_THREADS: usize = 1;
/// The maximum length of a queue.
const MAX_QUEUE: usize = u32::MAX as usize - 1;

/// The limits of a [`WorkerPool`](crate::WorkerPool). All of them can be changed while it runs.
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
    /// Threads that stay alive while idle. With 0 all threads may end.
    pub core: usize,
    /// The maximum number of threads.
    pub max: usize,
    /// The maximum number of queued user jobs. With 0 a job is refused unless a thread can take it.
    pub queue: usize,
    /// The maximum number of idle threads that [`try_execute`](crate::TryExecutor::try_execute) can
    /// claim without a lock. With 0 it always refuses.
    pub reserved: usize,
    /// How long a thread above the core size may be idle before it ends; zero means for ever.
    pub keep_alive: Duration,
    /// Whether threads are started or jobs are queued first when all threads are busy.
    pub growth: Growth,
    /// The number of free threads at which the pool counts as low on threads.
    pub low: usize,
}

impl PoolLimits {
    /// Returns the default number of reserved threads for a pool of `max` threads: as many as there
    /// are CPUs, but at most about an eighth of `max`, and at least one.
    pub fn usual_reserve(max: usize) -> usize {
        let usual = usable_cpus().min(max / 8).next_power_of_two();
        usual.clamp(1, max.clamp(1, MAX_RESERVED))
    }

    pub(crate) fn dispatcher(&self, leased: usize) -> DispatchLimits {
        DispatchLimits {
            core: self.core,
            max: self.max,
            leased,
            growth: self.growth,
        }
    }

    /// Returns how many threads jobs can rely on while `leased` threads are used by lease holders.
    /// A pool that queues first has more threads only while its queue is full.
    pub(crate) fn width(&self, leased: usize) -> usize {
        let threads = match self.queue {
            0 => self.max,
            _ => self.dispatcher(leased).first(),
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

/// The error of a pool that could not be built, or whose limits could not be changed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// The maximum is zero.
    NoThreads,
    /// The maximum is above [`MAX_THREADS`].
    TooManyThreads {
        /// The requested maximum.
        asked: usize,
    },
    /// The maximum is below the core size.
    MaxBelowCore {
        /// The core size.
        core: usize,
        /// The maximum.
        max: usize,
    },
    /// More reserved threads than the pool can have.
    TooManyReserved {
        /// The requested number of reserved threads.
        asked: usize,
        /// The highest number that is allowed.
        most: usize,
    },
    /// The queue is too long to be counted.
    QueueTooLong {
        /// The requested length.
        asked: usize,
    },
    /// A back-off with zero attempts.
    NoAttempts,
    /// The leases leave no thread for jobs.
    OverBudget(OverBudget),
    /// Jobs of the pool wait for each other and rely on more threads.
    WaitsRely(WaitRefusedError),
    /// The pool was shut down.
    Shutdown,
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
            Self::Shutdown => f.write_str("the pool was shut down; build another one"),
        }
    }
}

tidegate_core::debug_as_display!(PoolError);

impl Error for PoolError {}
