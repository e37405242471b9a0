//! The settings of a circuit breaker.

use std::fmt;
use std::time::Duration;

use crate::error::ConfigError;
use crate::key::Key;
use crate::metrics::{WindowConfig, WindowPart};

/// When a breaker opens, and how it closes again.
///
/// ```
/// use tidegate_isolate::BreakerConfig;
///
/// let config = BreakerConfig { error_percent: 101, ..BreakerConfig::default() };
/// assert!(config.validate(&"prices".into()).is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerConfig {
    /// How the breaker applies its state to calls.
    pub mode: BreakerMode,
    /// The calls whose results it judges. Fixed for the life of the breaker.
    pub window: BreakerWindow,
    /// The smallest number of calls in the window for which a rate is judged. 0 is invalid; 1
    /// judges from the first call on. More than a [`Count`](BreakerWindow::Count) holds counts as all of
    /// it.
    pub min_calls: u32,
    /// Opens when at least this percentage of the calls failed.
    pub error_percent: u8,
    /// A call that a full bulkhead rejects counts as failed (by default, as in Hystrix), and so does one that
    /// times out while it waits. If not, the breaker judges only calls that the dependency got: too many
    /// callers do not open it.
    pub count_rejections: bool,
    /// A call that takes longer is slow; `None` means that no call is slow.
    pub slow_call: Option<Duration>,
    /// Opens when at least this percentage of the calls were slow.
    pub slow_percent: u8,
    /// How long all calls are denied after the breaker opens from the closed state.
    pub sleep: Duration,
    /// The factor by which the sleep grows each time the breaker opens again before it has closed:
    /// after a probe that failed, was dropped or was late, or while ramping. 1.0 keeps it constant.
    pub sleep_factor: f64,
    /// The longest sleep. A value below `sleep` counts as `sleep`.
    pub max_sleep: Duration,
    /// The largest number of probes in flight at the same time.
    pub probes: u32,
    /// The number of probes that must succeed before the breaker closes.
    pub successes: u32,
    /// The longest time that the breaker is half open, from the first probe on. The next call after
    /// that time opens the breaker again and is denied.
    pub probe_limit: Duration,
    /// The time in which the share of calls that pass rises from a tenth to all of them after the
    /// probes succeeded; `None` closes the breaker at once.
    pub ramp: Option<Duration>,
}

/// How a breaker applies its state to calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerMode {
    /// Denies calls while it is open.
    #[default]
    Normal,
    /// Counts calls and goes through all states, also half open and closed again, but denies
    /// nothing.
    MetricsOnly,
    /// Allows everything and counts nothing, also no call that passed before.
    Disabled,
    /// Denies everything. Among properties it takes precedence over all others:
    /// `circuitBreaker.forceOpen` denies calls even if `circuitBreaker.enabled` is false.
    ForcedOpen,
    /// Allows everything. Calls are still counted and judged, so the state may become open. It then
    /// stays open until the mode changes, because no call becomes a probe.
    ForcedClosed,
}

/// The calls whose results a breaker judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerWindow {
    /// The calls of the last seconds, judged whenever a bucket closes.
    Time(WindowConfig),
    /// This many last calls, judged after each call.
    Count(u32),
}

impl fmt::Display for BreakerWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(window) => window.fmt(f),
            Self::Count(calls) => write!(f, "the last {calls} calls"),
        }
    }
}

impl BreakerMode {
    /// All modes, in the order of their numbers.
    pub(super) const ALL: [Self; 5] = [
        Self::Normal,
        Self::MetricsOnly,
        Self::Disabled,
        Self::ForcedOpen,
        Self::ForcedClosed,
    ];
}

impl BreakerConfig {
    /// The length of the default window.
    pub const WINDOW: Duration = Duration::from_secs(10);
    /// The default number of buckets: one closes every half second.
    pub const BUCKETS: u32 = 20;

    /// Checks that the settings make sense together.
    ///
    /// # Errors
    ///
    /// Returns which property is invalid, and why.
    pub fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        let wrong = |property: &str, value: String, reason: &str| {
            Err(ConfigError::new(key, property, value, reason))
        };
        if let BreakerWindow::Time(window) = self.window
            && let Err((part, reason)) = window.check()
        {
            let property = match part {
                WindowPart::Length => "circuitBreaker.window.timeInMilliseconds",
                WindowPart::Buckets => "metrics.healthSnapshot.intervalInMilliseconds",
            };
            return wrong(property, window.to_string(), reason);
        }
        if let BreakerWindow::Count(calls) = self.window
            && !(1..=MAX_COUNT).contains(&calls)
        {
            return wrong(
                "circuitBreaker.window.calls",
                calls.to_string(),
                "give 1 to 100000 calls",
            );
        }
        if self.min_calls == 0 {
            return wrong(
                "circuitBreaker.requestVolumeThreshold",
                "0".into(),
                "one call at least must have been counted",
            );
        }
        for (property, percent) in [
            (
                "circuitBreaker.errorThresholdPercentage",
                self.error_percent,
            ),
            ("breaker.slow_percent", self.slow_percent),
        ] {
            if !(1..=100).contains(&percent) {
                return wrong(property, percent.to_string(), "give 1 to 100 percent");
            }
        }
        if !(1.0..=1000.0).contains(&self.sleep_factor) {
            let value = self.sleep_factor.to_string();
            return wrong("breaker.sleep_factor", value, "give 1.0 or more");
        }
        for (property, count) in [(PROBES, self.probes), (SUCCESSES, self.successes)] {
            if count == 0 {
                return wrong(property, "0".into(), "without a probe it would never close");
            }
        }
        if self.probe_limit.is_zero() {
            return wrong(PROBE_LIMIT, "0".into(), "a probe needs some time");
        }
        Ok(())
    }
}

const MAX_COUNT: u32 = 100_000;

/// The properties of the probes.
pub(crate) const PROBES: &str = "circuitBreaker.probes.maxConcurrentRequests";
pub(crate) const SUCCESSES: &str = "circuitBreaker.probes.requiredSuccesses";
pub(crate) const PROBE_LIMIT: &str = "circuitBreaker.probes.timeoutInMilliseconds";
/// The property of the ramp.
pub(crate) const RAMP: &str = "circuitBreaker.ramp.timeInMilliseconds";

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            mode: BreakerMode::Normal,
            window: BreakerWindow::Time(WindowConfig::new(Self::WINDOW, Self::BUCKETS)),
            min_calls: 20,
            error_percent: 50,
            count_rejections: true,
            slow_call: None,
            slow_percent: 100,
            sleep: Duration::from_secs(5),
            sleep_factor: 1.0,
            max_sleep: Duration::from_secs(300),
            probes: 1,
            successes: 1,
            probe_limit: Duration::from_secs(60),
            ramp: None,
        }
    }
}
