//! Every property: its name, how it is read, and how it is told.

use std::str::FromStr;
use std::time::Duration;

use crate::breaker::{BreakerMode, BreakerWindow};
use crate::{CommandConfig, Key};

/// What has properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Command,
    Pool,
}

impl Family {
    /// As it stands in a name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Pool => "threadpool",
        }
    }

    /// Whose key stands in a name: the command's or the pool's.
    pub(crate) fn key<'a>(self, (command, pool): (&'a Key, &'a Key)) -> &'a Key {
        match self {
            Self::Command => command,
            Self::Pool => pool,
        }
    }
}

/// One property.
pub(crate) struct Property {
    /// Whose it is.
    pub(crate) family: Family,
    /// Its name, without the part that says whose it is.
    pub(crate) name: &'static str,
    /// Takes a value over, or says why not.
    pub(crate) set: fn(&mut CommandConfig, &str) -> Result<(), String>,
    /// The present value.
    pub(crate) get: fn(&CommandConfig) -> String,
    /// Whether it has no form for all commands.
    pub(crate) per_key_only: bool,
}

macro_rules! properties {
    ($family:expr; $($name:literal, $set:expr, $get:expr;)*) => {
        [$(Property {
            family: $family,
            name: $name,
            set: $set,
            get: $get,
            per_key_only: false,
        }),*]
    };
}

/// The properties of commands.
pub(crate) const COMMAND: [Property; 23] = {
    let mut table = properties![Family::Command;
        "threadPoolKeyOverride",
            |c, v| { c.pool_override = (!v.is_empty()).then(|| v.to_owned()); Ok(()) },
            |c| c.pool_override.clone().unwrap_or_default();
        "execution.isolation.strategy",
            |c, v| put(&mut c.bulkhead, v.parse()),
            |c| c.bulkhead.to_string();
        "execution.isolation.thread.timeoutInMilliseconds",
            |c, v| { let timeout = millis(v)?; c.timeout = c.timeout.and(Some(timeout)); Ok(()) },
            |c| told_millis(c.timeout.unwrap_or_default());
        "execution.timeout.enabled",
            |c, v| {
                let on = boolean(v)?;
                let kept = c.timeout.or(CommandConfig::default().timeout);
                c.timeout = if on { kept } else { None };
                Ok(())
            },
            |c| c.timeout.is_some().to_string();
        "execution.isolation.thread.interruptOnTimeout",
            |c, v| put(&mut c.interrupt_on_timeout, boolean(v)),
            |c| c.interrupt_on_timeout.to_string();
        "execution.isolation.thread.interruptOnFutureCancel",
            |c, v| put(&mut c.interrupt_on_cancel, boolean(v)),
            |c| c.interrupt_on_cancel.to_string();
        "execution.isolation.semaphore.maxConcurrentRequests",
            |c, v| put(&mut c.permits.limit, count(v)),
            |c| c.permits.limit.to_string();
        "fallback.enabled",
            |c, v| put(&mut c.fallback_enabled, boolean(v)),
            |c| c.fallback_enabled.to_string();
        "fallback.isolation.semaphore.maxConcurrentRequests",
            |c, v| put(&mut c.fallback_permits, count(v)),
            |c| c.fallback_permits.to_string();
        "circuitBreaker.enabled",
            |c, v| force(c, boolean(v)?, BreakerMode::Disabled, true),
            |c| (c.breaker.mode != BreakerMode::Disabled).to_string();
        "circuitBreaker.requestVolumeThreshold",
            |c, v| put(&mut c.breaker.min_calls, number(v)),
            |c| c.breaker.min_calls.to_string();
        "circuitBreaker.sleepWindowInMilliseconds",
            |c, v| put(&mut c.breaker.sleep, millis(v)),
            |c| told_millis(c.breaker.sleep);
        "circuitBreaker.errorThresholdPercentage",
            |c, v| put(&mut c.breaker.error_percent, number(v)),
            |c| c.breaker.error_percent.to_string();
        "circuitBreaker.forceClosed",
            |c, v| force(c, boolean(v)?, BreakerMode::ForcedClosed, false),
            |c| (c.breaker.mode == BreakerMode::ForcedClosed).to_string();
        // After `forceClosed`, which it beats.
        "circuitBreaker.forceOpen",
            |c, v| force(c, boolean(v)?, BreakerMode::ForcedOpen, false),
            |c| (c.breaker.mode == BreakerMode::ForcedOpen).to_string();
        "metrics.rollingStats.timeInMilliseconds",
            |c, v| put(&mut c.metrics.counts.length, millis(v)),
            |c| told_millis(c.metrics.counts.length);
        "metrics.rollingStats.numBuckets",
            |c, v| put(&mut c.metrics.counts.buckets, number(v)),
            |c| c.metrics.counts.buckets.to_string();
        "metrics.rollingPercentile.enabled",
            |c, v| put(&mut c.metrics.record_latencies, boolean(v)),
            |c| c.metrics.record_latencies.to_string();
        "metrics.rollingPercentile.timeInMilliseconds",
            |c, v| put(&mut c.metrics.latencies.length, millis(v)),
            |c| told_millis(c.metrics.latencies.length);
        "metrics.rollingPercentile.numBuckets",
            |c, v| put(&mut c.metrics.latencies.buckets, number(v)),
            |c| c.metrics.latencies.buckets.to_string();
        "metrics.healthSnapshot.intervalInMilliseconds",
            |c, v| health_interval(c, millis(v)?),
            |c| told_health_interval(c);
        "requestCache.enabled",
            |c, v| put(&mut c.cache_enabled, boolean(v)),
            |c| c.cache_enabled.to_string();
        "requestLog.enabled",
            |c, v| put(&mut c.log_enabled, boolean(v)),
            |c| c.log_enabled.to_string();
    ];
    table[0].per_key_only = true;
    table
};

