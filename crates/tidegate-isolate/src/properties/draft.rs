//! The settings of a command while they are combined from their levels.
//!
//! Some settings consist of several properties: the timeout of a value and a switch, the breaker's
//! mode of three switches, the breaker's window of a length and the length of a bucket. Each of
//! these properties may come from another level, so a draft keeps the parts and combines them last.

use std::time::Duration;

use crate::breaker::{BreakerConfig, BreakerMode, BreakerWindow};
use crate::config::CommandConfig;
use crate::error::ConfigError;
use crate::key::Key;
use crate::metrics::WindowConfig;

pub(crate) const HEALTH_INTERVAL: &str = "metrics.healthSnapshot.intervalInMilliseconds";
pub(super) const WINDOW_TIME: &str = "circuitBreaker.window.timeInMilliseconds";
pub(super) const WINDOW_CALLS: &str = "circuitBreaker.window.calls";

#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) config: CommandConfig,
    /// The timeout that applies if `has_timeout` is set.
    pub(super) timeout: Duration,
    pub(super) has_timeout: bool,
    pub(super) breaks: bool,
    pub(super) forced_open: bool,
    pub(super) forced_closed: bool,
    /// The window of the breaker, if a property sets it. A length of time and a number of calls
    /// exclude each other: the level that is read last wins.
    window_time: Option<Duration>,
    window_calls: Option<u32>,
    pub(super) health_interval: Option<Duration>,
}

impl Draft {
    /// Starts with the settings made in code. `timeout` is used if a property switches on a timeout
    /// that the code has switched off.
    pub(super) fn new(config: CommandConfig, timeout: Duration) -> Self {
        let mode = config.breaker.mode;
        Self {
            timeout: config.timeout.unwrap_or(timeout),
            has_timeout: config.timeout.is_some(),
            breaks: mode != BreakerMode::Disabled,
            forced_open: mode == BreakerMode::ForcedOpen,
            forced_closed: mode == BreakerMode::ForcedClosed,
            window_time: None,
            window_calls: None,
            health_interval: None,
            config,
        }
    }

    pub(super) fn set_window_time(&mut self, length: Duration) {
        self.window_time = Some(length);
        self.window_calls = None;
    }

    pub(super) fn set_window_calls(&mut self, calls: u32) {
        self.window_calls = Some(calls);
        self.window_time = None;
    }

    /// Combines the parts.
    ///
    /// # Errors
    ///
    /// Returns the property that does not fit the others.
    pub(super) fn finish(self, key: &Key) -> Result<CommandConfig, ConfigError> {
        let mode = self.mode();
        let window = self.window(key)?;
        let mut config = self.config;
        config.timeout = self.has_timeout.then_some(self.timeout);
        config.breaker.mode = mode;
        config.breaker.window = window;
        Ok(config)
    }

    /// Returns the mode that follows from the switches. Forced open denies everything, even if the
    /// breaker is switched off. A breaker that is switched off judges nothing, so forced closed has
    /// no effect on it.
    fn mode(&self) -> BreakerMode {
        match self.config.breaker.mode {
            _ if self.forced_open => BreakerMode::ForcedOpen,
            _ if !self.breaks => BreakerMode::Disabled,
            _ if self.forced_closed => BreakerMode::ForcedClosed,
            BreakerMode::MetricsOnly => BreakerMode::MetricsOnly,
            _ => BreakerMode::Normal,
        }
    }

    fn window(&self, key: &Key) -> Result<BreakerWindow, ConfigError> {
        let in_code = self.config.breaker.window;
        let window = match (self.window_calls, self.window_time, in_code) {
            (Some(calls), _, _) => BreakerWindow::Count(calls),
            (None, Some(length), BreakerWindow::Time(window)) => {
                return self.cut(key, length, bucket(window), WINDOW_TIME);
            }
            (None, Some(length), BreakerWindow::Count(_)) => {
                let usual = BreakerConfig::WINDOW / BreakerConfig::BUCKETS;
                return self.cut(key, length, usual, WINDOW_TIME);
            }
            (None, None, in_code) => in_code,
        };
        match (window, self.health_interval) {
            (window, None) => Ok(window),
            (BreakerWindow::Time(window), Some(interval)) => {
                self.cut(key, window.length, interval, HEALTH_INTERVAL)
            }
            (BreakerWindow::Count(_), Some(interval)) => {
                let reason = "the breaker counts calls, not time; remove it";
                let value = interval.as_millis();
                Err(ConfigError::new(key, HEALTH_INTERVAL, value, reason))
            }
        }
    }

    /// Divides a window into buckets of the length that a property sets, or else of length `usual`.
    fn cut(
        &self,
        key: &Key,
        length: Duration,
        usual: Duration,
        property: &str,
    ) -> Result<BreakerWindow, ConfigError> {
        let interval = self.health_interval.unwrap_or(usual);
        let buckets = length.as_nanos().checked_div(interval.as_nanos());
        let buckets = buckets.and_then(|buckets| u32::try_from(buckets).ok());
        match buckets {
            Some(buckets) if buckets > 0 && interval * buckets == length => {
                Ok(BreakerWindow::Time(WindowConfig::new(length, buckets)))
            }
            _ => {
                let value = match property {
                    HEALTH_INTERVAL => interval,
                    _ => length,
                };
                let reason = format!(
                    "a window of {} ms does not divide evenly into buckets of {} ms",
                    length.as_millis(),
                    interval.as_millis()
                );
                let value = value.as_millis();
                Err(ConfigError::new(key, property, value, reason))
            }
        }
    }
}

fn bucket(window: WindowConfig) -> Duration {
    window.length / window.buckets.max(1)
}
