//! The settings of a thread bulkhead.

use std::time::Duration;

use tidegate_pool::Growth;

use crate::bulkhead::partition::Partitions;
use crate::bulkhead::queue::QueueDiscipline;
use crate::error::ConfigError;
use crate::key::Key;
use crate::metrics::WindowConfig;

/// The settings of a thread bulkhead.
///
/// ```
/// use tidegate_isolate::PoolConfig;
///
/// let pool = PoolConfig { core: 4, ..PoolConfig::default() };
/// assert_eq!(pool.effective_max(), 4);
/// let pool = PoolConfig { max: Some(8), ..pool };
/// assert_eq!(pool.effective_max(), 8);
/// assert_eq!(PoolConfig { may_diverge: Some(false), ..pool.clone() }.effective_max(), 4);
/// assert_eq!(PoolConfig { max: Some(2), ..pool }.effective_max(), 4);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PoolConfig {
    /// The number of threads that are kept alive.
    pub core: usize,
    /// The largest number of threads; `None` means `core`. A value below `core` has no effect.
    pub max: Option<usize>,
    /// The number of tasks that may wait for a thread; 0 hands a task over directly or rejects it.
    pub queue: usize,
    /// The number of tasks that may currently wait: an adjustable bound below `queue`; `None` means
    /// `queue`.
    pub rejection_threshold: Option<usize>,
    /// How long a thread above `core` stays idle before it ends.
    pub keep_alive: Duration,
    /// Hystrix's `allowMaximumSizeToDivergeFromCoreSize`. `Some(false)` keeps the maximum at `core`
    /// regardless of `max`. `None` means that a `max` set in code is sufficient; a maximum set only
    /// by the property `maximumSize` then has no effect, as in Hystrix.
    pub may_diverge: Option<bool>,
    /// Whether a new thread or the queue is used first when all threads are busy.
    pub growth: Growth,
    /// The order in which waiting tasks are run.
    pub discipline: QueueDiscipline,
    /// The shares of threads and queue places together that are reserved for critical calls. Calls
    /// that were already running when the partitions were set are not counted.
    pub partitions: Partitions,
    /// The window of the pool's counters. Fixed for the life of the pool.
    pub window: WindowConfig,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            core: 10,
            max: None,
            queue: 0,
            rejection_threshold: None,
            keep_alive: Duration::from_secs(60),
            may_diverge: None,
            growth: Growth::ThreadsFirst,
            discipline: QueueDiscipline::Fifo,
            partitions: Partitions::default(),
            window: WindowConfig::new(Duration::from_secs(10), 10),
        }
    }
}

impl PoolConfig {
    /// The largest number of threads that a pool may have.
    pub const MOST_THREADS: usize = 10_000;
    /// The largest number of tasks that may wait for a thread.
    const MOST_QUEUED: usize = u32::MAX as usize - 1;

    /// Returns the largest number of threads that the pool may start: `max` if the maximum may
    /// diverge, and never fewer than `core`.
    pub fn effective_max(&self) -> usize {
        match self.max {
            Some(max) if self.diverges() => max.max(self.core),
            _ => self.core,
        }
    }

    /// Returns `true` if `max` may differ from `core`.
    pub(crate) fn diverges(&self) -> bool {
        self.may_diverge.unwrap_or(self.max.is_some())
    }

    /// Sets a maximum that comes from a property. It does not enable the divergence.
    pub(crate) fn set_max_by_property(&mut self, max: Option<usize>) {
        if max.is_some() {
            self.may_diverge = Some(self.diverges());
        }
        self.max = max;
    }

    /// Returns why `max` has no effect, if it has none.
    pub(crate) fn unused_max_warning(&self, pool: &Key) -> Option<String> {
        let (core, max) = (self.core, self.max?);
        if self.effective_max() == max {
            return None;
        }
        let why = if !self.diverges() {
            "allowMaximumSizeToDivergeFromCoreSize is not true; set it, or remove maximumSize"
        } else {
            "it is below coreSize; raise it, or remove it"
        };
        let threads = format!("the pool has at most {core} threads (coreSize)");
        Some(format!(
            "pool `{pool}`: maximumSize {max}: {threads}, since {why}"
        ))
    }

    /// Returns the number of tasks that may currently wait.
    pub fn effective_queue(&self) -> usize {
        self.rejection_threshold
            .map_or(self.queue, |live| live.min(self.queue))
    }

    /// Checks that the settings make sense.
    ///
    /// # Errors
    ///
    /// Returns which property is invalid, and why.
    pub fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        let wrong = |property: &str, value: usize, reason: &str| {
            Err(ConfigError::new(key, property, value, reason))
        };
        match (self.core, self.effective_max()) {
            (0, _) => return wrong("coreSize", 0, "a pool needs a thread"),
            (core, _) if core > Self::MOST_THREADS => {
                return wrong("coreSize", core, "a pool has at most 10000 threads");
            }
            (_, max) if max > Self::MOST_THREADS => {
                return wrong("maximumSize", max, "a pool has at most 10000 threads");
            }
            _ => {}
        }
        if self.queue > Self::MOST_QUEUED {
            return wrong("maxQueueSize", self.queue, "no queue can be that long");
        }
        self.partitions.validate(key)?;
        let window = self.window.validate("metrics.rollingStats");
        window.map_err(|error| error.of_key(key))
    }
}
