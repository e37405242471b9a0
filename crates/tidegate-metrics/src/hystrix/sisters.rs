//! The other streams: settings, utilization, and the log of a request.

use std::time::Duration;

use tidegate_isolate::{
    BreakerMode, BreakerWindow, CommandSnapshot, EventSet, Key, LogEntry, PoolSnapshot,
    WindowConfig,
};

use super::json::{Object, array, quoted};
use super::samples::strategy;

/// Returns the settings of all commands and pools.
pub(super) fn config(commands: &[CommandSnapshot], pools: &[PoolSnapshot]) -> String {
    let commands = keyed(commands, |one| (&one.key, command_config(one)));
    let pools = keyed(pools, |one| (&one.key, pool_config(one)));
    Object::new()
        .text("type", "HystrixConfig")
        .put("commands", commands)
        .put("threadpools", pools)
        .put("collapsers", "{}")
        .end()
}

/// Returns how busy all commands and pools are.
pub(super) fn utilization(commands: &[CommandSnapshot], pools: &[PoolSnapshot]) -> String {
    let commands = keyed(commands, |one| {
        let object = Object::new().size("activeCount", one.active);
        (&one.key, object.end())
    });
    let pools = keyed(pools, |one| {
        let object = Object::new()
            .size("activeCount", one.active)
            .size("queueSize", one.queued)
            .size("corePoolSize", one.core)
            .size("poolSize", one.threads);
        (&one.key, object.end())
    });
    Object::new()
        .text("type", "HystrixUtilization")
        .put("commands", commands)
        .put("threadpools", pools)
        .end()
}

/// Returns the calls of a request. Calls of the same command with the same events are one entry.
pub(super) fn request(calls: &[LogEntry]) -> String {
    let mut groups: Vec<(&Key, EventSet, Vec<Duration>)> = Vec::new();
    for call in calls {
        let mut known = groups.iter_mut();
        match known.find(|(key, events, _)| **key == call.command && *events == call.events) {
            Some((_, _, times)) => times.push(call.took),
            None => groups.push((&call.command, call.events, vec![call.took])),
        }
    }
    array(groups.into_iter().map(|(key, events, times)| {
        let times = times.iter().map(|took| took.as_millis().to_string());
        Object::new()
            .text("name", key.as_str())
            .put(
                "events",
                array(events.iter().map(|event| quoted(event.name()))),
            )
            .put("latencies", array(times))
            .end()
    }))
}

/// Returns an object with a field for each item.
fn keyed<'a, T>(items: &'a [T], of: impl Fn(&'a T) -> (&'a Key, String)) -> String {
    let add = |object: Object, item| {
        let (key, value) = of(item);
        object.put(key.as_str(), value)
    };
    items.iter().fold(Object::new(), add).end()
}

fn command_config(one: &CommandSnapshot) -> String {
    let config = &*one.config;
    let execution = Object::new()
        .text("isolationStrategy", strategy(config.bulkhead))
        .optional_text("threadPoolKeyOverride", config.pool_override.as_deref())
        .put("requestCacheEnabled", config.cache_enabled)
        .put("requestLogEnabled", config.log_enabled)
        .put("timeoutEnabled", config.timeout.is_some())
        .put("fallbackEnabled", config.fallback_enabled)
        .millis("timeoutInMilliseconds", config.timeout.unwrap_or_default())
        .size("semaphoreSize", config.permits.limit)
        .size("fallbackSemaphoreSize", config.fallback_permits)
        .put("threadInterruptOnTimeout", config.interrupt_on_timeout);
    let health = match config.breaker.window {
        BreakerWindow::Time(window) => bucket(window),
        // Judged after each call.
        _ => Duration::ZERO,
    };
    let (counts, latencies) = (config.metrics.counts, config.metrics.latencies);
    let metrics = Object::new()
        .millis("healthBucketSizeInMs", health)
        .millis("percentileBucketSizeInMilliseconds", bucket(latencies))
        .put("percentileBucketCount", latencies.buckets)
        .put("percentileEnabled", config.metrics.record_latencies)
        .millis("counterBucketSizeInMilliseconds", bucket(counts))
        .put("counterBucketCount", counts.buckets);
    let mode = config.breaker.mode;
    let breaker = Object::new()
        .put("enabled", mode != BreakerMode::Disabled)
        .put("isForcedOpen", mode == BreakerMode::ForcedOpen)
        .put("isForcedClosed", mode == BreakerMode::ForcedClosed)
        .put("requestVolumeThreshold", config.breaker.min_calls)
        .put("errorPercentageThreshold", config.breaker.error_percent)
        .millis("sleepInMilliseconds", config.breaker.sleep);
    Object::new()
        .text("threadPoolKey", one.pool.as_str())
        .text("groupKey", one.group.as_str())
        .put("execution", execution.end())
        .put("metrics", metrics.end())
        .put("circuitBreaker", breaker.end())
        .end()
}

fn pool_config(one: &PoolSnapshot) -> String {
    let config = &one.config;
    // Hystrix writes -1 for a queue without places.
    let queue = match config.queue {
        0 => "-1".to_owned(),
        places => places.min(i32::MAX as usize).to_string(),
    };
    let may_diverge = config.may_diverge.unwrap_or(config.max.is_some());
    Object::new()
        .size("coreSize", config.core)
        .size("maximumSize", config.max.unwrap_or(config.core))
        .size("actualMaximumSize", one.max)
        .put("maxQueueSize", queue)
        .size(
            "queueRejectionThreshold",
            config.rejection_threshold.unwrap_or(config.queue),
        )
        .put("keepAliveTimeInMinutes", config.keep_alive.as_secs() / 60)
        .put("allowMaximumSizeToDivergeFromCoreSize", may_diverge)
        .millis("counterBucketSizeInMilliseconds", bucket(config.window))
        .put("counterBucketCount", config.window.buckets)
        .end()
}

fn bucket(window: WindowConfig) -> Duration {
    window.length / window.buckets.max(1)
}
