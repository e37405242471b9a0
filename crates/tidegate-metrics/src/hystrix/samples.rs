//! A command and a pool as the dashboard reads them.

use std::time::Duration;

use tidegate_isolate::{
    BreakerMode, Bulkhead, CommandConfig, CommandSnapshot, Distribution, Event, PoolSnapshot,
};

use super::json::Object;

/// The rolling counts of a command.
const COUNTS: [(&str, Event); 14] = [
    ("BadRequests", Event::BadRequest),
    ("CollapsedRequests", Event::Collapsed),
    ("ExceptionsThrown", Event::ExceptionThrown),
    ("Failure", Event::Failure),
    ("FallbackFailure", Event::FallbackFailure),
    ("FallbackMissing", Event::FallbackMissing),
    ("FallbackRejection", Event::FallbackRejection),
    ("FallbackSuccess", Event::FallbackSuccess),
    ("ResponsesFromCache", Event::ResponseFromCache),
    ("SemaphoreRejected", Event::PermitsRejected),
    ("ShortCircuited", Event::ShortCircuited),
    ("Success", Event::Success),
    ("ThreadPoolRejected", Event::PoolRejected),
    ("Timeout", Event::Timeout),
];

/// Returns the object of a command. Counts are those of the closed buckets, because the dashboard
/// divides them by the length of the whole window.
pub(super) fn command(one: &CommandSnapshot, time: Duration) -> String {
    let health = &one.closed;
    let is_disabled = one.config.breaker.mode == BreakerMode::Disabled;
    let mut object = Object::new()
        .text("type", "HystrixCommand")
        .text("name", one.key.as_str())
        .text("group", one.group.as_str())
        .millis("currentTime", time)
        .put("isCircuitBreakerOpen", one.is_open && !is_disabled)
        .put("errorPercentage", health.error_percent())
        .put("errorCount", health.health_errors())
        .put("requestCount", health.health_total());
    object = object.prefixed("rollingCount");
    for (name, event) in COUNTS {
        object = object.put(name, health[event]);
    }
    // A call has one value, so these two are always 0.
    let object = object.put("Emit", 0).put("FallbackEmit", 0).prefixed("");
    let object = object
        .size("currentConcurrentExecutionCount", one.active)
        .put("rollingMaxConcurrentExecutionCount", one.peak)
        .millis("latencyExecute_mean", one.latencies.run.mean())
        .put("latencyExecute", percentiles(&one.latencies.run))
        .millis("latencyTotal_mean", one.latencies.total.mean())
        .put("latencyTotal", percentiles(&one.latencies.total))
        .put("reportingHosts", 1)
        .text("threadPool", one.pool.as_str());
    settings(object.prefixed("propertyValue_"), &one.config).end()
}

fn settings(object: Object, config: &CommandConfig) -> Object {
    let (breaker, mode) = (&config.breaker, config.breaker.mode);
    let (percent, timeout) = (breaker.error_percent, config.timeout.unwrap_or_default());
    let (override_key, window) = (
        config.pool_override.as_deref(),
        config.metrics.counts.length,
    );
    let (interrupt, permits) = (config.interrupt_on_timeout, config.permits.limit);
    object
        .put("circuitBreakerRequestVolumeThreshold", breaker.min_calls)
        .millis("circuitBreakerSleepWindowInMilliseconds", breaker.sleep)
        .put("circuitBreakerErrorThresholdPercentage", percent)
        .put("circuitBreakerForceOpen", mode == BreakerMode::ForcedOpen)
        .put(
            "circuitBreakerForceClosed",
            mode == BreakerMode::ForcedClosed,
        )
        .put("circuitBreakerEnabled", mode != BreakerMode::Disabled)
        .text("executionIsolationStrategy", strategy(config.bulkhead))
        .millis("executionIsolationThreadTimeoutInMilliseconds", timeout)
        .millis("executionTimeoutInMilliseconds", timeout)
        .put("executionIsolationThreadInterruptOnTimeout", interrupt)
        .optional_text("executionIsolationThreadPoolKeyOverride", override_key)
        .size("executionIsolationSemaphoreMaxConcurrentRequests", permits)
        .size(
            "fallbackIsolationSemaphoreMaxConcurrentRequests",
            config.fallback_permits,
        )
        .millis("metricsRollingStatisticalWindowInMilliseconds", window)
        .put("requestCacheEnabled", config.cache_enabled)
        .put("requestLogEnabled", config.log_enabled)
}

/// Returns the object of a pool.
pub(super) fn pool(one: &PoolSnapshot, time: Duration) -> String {
    let threshold = one.config.rejection_threshold.unwrap_or(one.config.queue);
    Object::new()
        .text("type", "HystrixThreadPool")
        .text("name", one.key.as_str())
        .millis("currentTime", time)
        .size("currentActiveCount", one.active)
        .put("currentCompletedTaskCount", one.completed)
        .size("currentCorePoolSize", one.core)
        .size("currentLargestPoolSize", one.largest)
        .size("currentMaximumPoolSize", one.max)
        .size("currentPoolSize", one.threads)
        .size("currentQueueSize", one.queued)
        .put("currentTaskCount", one.accepted)
        .put("rollingCountThreadsExecuted", one.executed)
        .put("rollingMaxActiveThreads", one.peak)
        .put("rollingCountCommandRejections", one.rejected)
        .size("propertyValue_queueSizeRejectionThreshold", threshold)
        .millis(
            "propertyValue_metricsRollingStatisticalWindowInMilliseconds",
            one.config.window.length,
        )
        .put("reportingHosts", 1)
        .end()
}

/// Returns the object that removes a tile of the dashboard. `kind` is the type of its events.
pub(super) fn removal(kind: &str, name: &str) -> String {
    Object::new()
        .text("type", kind)
        .text("name", name)
        .text("deleteData", "true")
        .text("escapedName", &escaped_name(name))
        .end()
}

/// Returns the name of a tile as the dashboard builds it, for the first stream of a page.
fn escaped_name(name: &str) -> String {
    let mut out = String::new();
    for char in name.chars() {
        let is_special = char == ' ' || (char.is_ascii_punctuation() && !"-_\\".contains(char));
        if is_special {
            out.push('\\');
        }
        out.push(char);
    }
    out + "_0"
}

/// Returns the name that Hystrix gives a kind of isolation.
pub(super) fn strategy(bulkhead: Bulkhead) -> &'static str {
    match bulkhead {
        Bulkhead::Threads => "THREAD",
        _ => "SEMAPHORE",
    }
}

fn percentiles(latencies: &Distribution) -> String {
    const PERCENTILES: [f64; 9] = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 100.0];
    let add = |object: Object, percent: f64| {
        object.millis(&percent.to_string(), latencies.percentile(percent))
    };
    PERCENTILES.into_iter().fold(Object::new(), add).end()
}
