//! The settings of a permits bulkhead.

use std::time::Duration;

use super::limit::AdaptiveLimit;
use crate::bulkhead::partition::Partitions;
use crate::bulkhead::queue::QueueDiscipline;
use crate::error::ConfigError;
use crate::key::Key;

/// The settings of a permits bulkhead.
///
/// ```
/// use tidegate_isolate::PermitConfig;
///
/// let config = PermitConfig { limit: 0, ..PermitConfig::default() };
/// let error = config.validate(&"prices".into()).unwrap_err();
/// assert!(error.to_string().starts_with("prices: execution.isolation.semaphore"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PermitConfig {
    /// The largest number of calls that may run at the same time; 0 is invalid. To reject every
    /// call, force the breaker open ([`BreakerMode::ForcedOpen`](crate::BreakerMode::ForcedOpen)).
    pub limit: usize,
    /// How long a call waits for a permit; zero rejects at once. A call whose timeout is over before that
    /// has timed out. [`Command::admit`](crate::Command::admit)
    /// and the layers of `tidegate-tower` never wait.
    pub max_wait: Duration,
    /// The largest number of calls that may wait at the same time. A call for which there is no place
    /// takes that of the least critical one, if that is less critical.
    pub max_waiting: usize,
    /// The order in which waiting calls are served.
    pub discipline: QueueDiscipline,
    /// The shares that are reserved for critical calls.
    pub partitions: Partitions,
    /// Adapts the limit to the latency. `limit` is then not used.
    pub adaptive: Option<AdaptiveLimit>,
}

impl Default for PermitConfig {
    fn default() -> Self {
        Self {
            limit: 10,
            max_wait: Duration::ZERO,
            max_waiting: 100,
            discipline: QueueDiscipline::Fifo,
            partitions: Partitions::default(),
            adaptive: None,
        }
    }
}

/// This many permits, and no waiting.
impl From<usize> for PermitConfig {
    fn from(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }
}

impl PermitConfig {
    /// Checks that the settings make sense.
    ///
    /// # Errors
    ///
    /// Returns which property is invalid, and why.
    pub fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        if self.limit == 0 {
            return Err(ConfigError::new(
                key,
                "execution.isolation.semaphore.maxConcurrentRequests",
                0,
                "nothing would ever run; to refuse everything, force the breaker open",
            ));
        }
        self.partitions.validate(key)?;
        self.adaptive
            .as_ref()
            .map_or(Ok(()), |limit| limit.validate(key))
    }
}
