//! All settings of a command: one plain struct that contains the settings of each part and is
//! validated as a whole.

use std::time::Duration;

use crate::breaker::BreakerConfig;
use crate::bulkhead::{Bulkhead, PermitConfig, PoolConfig};
use crate::error::ConfigError;
use crate::key::Key;
use crate::metrics::MetricsConfig;
use crate::rate::RateConfig;

/// Why a timeout of zero is refused.
pub(crate) const NO_TIME: &str = "every call would time out; to have no timeout, set \
                                  `execution.timeout.enabled` to false, or call `no_timeout`";

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
    /// The longest time that a call may take, waiting included; `None` for no timeout.
    pub timeout: Option<Duration>,
    /// Whether the work's cancel token is cancelled when the call times out.
    pub interrupt_on_timeout: bool,
    /// Whether the work's cancel token is cancelled when the caller cancels.
    pub interrupt_on_cancel: bool,
    /// The settings of the permits bulkhead.
    pub permits: PermitConfig,
    /// The settings of the thread bulkhead.
    pub pool: PoolConfig,
    /// The pool to use instead of the pool that the command names.
    pub pool_override: Option<String>,
    /// Whether a fallback is tried.
    pub fallback_enabled: bool,
    /// The largest number of fallbacks that may run at the same time.
    pub fallback_permits: usize,
    /// The longest time that a fallback that is a future may take; `None` for no timeout. It does
    /// not apply to a blocking fallback.
    pub fallback_timeout: Option<Duration>,
    /// The settings of the circuit breaker.
    pub breaker: BreakerConfig,
    /// The windows of the metrics. Fixed for the life of the key.
    pub metrics: MetricsConfig,
    /// Whether calls with the same cache key share one run within a request.
    pub cache_enabled: bool,
    /// Whether calls are recorded in the log of their request.
    pub log_enabled: bool,
    /// The rate limit; `None` for no limit.
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
            fallback_timeout: Some(Duration::from_secs(1)),
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
    /// Returns which property of which key is invalid, and why.
    pub fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        let wrong = |property: &str, reason: &str| Err(ConfigError::new(key, property, 0, reason));
        if self.timeout == Some(Duration::ZERO) {
            let property = "execution.isolation.thread.timeoutInMilliseconds";
            return wrong(property, NO_TIME);
        }
        if self.fallback_permits == 0 {
            let property = "fallback.isolation.semaphore.maxConcurrentRequests";
            return wrong(property, "switch fallbacks off instead");
        }
        if self.fallback_timeout == Some(Duration::ZERO) {
            let reason = "every async fallback would time out; switch fallbacks off instead";
            return wrong("fallback.timeoutInMilliseconds", reason);
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
