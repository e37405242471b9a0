//! What a pool shows of itself: figures of one moment, and how long its jobs take.

use std::time::Duration;

use super::limits::PoolLimits;

/// A look at a pool; every figure of it belongs to one moment.
///
/// `threads = ready + leased + utilized`, as long as the lessees use what they leased.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").core(1).max(2).build()?;
/// pool.submit(|| ())?.wait()?;
/// let metrics = pool.metrics();
/// assert_eq!((metrics.threads, metrics.accepted, metrics.queued), (1, 1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// The limits in force.
    pub limits: PoolLimits,
    /// Threads, started or about to.
    pub threads: usize,
    /// Threads that wait for work, those in reserve included.
    pub ready: usize,
    /// Of these, the ones in reserve.
    pub reserved: usize,
    /// Threads that were promised to components.
    pub leased: usize,
    /// Threads that run jobs, beyond the leased ones.
    pub utilized: usize,
    /// Threads that run something: utilized and leased.
    pub busy: usize,
    /// The most threads that jobs can have: the maximum without the leased ones.
    pub available: usize,
    /// `utilized / available`, from 0 to 1.
    pub utilization: f64,
    /// Whether the pool is low on threads.
    pub low: bool,
    /// Jobs that wait, of both lanes.
    pub queued: usize,
    /// Of these, internal ones.
    pub queued_internal: usize,
    /// Jobs accepted so far, those for reserved threads excepted.
    pub accepted: u64,
    /// Jobs that ran to their end.
    pub done: u64,
    /// Jobs refused because the pool was full or stopped.
    pub refused: u64,
    /// Jobs taken back by their handle.
    pub removed: u64,
    /// Jobs that had to make room for others.
    pub displaced: u64,
    /// Jobs that the queue gave up.
    pub shed: u64,
    /// Jobs whose token was tripped before they started.
    pub cancelled: u64,
    /// Jobs that the submitter had to run.
    pub caller_ran: u64,
    /// Jobs that panicked.
    pub panics: u64,
    /// Jobs that found a reserved thread.
    pub reserve_hits: u64,
    /// Jobs that found none.
    pub reserve_misses: u64,
    /// Threads started so far.
    pub started_threads: u64,
    /// Threads that have ended.
    pub ended_threads: u64,
    /// Threads that the system refused.
    pub failed_starts: u64,
    /// The most threads at a time.
    pub most_threads: usize,
    /// The most jobs that waited at a time.
    pub most_queued: usize,
    /// Sleeping threads that were woken for a job.
    pub wakeups: u64,
    /// From accepted to started, in a pool that [measures
    /// times](crate::WorkerPoolBuilder::measure_times).
    pub waits: Option<JobTimes>,
    /// From started to ended, in such a pool.
    pub runs: Option<JobTimes>,
    /// Names of the jobs that run right now.
    pub running: Vec<&'static str>,
}

/// What a number of jobs took.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").max(2).measure_times().build()?;
/// for _ in 0..2 {
///     pool.submit(|| ())?.wait()?;
/// }
/// // A job counts when its thread comes for the next one: the last one may be missing.
/// let runs = pool.metrics().runs.expect("it measures");
/// assert!(runs.count <= 2 && runs.mean() <= runs.longest);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTimes {
    /// How many jobs.
    pub count: u64,
    /// What they took together.
    pub total: Duration,
    /// What the longest took.
    pub longest: Duration,
}

impl JobTimes {
    /// What one took on average; zero if there was none.
    pub fn mean(&self) -> Duration {
        let nanos = self.total.as_nanos() / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(crate) fn add(&mut self, nanos: u64) {
        let took = Duration::from_nanos(nanos);
        self.count += 1;
        self.total = self.total.saturating_add(took);
        self.longest = self.longest.max(took);
    }
}
