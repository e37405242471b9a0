//! All limits of a pool in one value, and the errors of invalid limits.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::WaitRefusedError;
use tidegate_core::internal::usable_cpus;

use crate::executor::DEFAULT_BOUND;

use super::budget::ThreadBudgetError;
use super::raw::{DispatchLimits, Growth, MAX_RESERVED};

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
    /// The pool counts as low on threads while it has this number of free threads or fewer. Threads
    /// that may still be started count as free; a queued job takes one.
    pub low: usize,
}

impl PoolLimits {
    /// The maximum number of threads that a pool may have.
    pub const MAX_THREADS: usize = 32_767;
    /// The default maximum number of threads.
    pub const DEFAULT_MAX: usize = 200;
    /// The default number of threads that stay alive while idle.
    pub const DEFAULT_CORE: usize = 8;
    /// The default for the maximum number of queued user jobs.
    pub const DEFAULT_QUEUE: usize = DEFAULT_BOUND;
    /// The default for how long a thread above the core size may be idle.
    pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(60);
    /// The default for the number of free threads at or below which a pool counts as low on
    /// threads.
    pub const DEFAULT_LOW: usize = 1;

    /// Returns the default number of reserved threads for a pool of `max` threads. This is the
    /// number of CPUs or an eighth of `max`, whichever is less, rounded up to a power of two. It is
    /// at least one, and at most what any pool can reserve.
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

    /// Returns how many threads jobs can rely on while `leased` threads are used by lease holders:
    /// the maximum without the leased threads, and at least one. For a pool that queues first it is
    /// at most the core size, because such a pool starts more threads only while its queue is full.
    /// This does not apply to a pool whose queue has no places.
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
        if max > Self::MAX_THREADS {
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
            core: Self::DEFAULT_CORE,
            max: Self::DEFAULT_MAX,
            queue: Self::DEFAULT_QUEUE,
            reserved: Self::usual_reserve(Self::DEFAULT_MAX),
            keep_alive: Self::DEFAULT_KEEP_ALIVE,
            growth: Growth::default(),
            low: Self::DEFAULT_LOW,
        }
    }
}

/// The error of a pool that could not be built, or whose limits could not be changed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// The maximum is zero.
    NoThreads,
    /// The maximum is above [`PoolLimits::MAX_THREADS`].
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
    /// The number of reserved threads is above the maximum of the pool, or above what any pool can
    /// reserve.
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
    Budget(ThreadBudgetError),
    /// Jobs of the pool wait for each other and rely on more threads than the new limits allow.
    InUse(WaitRefusedError),
    /// The pool was shut down.
    Shutdown,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoThreads => f.write_str("a pool needs at least one thread; raise `max`"),
            Self::TooManyThreads { asked } => write!(
                f,
                "{asked} threads are too many; use at most {}",
                PoolLimits::MAX_THREADS
            ),
            Self::MaxBelowCore { core, max } => write!(
                f,
                "the maximum of {max} threads is below the core size of {core}; raise `max` \
                 or lower `core`"
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
            Self::Budget(why) => why.fmt(f),
            Self::InUse(_) => f.write_str(
                "jobs of the pool wait for others and rely on its threads; change the limits \
                 later",
            ),
            Self::Shutdown => f.write_str("the pool was shut down; build another one"),
        }
    }
}

impl Error for PoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Budget(why) => why.source(),
            Self::InUse(why) => Some(why),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(PoolError);
