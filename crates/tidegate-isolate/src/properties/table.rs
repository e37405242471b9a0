//! The table of all properties: their names, and how they are parsed and printed.

use std::str::FromStr;
use std::time::Duration;

use super::draft::{Draft, HEALTH_INTERVAL, WINDOW_CALLS, WINDOW_TIME};
use crate::breaker::{BreakerMode, BreakerWindow, PROBE_LIMIT, PROBES, RAMP, SUCCESSES};
use crate::config::{CommandConfig, NO_TIME};
use crate::key::Key;

/// The kinds of objects that have properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Command,
    Pool,
}

impl Family {
    /// Returns the family as it appears in a property name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Pool => "threadpool",
        }
    }

    /// Returns the key that appears in a property name: the command's or the pool's.
    pub(crate) fn key<'a>(self, (command, pool): Keys<'a>) -> &'a Key {
        match self {
            Self::Command => command,
            Self::Pool => pool,
        }
    }
}

/// The key of a command and the key of its pool.
pub(crate) type Keys<'a> = (&'a Key, &'a Key);

/// A property.
#[derive(Debug)]
pub(crate) struct Property {
    /// The kind of object that has this property.
    pub(crate) family: Family,
    /// The name without its prefix, family and key.
    pub(crate) name: &'static str,
    /// Parses and sets a value, or returns why it is invalid.
    pub(crate) set: fn(&mut Draft, &str) -> Result<(), String>,
    /// Prints the current value.
    pub(crate) get: fn(&CommandConfig) -> String,
    /// Whether the property cannot be set for all commands.
    pub(crate) per_key_only: bool,
    /// Whether the property is read only once, when a key is built.
    pub(crate) is_fixed: bool,
}

/// Returns every property of commands and pools.
pub(crate) fn all() -> impl Iterator<Item = &'static Property> {
    COMMAND.iter().chain(&POOL)
}

macro_rules! properties {
    ($family:expr; $($name:expr, $set:expr, $get:expr;)*) => {
        [$(Property {
            family: $family,
            name: $name,
            set: $set,
            get: $get,
            per_key_only: false,
            is_fixed: is_fixed($name),
        }),*]
    };
}

/// The timeout of a call, if it has one.
pub(crate) const TIMEOUT: &str = "execution.isolation.thread.timeoutInMilliseconds";

/// Whether calls run on threads or on permits.
pub(crate) const STRATEGY: &str = "execution.isolation.strategy";

/// Returns `true` if a property belongs to a window or selects the pool.
const fn is_fixed(name: &str) -> bool {
    let (name, metrics) = (name.as_bytes(), b"metrics.");
    let window = b"circuitBreaker.window.";
    starts(name, metrics) || starts(name, window) || starts(name, b"threadPoolKeyOverride")
}

