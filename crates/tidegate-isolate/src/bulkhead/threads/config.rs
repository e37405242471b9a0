//! The settings of a thread bulkhead.

use std::time::Duration;

use tidegate_pool::Growth;

use crate::bulkhead::partition::Partitions;
use crate::bulkhead::queue::Discipline;
use crate::error::Invalid;
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
    /// Threads that are kept.
    pub core: usize,
    /// The most threads; none means `core`. Less than `core` has no effect.
    pub max: Option<usize>,
    /// How many tasks may wait for a thread; 0 hands over directly or refuses.
    pub queue: usize,
    /// How many tasks may wait at present: a live bound below `queue`; none means `queue`.
    pub rejection_threshold: Option<usize>,
    /// How long a thread above `core` waits for work before it ends.
    pub keep_alive: Duration,
    /// Hystrix's `allowMaximumSizeToDivergeFromCoreSize`: false keeps the maximum at `core`
    /// whatever `max` says. None means that a `max` set by code is enough; a maximum set by the
    /// property `maximumSize` alone has no effect then, as in Hystrix.
    pub may_diverge: Option<bool>,
    /// What comes first when all threads are busy: another thread, or the queue.
    pub growth: Growth,
    /// Which task is next of those that wait.
    pub discipline: Discipline,
    /// What is kept free for important calls, of threads and places together. Calls that ran
    /// before there were partitions are not counted.
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
            discipline: Discipline::Fifo,
            partitions: Partitions::default(),
            window: WindowConfig::new(Duration::from_secs(10), 10),
        }
    }
}

impl PoolConfig {
    /// The most threads a pool may have.
    pub const MOST_THREADS: usize = 10_000;

    /// Returns the most threads that the pool may start: `max` if the maximum may diverge, and
    /// never fewer than `core`.
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

    /// Takes over a maximum set by property: it does not switch the divergence on.
    pub(crate) fn set_max_by_property(&mut self, max: Option<usize>) {
        if max.is_some() {
            self.may_diverge = Some(self.diverges());
        }
        self.max = max;
    }

    /// Returns why `max` has no effect, if it has none.
    pub(crate) fn idle_max(&self, pool: &Key) -> Option<String> {
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

    /// How many tasks may really wait at present.
    pub fn effective_queue(&self) -> usize {
        self.rejection_threshold
            .map_or(self.queue, |live| live.min(self.queue))
    }

    /// Checks that the settings make sense.
    ///
    /// # Errors
    ///
    /// Which property is wrong, and why.
    pub fn validate(&self, key: &Key) -> Result<(), Invalid> {
        let wrong = |property: &str, value: usize, reason: &str| {
            Err(Invalid::new(key.as_str(), property, value, reason))
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
        self.partitions.validate(key)?;
        let window = self.window.validate("metrics.rollingStats");
        window.map_err(|error| error.of_key(key))
    }
}
