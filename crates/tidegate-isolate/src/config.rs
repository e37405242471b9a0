//! The settings of a command and of its pool: plain structs, checked as a whole.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tidegate_core::as_nanos;
use tidegate_pool::Growth;

use crate::breaker::BreakerConfig;
use crate::bulkhead::{Discipline, Partitions, PermitConfig};
use crate::metrics::{MetricsConfig, WindowConfig};
use crate::{Invalid, Key};

/// Where the work of a command runs, and what bounds it.
///
/// ```
/// use tidegate_isolate::Bulkhead;
///
/// assert_eq!("semaphore".parse(), Ok(Bulkhead::Permits));
/// assert!("COROUTINE".parse::<Bulkhead>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bulkhead {
    /// On the caller's thread, bounded by permits: `SEMAPHORE`.
    #[default]
    Permits,
    /// On threads of its own: `THREAD`.
    Threads,
}

impl FromStr for Bulkhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_uppercase().as_str() {
            "SEMAPHORE" => Ok(Self::Permits),
            "THREAD" => Ok(Self::Threads),
            _ => Err("there are THREAD and SEMAPHORE".to_owned()),
        }
    }
}

impl fmt::Display for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permits => "SEMAPHORE",
            Self::Threads => "THREAD",
        })
    }
}

/// All settings of a command.
///
/// ```
/// use tidegate_isolate::CommandConfig;
///
/// let config = CommandConfig::default();
/// assert_eq!(config.timeout.map(|t| t.as_millis()), Some(1000));
/// assert!(config.validate(&"prices".into()).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CommandConfig {
    /// Where the work runs.
    pub bulkhead: Bulkhead,
    /// How long a call may take, waiting included; none for ever.
    pub timeout: Option<Duration>,
    /// Whether the work's token is tripped when its time is over.
    pub interrupt_on_timeout: bool,
    /// Whether the work's token is tripped when its caller cancels.
    pub interrupt_on_cancel: bool,
    /// The permits bulkhead.
    pub permits: PermitConfig,
    /// The thread bulkhead.
    pub pool: PoolConfig,
    /// The pool that is used instead of the one that the command names.
    pub pool_override: Option<String>,
    /// Whether a fallback is tried.
    pub fallback_enabled: bool,
    /// How many fallbacks may run at the same time.
    pub fallback_permits: usize,
    /// The circuit breaker.
    pub breaker: BreakerConfig,
    /// The windows of the metrics. Fixed for the life of the key.
    pub metrics: MetricsConfig,
    /// Whether calls with a cache key share one run in a request.
    pub cache_enabled: bool,
    /// Whether calls are written into the log of their request.
    pub log_enabled: bool,
    /// How many calls may begin in a time.
    pub rate: Option<RateConfig>,
}

impl Default for CommandConfig {
    fn default() -> Self {
        Self {
            bulkhead: Bulkhead::Permits,
            timeout: Some(Duration::from_secs(1)),
            interrupt_on_timeout: true,
            interrupt_on_cancel: false,
            permits: PermitConfig::default(),
            pool: PoolConfig::default(),
            pool_override: None,
            fallback_enabled: true,
            fallback_permits: 10,
            breaker: BreakerConfig::default(),
            metrics: MetricsConfig::default(),
            cache_enabled: true,
            log_enabled: true,
            rate: None,
        }
    }
}

impl CommandConfig {
    /// Checks that all settings make sense together.
    ///
    /// # Errors
    ///
    /// Which property of which key is wrong, and why.
    pub fn validate(&self, key: &Key) -> Result<(), Invalid> {
        let wrong =
            |property: &str, reason: &str| Err(Invalid::new(key.as_str(), property, 0, reason));
        if self.timeout == Some(Duration::ZERO) {
            let property = "execution.isolation.thread.timeoutInMilliseconds";
            let reason = "every call would time out; to have no timeout, set \
                          `execution.timeout.enabled` to false, or call `no_timeout`";
            return wrong(property, reason);
        }
        if self.fallback_permits == 0 {
            let property = "fallback.isolation.semaphore.maxConcurrentRequests";
            return wrong(property, "switch fallbacks off instead");
        }
        self.permits.validate(key)?;
        self.pool.validate(key)?;
        self.breaker.validate(key)?;
        for (window, property) in [
            (self.metrics.counts, "metrics.rollingStats"),
            (self.metrics.latencies, "metrics.rollingPercentile"),
        ] {
            window
                .validate(property)
                .map_err(|error| error.of_key(key))?;
        }
        self.rate.as_ref().map_or(Ok(()), |rate| rate.validate(key))
    }
}

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

/// The settings of a rate limit: a bucket of tokens that fills evenly.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::RateConfig;
///
/// let rate = RateConfig { calls: 100, per: Duration::from_secs(1), burst: 10 };
/// assert!(rate.validate(&"prices".into()).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateConfig {
    /// How many calls may begin.
    pub calls: u32,
    /// In which time.
    pub per: Duration,
    /// How many may begin at once after a pause.
    pub burst: u32,
}

impl RateConfig {
    /// Checks that the settings make sense.
    ///
    /// # Errors
    ///
    /// Which property is wrong, and why.
    pub fn validate(&self, key: &Key) -> Result<(), Invalid> {
        let wrong =
            |property: &str, reason: &str| Err(Invalid::new(key.as_str(), property, 0, reason));
        match self {
            Self { calls: 0, .. } => wrong("rate.calls", "nothing would ever run"),
            Self { calls, per, .. }
                if as_nanos(*per) / u64::from(*calls) == 0 && !per.is_zero() =>
            {
                let reason = "at most one call in a nanosecond can be told apart";
                Err(Invalid::new(key.as_str(), "rate.calls", calls, reason))
            }
            Self { burst: 0, .. } => wrong("rate.burst", "one call at least must fit"),
            Self { per, .. } if per.is_zero() => wrong("rate.per", "a rate needs a time"),
            _ => Ok(()),
        }
    }
}