const fn starts(name: &[u8], with: &[u8]) -> bool {
    let mut at = 0;
    while at < with.len() {
        if at >= name.len() || name[at] != with[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The properties of commands.
pub(crate) static COMMAND: [Property; 30] = {
    let mut table = properties![Family::Command;
        "threadPoolKeyOverride",
            |d, v| {
                d.config.pool_override = (!v.is_empty()).then(|| v.to_owned());
                Ok(())
            },
            |c| c.pool_override.clone().unwrap_or_default();
        STRATEGY,
            |d, v| put(&mut d.config.bulkhead, v.parse()),
            |c| c.bulkhead.to_string();
        TIMEOUT,
            // Also while it is switched off: it could not be switched on.
            |d, v| match millis(v)? {
                Duration::ZERO => Err(NO_TIME.to_owned()),
                timeout => { d.timeout = timeout; Ok(()) }
            },
            |c| c.timeout.map(millis_text).unwrap_or_default();
        "execution.timeout.enabled",
            |d, v| put(&mut d.has_timeout, boolean(v)),
            |c| c.timeout.is_some().to_string();
        "execution.isolation.thread.interruptOnTimeout",
            |d, v| put(&mut d.config.interrupt_on_timeout, boolean(v)),
            |c| c.interrupt_on_timeout.to_string();
        "execution.isolation.thread.interruptOnFutureCancel",
            |d, v| put(&mut d.config.interrupt_on_cancel, boolean(v)),
            |c| c.interrupt_on_cancel.to_string();
        "execution.isolation.semaphore.maxConcurrentRequests",
            |d, v| put(&mut d.config.permits.limit, count(v)),
            |c| c.permits.limit.to_string();
        "fallback.enabled",
            |d, v| put(&mut d.config.fallback_enabled, boolean(v)),
            |c| c.fallback_enabled.to_string();
        "fallback.isolation.semaphore.maxConcurrentRequests",
            |d, v| put(&mut d.config.fallback_permits, count(v)),
            |c| c.fallback_permits.to_string();
        "fallback.timeoutInMilliseconds",
            |d, v| put(&mut d.config.fallback_timeout, millis(v).map(Some)),
            |c| c.fallback_timeout.map(millis_text).unwrap_or_default();
        "circuitBreaker.enabled",
            |d, v| put(&mut d.breaks, boolean(v)),
            |c| (c.breaker.mode != BreakerMode::Disabled).to_string();
        "circuitBreaker.requestVolumeThreshold",
            |d, v| put(&mut d.config.breaker.min_calls, number(v)),
            |c| c.breaker.min_calls.to_string();
        "circuitBreaker.sleepWindowInMilliseconds",
            |d, v| put(&mut d.config.breaker.sleep, millis(v)),
            |c| millis_text(c.breaker.sleep);
        "circuitBreaker.errorThresholdPercentage",
            |d, v| put(&mut d.config.breaker.error_percent, number(v)),
            |c| c.breaker.error_percent.to_string();
        "circuitBreaker.forceClosed",
            |d, v| put(&mut d.forced_closed, boolean(v)),
            |c| (c.breaker.mode == BreakerMode::ForcedClosed).to_string();
        "circuitBreaker.forceOpen",
            |d, v| put(&mut d.forced_open, boolean(v)),
            |c| (c.breaker.mode == BreakerMode::ForcedOpen).to_string();
        PROBES,
            |d, v| put(&mut d.config.breaker.probes, number(v)),
            |c| c.breaker.probes.to_string();
        SUCCESSES,
            |d, v| put(&mut d.config.breaker.successes, number(v)),
            |c| c.breaker.successes.to_string();
        PROBE_LIMIT,
            |d, v| put(&mut d.config.breaker.probe_limit, millis(v)),
            |c| millis_text(c.breaker.probe_limit);
        // 0 means that there is no ramp.
        RAMP,
            |d, v| {
                let ramp = millis(v)?;
                d.config.breaker.ramp = (!ramp.is_zero()).then_some(ramp);
                Ok(())
            },
            |c| millis_text(c.breaker.ramp.unwrap_or_default());
        "metrics.rollingStats.timeInMilliseconds",
            |d, v| put(&mut d.config.metrics.counts.length, millis(v)),
            |c| millis_text(c.metrics.counts.length);
        "metrics.rollingStats.numBuckets",
            |d, v| put(&mut d.config.metrics.counts.buckets, number(v)),
            |c| c.metrics.counts.buckets.to_string();
        "metrics.rollingPercentile.enabled",
            |d, v| put(&mut d.config.metrics.record_latencies, boolean(v)),
            |c| c.metrics.record_latencies.to_string();
        "metrics.rollingPercentile.timeInMilliseconds",
            |d, v| put(&mut d.config.metrics.latencies.length, millis(v)),
            |c| millis_text(c.metrics.latencies.length);
        "metrics.rollingPercentile.numBuckets",
            |d, v| put(&mut d.config.metrics.latencies.buckets, number(v)),
            |c| c.metrics.latencies.buckets.to_string();
        WINDOW_CALLS,
            |d, v| { d.set_window_calls(number(v)?); Ok(()) },
            |c| match c.breaker.window {
                BreakerWindow::Count(calls) => calls.to_string(),
                BreakerWindow::Time(_) => String::new(),
            };
        WINDOW_TIME,
            |d, v| match millis(v)? {
                Duration::ZERO => Err("a window needs a length".to_owned()),
                length => { d.set_window_time(length); Ok(()) }
            },
            |c| match c.breaker.window {
                BreakerWindow::Time(window) => millis_text(window.length),
                BreakerWindow::Count(_) => String::new(),
            };
        HEALTH_INTERVAL,
            |d, v| match millis(v)? {
                Duration::ZERO => Err("a bucket needs a length".to_owned()),
                interval => { d.health_interval = Some(interval); Ok(()) }
            },
            |c| health_interval_text(c);
        "requestCache.enabled",
            |d, v| put(&mut d.config.cache_enabled, boolean(v)),
            |c| c.cache_enabled.to_string();
        "requestLog.enabled",
            |d, v| put(&mut d.config.log_enabled, boolean(v)),
            |c| c.log_enabled.to_string();
    ];
    table[0].per_key_only = true;
    table
};

/// The properties of thread pools.
pub(crate) static POOL: [Property; 8] = properties![Family::Pool;
    "coreSize",
        |d, v| put(&mut d.config.pool.core, count(v)),
        |c| c.pool.core.to_string();
    "maximumSize",
        |d, v| {
            let max = if v.is_empty() { None } else { Some(count(v)?) };
            d.config.pool.set_max_by_property(max);
            Ok(())
        },
        |c| c.pool.max.map(|max| max.to_string()).unwrap_or_default();
    // Any negative number means the same as 0: no queue.
    "maxQueueSize",
        |d, v| put(&mut d.config.pool.queue, if is_negative(v) { Ok(0) } else { count(v) }),
        |c| c.pool.queue.to_string();
    "queueSizeRejectionThreshold",
        |d, v| put(&mut d.config.pool.rejection_threshold, count(v).map(Some)),
        |c| c.pool.rejection_threshold.map(|live| live.to_string()).unwrap_or_default();
    "keepAliveTimeMinutes",
        |d, v| put(&mut d.config.pool.keep_alive, minutes(v)),
        |c| (c.pool.keep_alive.as_secs_f64() / 60.0).to_string();
    "allowMaximumSizeToDivergeFromCoreSize",
        |d, v| put(&mut d.config.pool.may_diverge, boolean(v).map(Some)),
        |c| c.pool.diverges().to_string();
    "metrics.rollingStats.timeInMilliseconds",
        |d, v| put(&mut d.config.pool.window.length, millis(v)),
        |c| millis_text(c.pool.window.length);
    "metrics.rollingStats.numBuckets",
        |d, v| put(&mut d.config.pool.window.buckets, number(v)),
        |c| c.pool.window.buckets.to_string();
];

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    let parsed = text.parse();
    parsed.map_err(|_| match text.parse::<i128>() {
        Ok(..0) => "it must not be negative".to_owned(),
        Ok(_) => "it is too large".to_owned(),
        Err(_) => "it is not a whole number".to_owned(),
    })
}

/// Parses a number of threads, permits or queue places. Rejects absurd values.
fn count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1_000_000;
    match number::<usize>(text)? {
        absurd if absurd > MOST => Err("a million is the most".to_owned()),
        count => Ok(count),
    }
}

/// Returns `true` for a whole number below zero, of any size.
fn is_negative(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("there are true and false".to_owned()),
    }
}

/// Parses a duration. Rejects absurd values of more than 24 days.
pub(crate) fn millis(text: &str) -> Result<Duration, String> {
    match number::<u64>(text)? {
        absurd if absurd > i32::MAX as u64 => Err("2147483647 is the most".to_owned()),
        millis => Ok(Duration::from_millis(millis)),
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    match number::<u64>(text)? {
        absurd if absurd > 1_000_000 => Err("a million minutes is the most".to_owned()),
        minutes => Ok(Duration::from_secs(minutes * 60)),
    }
}

fn millis_text(duration: Duration) -> String {
    duration.as_millis().to_string()
}

fn health_interval_text(c: &CommandConfig) -> String {
    match c.breaker.window {
        BreakerWindow::Time(window) => millis_text(window.length / window.buckets.max(1)),
        BreakerWindow::Count(_) => String::new(),
    }
}
