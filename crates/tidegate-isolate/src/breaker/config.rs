//! The settings of a circuit breaker.

use std::fmt;
use std::time::Duration;

use crate::error::Invalid;
use crate::key::Key;
use crate::metrics::WindowConfig;

/// When a breaker trips, and how it comes back.
///
/// ```
/// use tidegate_isolate::BreakerConfig;
///
/// let config = BreakerConfig { error_percent: 101, ..BreakerConfig::default() };
/// assert!(config.validate(&"prices".into()).is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerConfig {
    /// What the breaker does with its judgement.
    pub mode: BreakerMode,
    /// Which calls it judges by. Fixed for the life of the breaker.
    pub window: BreakerWindow,
    /// Calls in the window before a rate means anything; 0 is refused, 1 judges from the first
    /// call on.
    pub min_calls: u32,
    /// Trips when at least so many percent of the calls failed.
    pub error_percent: u8,
    /// A call that takes longer is slow; none means that no call is.
    pub slow_call: Option<Duration>,
    /// Trips when at least so many percent of the calls were slow.
    pub slow_percent: u8,
    /// How long everything is denied after a trip.
    pub sleep: Duration,
    /// What the sleep is multiplied by each time that a probe fails; 1.0 keeps it.
    pub sleep_factor: f64,
    /// The longest sleep.
    pub max_sleep: Duration,
    /// How many probes may be out at the same time.
    pub probes: u32,
    /// How many probes must succeed before the breaker closes.
    pub successes: u32,
    /// The longest time that probes may take; a breaker that is half open for longer opens
    /// again.
    pub probe_limit: Duration,
    /// How long the share of the traffic that passes rises from nothing to everything after the
    /// probes; none closes at once.
    pub ramp: Option<Duration>,
}

/// What a breaker does with its judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerMode {
    /// Denies calls while it is open.
    #[default]
    Normal,
    /// Counts and changes its state, and denies nothing.
    MetricsOnly,
    /// Allows everything and counts nothing.
    Disabled,
    /// Denies everything. By property it wins over all others: `circuitBreaker.forceOpen` denies
    /// also where `circuitBreaker.enabled` is false.
    ForcedOpen,
    /// Allows everything; the judgement goes on beneath.
    ForcedClosed,
}

/// The calls that a breaker judges by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerWindow {
    /// Those of the last so many seconds, judged whenever a bucket closes.
    Time(WindowConfig),
    /// The last so many, judged after each call.
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

impl BreakerConfig {
    /// The length of the default window.
    pub const WINDOW: Duration = Duration::from_secs(10);
    /// The default number of buckets: one closes every half second.
    pub const BUCKETS: u32 = 20;

    /// Checks that the settings make sense together.
    ///
    /// # Errors
    ///
    /// Which property is wrong, and why.
    pub fn validate(&self, key: &Key) -> Result<(), Invalid> {
        let wrong = |property: &str, value: String, reason: &str| {
            Err(Invalid::new(key.as_str(), property, value, reason))
        };
        if let BreakerWindow::Time(window) = self.window {
            window
                .validate("metrics.healthSnapshot")
                .map_err(|error| error.of_key(key))?;
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
        for (property, count) in [
            ("breaker.probes", self.probes),
            ("breaker.successes", self.successes),
        ] {
            if count == 0 {
                return wrong(property, "0".into(), "without a probe it would never close");
            }
        }
        if self.probe_limit.is_zero() {
            return wrong("breaker.probe_limit", "0".into(), "a probe needs some time");
        }
        Ok(())
    }
}

const MAX_COUNT: u32 = 100_000;

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            mode: BreakerMode::Normal,
            window: BreakerWindow::Time(WindowConfig::new(Self::WINDOW, Self::BUCKETS)),
            min_calls: 20,
            error_percent: 50,
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
