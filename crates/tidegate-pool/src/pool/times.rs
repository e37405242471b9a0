//! How long jobs wait and run, for pools that measure it.

use std::time::Duration;

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

    pub(super) fn add(&mut self, nanos: u64) {
        let took = Duration::from_nanos(nanos);
        self.count += 1;
        self.total = self.total.saturating_add(took);
        self.longest = self.longest.max(took);
    }
}

/// The times of one job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) waited: u64,
    pub(super) ran: u64,
}
