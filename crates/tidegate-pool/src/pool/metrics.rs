//! The metrics of a pool: a snapshot of its counters, and how long its jobs take.

use std::time::Duration;

use super::limits::PoolLimits;

/// A snapshot of a pool's metrics. Values that are kept under the pool's lock belong to one moment;
/// the other counters are read right after it.
///
/// `threads = ready + leased + utilized`, as long as the lease holders use the threads that they
/// leased.
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
    /// The current limits.
    pub limits: PoolLimits,
    /// Threads that are started or about to start.
    pub threads: usize,
    /// Idle threads, including the reserved ones.
    pub ready: usize,
    /// Idle threads that are reserved.
    pub reserved: usize,
    /// Threads that are leased to components.
    pub leased: usize,
    /// Threads that run jobs, without the leased ones.
    pub utilized: usize,
    /// Threads that run something: `utilized` plus `leased`.
    pub busy: usize,
    /// The maximum number of threads for jobs: the pool's maximum without the leased threads.
    pub available: usize,
    /// `utilized / available`, from 0 to 1.
    pub utilization: f64,
    /// `true` if the pool is low on threads.
    pub low: bool,
    /// Queued jobs of both lanes, user and internal.
    pub queued: usize,
    /// Queued internal jobs.
    pub queued_internal: usize,
    /// Scheduled tasks that are not due yet, including those of the pool's ordered views.
    pub scheduled: usize,
    /// Jobs accepted so far, without those accepted by `try_execute`.
    pub accepted: u64,
    /// Jobs that have ended, including those that panicked or were cancelled before they started.
    pub done: u64,
    /// Jobs refused because the pool was full or stopped, including scheduled tasks that were due.
    pub refused: u64,
    /// Jobs removed from the queue by their handle.
    pub removed: u64,
    /// Jobs displaced to make room for others.
    pub displaced: u64,
    /// Jobs that the queue shed.
    pub shed: u64,
    /// Jobs whose token was cancelled before they started.
    pub cancelled: u64,
    /// Jobs that ran on the submitter's thread.
    pub caller_ran: u64,
    /// Jobs that panicked.
    pub panics: u64,
    /// `try_execute` calls that found an idle thread.
    pub reserve_hits: u64,
    /// `try_execute` calls that found none.
    pub reserve_misses: u64,
    /// Threads started so far.
    pub started_threads: u64,
    /// Threads that have ended.
    pub ended_threads: u64,
    /// Threads that the system could not start.
    pub failed_starts: u64,
    /// The highest number of threads at a time.
    pub most_threads: usize,
    /// The highest number of queued jobs at a time.
    pub most_queued: usize,
    /// Wake-ups of sleeping threads for a job.
    pub wakeups: u64,
    /// Times from acceptance to start, if the pool [measures
    /// times](crate::WorkerPoolBuilder::measure_times).
    pub waits: Option<JobTimes>,
    /// Times from start to end, if the pool measures times.
    pub runs: Option<JobTimes>,
    /// Names of the jobs that are running.
    pub running: Vec<&'static str>,
}

/// Durations of a number of jobs.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").max(2).measure_times().build()?;
/// for _ in 0..2 {
///     pool.submit(|| ())?.wait()?;
/// }
/// // A job is counted when its thread takes the next one, so the last job may be missing.
/// let runs = pool.metrics().runs.expect("it measures");
/// assert!(runs.count <= 2 && runs.mean() <= runs.longest);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTimes {
    /// The number of jobs.
    pub count: u64,
    /// The sum of their durations.
    pub total: Duration,
    /// The longest duration.
    pub longest: Duration,
}

impl JobTimes {
    /// Returns the average duration; zero if there were no jobs.
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