/// The properties of thread pools.
pub(crate) const POOL: [Property; 8] = properties![Family::Pool;
    "coreSize",
        |c, v| put(&mut c.pool.core, count(v)),
        |c| c.pool.core.to_string();
    "maximumSize",
        |c, v| {
            let max = if v.is_empty() { None } else { Some(count(v)?) };
            c.pool.set_max_by_property(max);
            Ok(())
        },
        |c| c.pool.max.map(|max| max.to_string()).unwrap_or_default();
    // -1 and 0 mean the same: no waiting place.
    "maxQueueSize",
        |c, v| put(&mut c.pool.queue, if v == "-1" { Ok(0) } else { count(v) }),
        |c| c.pool.queue.to_string();
    "queueSizeRejectionThreshold",
        |c, v| put(&mut c.pool.rejection_threshold, count(v).map(Some)),
        |c| c.pool.rejection_threshold.map(|live| live.to_string()).unwrap_or_default();
    "keepAliveTimeMinutes",
        |c, v| put(&mut c.pool.keep_alive, minutes(v)),
        |c| (c.pool.keep_alive.as_secs_f64() / 60.0).to_string();
    "allowMaximumSizeToDivergeFromCoreSize",
        |c, v| put(&mut c.pool.may_diverge, boolean(v).map(Some)),
        |c| c.pool.diverges().to_string();
    "metrics.rollingStats.timeInMilliseconds",
        |c, v| put(&mut c.pool.window.length, millis(v)),
        |c| told_millis(c.pool.window.length);
    "metrics.rollingStats.numBuckets",
        |c, v| put(&mut c.pool.window.buckets, number(v)),
        |c| c.pool.window.buckets.to_string();
];

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    let parsed = text.parse();
    parsed.map_err(|_| match text.parse::<i128>() {
        Ok(..0) => "it must not be negative".to_owned(),
        Ok(_) => "it is too large".to_owned(),
        Err(_) => "it is not a whole number".to_owned(),
    })
}

/// A number of threads, permits or places. What would be absurd is refused here already.
fn count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1_000_000;
    match number::<usize>(text)? {
        absurd if absurd > MOST => Err("a million is the most".to_owned()),
        count => Ok(count),
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("there are true and false".to_owned()),
    }
}

/// A time. What would be absurd, more than 24 days, is refused.
fn millis(text: &str) -> Result<Duration, String> {
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

fn told_millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Switches a mode of the breaker on or off, by a property that is `on` for it or its opposite.
fn force(
    c: &mut CommandConfig,
    value: bool,
    mode: BreakerMode,
    inverse: bool,
) -> Result<(), String> {
    if value != inverse {
        c.breaker.mode = mode;
    } else if c.breaker.mode == mode {
        c.breaker.mode = BreakerMode::Normal;
    }
    Ok(())
}

fn health_interval(c: &mut CommandConfig, interval: Duration) -> Result<(), String> {
    let BreakerWindow::Time(window) = &mut c.breaker.window else {
        return Err("the breaker counts calls, not time".to_owned());
    };
    if interval.is_zero() {
        return Err("a bucket needs a length".to_owned());
    }
    let buckets = window.length.as_nanos() / interval.as_nanos();
    match u32::try_from(buckets) {
        Ok(buckets) if buckets > 0 && interval * buckets == window.length => {
            window.buckets = buckets;
            Ok(())
        }
        _ => Err("the window does not divide evenly into such buckets".to_owned()),
    }
}

fn told_health_interval(c: &CommandConfig) -> String {
    match c.breaker.window {
        BreakerWindow::Time(window) => told_millis(window.length / window.buckets.max(1)),
        BreakerWindow::Count(_) => String::new(),
    }
}
