//! A rate limit: calls start at even intervals, and a bounded burst may start at once after a
//! pause.
//!
//! The state is one word: the time at which the token bucket would be full again (the generic cell
//! rate algorithm). Taking a token is one compare-and-swap; no background task refills the bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::as_nanos;

use crate::error::ConfigError;
use crate::key::Key;

/// The longest time after which a bucket is full again, in nanoseconds: half of what a time can
/// express, so that times in the future do not overflow.
const LONGEST_REFILL: u64 = u64::MAX / 2;

/// The settings of a rate limit: a token bucket that fills evenly.
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
    /// The number of calls that may start per period.
    pub calls: u32,
    /// The length of the period.
    pub per: Duration,
    /// The number of calls that may start at once after a pause.
    pub burst: u32,
}

impl RateConfig {
    /// Checks that the settings make sense.
    ///
    /// # Errors
    ///
    /// Returns which property is invalid, and why.
    pub fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        let wrong = |property: &str, reason: &str| Err(ConfigError::new(key, property, 0, reason));
        let refill = self.interval().checked_mul(u64::from(self.burst));
        match self {
            Self { calls: 0, .. } => wrong("rate.calls", "nothing would ever run"),
            Self { calls, per, .. }
                if as_nanos(*per) / u64::from(*calls) == 0 && !per.is_zero() =>
            {
                let reason = "at most one call in a nanosecond can be distinguished";
                Err(ConfigError::new(key, "rate.calls", calls, reason))
            }
            Self { burst: 0, .. } => wrong("rate.burst", "one call at least must fit"),
            Self { per, .. } if per.is_zero() => wrong("rate.per", "a rate needs a time"),
            Self { per, .. } if refill.is_none_or(|refill| refill > LONGEST_REFILL) => {
                let reason = "the burst must be available again within 292 years; shorten the \
                              period, or lower the burst";
                let per = format!("{per:?}");
                Err(ConfigError::new(key, "rate.per", per, reason))
            }
            _ => Ok(()),
        }
    }

    /// Returns the time between two calls, in nanoseconds.
    fn interval(&self) -> u64 {
        as_nanos(self.per) / u64::from(self.calls.max(1))
    }
}

/// A token bucket that fills evenly.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    /// Nanoseconds between two calls, and how far `full_at` may lie ahead of the current time.
    interval: AtomicU64,
    ahead: AtomicU64,
    full_at: AtomicU64,
}

impl TokenBucket {
    pub(crate) fn new(config: &RateConfig) -> Self {
        let limit = Self {
            interval: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            full_at: AtomicU64::new(0),
        };
        limit.configure(Some(config), 0);
        limit
    }

    /// Creates a limit that rejects nothing.
    pub(crate) fn none() -> Self {
        Self {
            interval: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            full_at: AtomicU64::new(0),
        }
    }

    /// Changes the settings at `now`. A bucket that the old settings have emptied for longer than
    /// the new ones could counts as just emptied.
    pub(crate) fn configure(&self, config: Option<&RateConfig>, now: u64) {
        let interval = config.map_or(0, RateConfig::interval);
        let burst = config.map_or(0, |c| u64::from(c.burst.saturating_sub(1)));
        let ahead = interval.saturating_mul(burst);
        self.ahead.store(ahead, Ordering::Relaxed);
        self.interval.store(interval, Ordering::Relaxed);
        let latest = now.saturating_add(ahead).saturating_add(interval);
        self.full_at.fetch_min(latest, Ordering::Relaxed);
    }

    /// Takes a token.
    ///
    /// # Errors
    ///
    /// Returns the time after which a token will be available.
    pub(crate) fn try_take(&self, now: u64) -> Result<(), Duration> {
        let interval = self.interval.load(Ordering::Relaxed);
        if interval == 0 {
            return Ok(());
        }
        let ahead = self.ahead.load(Ordering::Relaxed);
        let taken = self
            .full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                let from = full_at.max(now);
                (from - now <= ahead).then(|| from.saturating_add(interval))
            });
        taken
            .map(|_| ())
            .map_err(|full_at| Duration::from_nanos(full_at - now - ahead))
    }
}

#[cfg(test)]
mod tests {
    //! Evenly spaced calls pass, bursts are bounded, and a rejection says how long to wait.

    use super::*;

    const MS: u64 = 1_000_000;

    fn limit(burst: u32) -> TokenBucket {
        TokenBucket::new(&RateConfig {
            calls: 100,
            per: Duration::from_secs(1),
            burst,
        })
    }

    #[test]
    fn calls_pass_evenly() {
        let limit = limit(1);
        assert_eq!(limit.try_take(0), Ok(()));
        assert_eq!(limit.try_take(3 * MS), Err(Duration::from_millis(7)));
        assert_eq!(limit.try_take(10 * MS), Ok(()));
        assert_eq!(limit.try_take(35 * MS), Ok(()));
        assert!(limit.try_take(40 * MS).is_err(), "a pause is not saved up");
    }

    #[test]
    fn a_burst_passes_after_a_pause() {
        let limit = limit(3);
        let burst = |now| (0..10).filter(|_| limit.try_take(now).is_ok()).count();
        assert_eq!((burst(0), burst(10 * MS), burst(100 * MS)), (3, 1, 3));
    }

    #[test]
    fn never_more_than_the_rate_under_contention() {
        let limit = limit(5);
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for now in 0..1_000 {
                        if limit.try_take(now * MS).is_ok() {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!(passed.load(Ordering::Relaxed) <= 105);
    }
}
