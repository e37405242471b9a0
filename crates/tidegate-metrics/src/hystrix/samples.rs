//! A command and a pool as the dashboard reads them.

use std::time::Duration;

use tidegate_isolate::{BreakerMode, Bulkhead, CommandSnapshot, Distribution, Event, PoolSnapshot};

use super::json::Object;

/// The percentiles of a latency.
const PERCENTILES: [(&str, f64); 9] = [
    ("0", 0.0),
    ("25", 25.0),
    ("50", 50.0),
    ("75", 75.0),
    ("90", 90.0),
    ("95", 95.0),
    ("99", 99.0),
    ("99.5", 99.5),
    ("100", 100.0),
];

/// The rolling counts of a command that have an event, in the order of Hystrix. `None` stands for
/// a count that is always 0: a call has one value.
const COUNTS: [(&str, Option<Event>); 16] = [
    ("rollingCountBadRequests", Some(Event::BadRequest)),
    ("rollingCountCollapsedRequests", Some(Event::Collapsed)),
    ("rollingCountEmit", None),
    ("rollingCountExceptionsThrown", Some(Event::ExceptionThrown)),
    ("rollingCountFailure", Some(Event::Failure)),
    ("rollingCountFallbackEmit", None),
    ("rollingCountFallbackFailure", Some(Event::FallbackFailure)),
    ("rollingCountFallbackMissing", Some(Event::FallbackMissing)),
    (
        "rollingCountFallbackRejection",
        Some(Event::FallbackRejection),
    ),
    ("rollingCountFallbackSuccess", Some(Event::FallbackSuccess)),
    (
        "rollingCountResponsesFromCache",
        Some(Event::ResponseFromCache),
    ),
    (
        "rollingCountSemaphoreRejected",
        Some(Event::PermitsRejected),
    ),
    ("rollingCountShortCircuited", Some(Event::ShortCircuited)),
    ("rollingCountSuccess", Some(Event::Success)),
    ("rollingCountThreadPoolRejected", Some(Event::PoolRejected)),
    ("rollingCountTimeout", Some(Event::Timeout)),
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
        .flag("isCircuitBreakerOpen", one.is_open && !is_disabled)
        .number("errorPercentage", health.error_percent())
        .number("errorCount", health.health_errors())
        .number("requestCount", health.health_total());
    for (name, event) in COUNTS {
        object = object.number(name, event.map_or(0, |event| health[event]));
    }
    let object = object
        .size("currentConcurrentExecutionCount", one.active)
        .number("rollingMaxConcurrentExecutionCount", one.peak)
        .millis("latencyExecute_mean", one.latencies.run.mean())
        .raw("latencyExecute", percentiles(&one.latencies.run))
        .millis("latencyTotal_mean", one.latencies.total.mean())
        .raw("latencyTotal", percentiles(&one.latencies.total));
    settings(object, one)
        .number("reportingHosts", 1)
        .text("threadPool", one.pool.as_str())
        .end()
}

/// Adds the settings that the dashboard reads.
fn settings(object: Object, one: &CommandSnapshot) -> Object {
    let (config, breaker) = (&*one.config, &one.config.breaker);
    let timeout = config.timeout.unwrap_or_default();
    let property = |name: &str| format!("propertyValue_{name}");
    object
        .number(
            &property("circuitBreakerRequestVolumeThreshold"),
            breaker.min_calls.into(),
        )
        .millis(
            &property("circuitBreakerSleepWindowInMilliseconds"),
            breaker.sleep,
        )
        .number(
            &property("circuitBreakerErrorThresholdPercentage"),
            breaker.error_percent.into(),
        )
        .flag(
            &property("circuitBreakerForceOpen"),
            breaker.mode == BreakerMode::ForcedOpen,
        )
        .flag(
            &property("circuitBreakerForceClosed"),
            breaker.mode == BreakerMode::ForcedClosed,
        )
        .flag(
            &property("circuitBreakerEnabled"),
            breaker.mode != BreakerMode::Disabled,
        )
        .text(
            &property("executionIsolationStrategy"),
            strategy(config.bulkhead),
        )
        .millis(
            &property("executionIsolationThreadTimeoutInMilliseconds"),
            timeout,
        )
        .millis(&property("executionTimeoutInMilliseconds"), timeout)
        .flag(
            &property("executionIsolationThreadInterruptOnTimeout"),
            config.interrupt_on_timeout,
        )
        .optional_text(
            &property("executionIsolationThreadPoolKeyOverride"),
            config.pool_override.as_deref(),
        )
        .size(
            &property("executionIsolationSemaphoreMaxConcurrentRequests"),
            config.permits.limit,
        )
        .size(
            &property("fallbackIsolationSemaphoreMaxConcurrentRequests"),
            config.fallback_permits,
        )
        .millis(
            &property("metricsRollingStatisticalWindowInMilliseconds"),
            config.metrics.counts.length,
        )
        .flag(&property("requestCacheEnabled"), config.cache_enabled)
        .flag(&property("requestLogEnabled"), config.log_enabled)
}

/// Returns the object of a pool.
pub(super) fn pool(one: &PoolSnapshot, time: Duration) -> String {
    let threshold = one.config.rejection_threshold.unwrap_or(one.config.queue);
    Object::new()
        .text("type", "HystrixThreadPool")
        .text("name", one.key.as_str())
        .millis("currentTime", time)
        .size("currentActiveCount", one.active)
        .number("currentCompletedTaskCount", one.completed)
        .size("currentCorePoolSize", one.core)
        .size("currentLargestPoolSize", one.largest)
        .size("currentMaximumPoolSize", one.max)
        .size("currentPoolSize", one.threads)
        .size("currentQueueSize", one.queued)
        .number("currentTaskCount", one.accepted)
        .number("rollingCountThreadsExecuted", one.executed)
        .number("rollingMaxActiveThreads", one.peak)
        .number("rollingCountCommandRejections", one.rejected)
        .size("propertyValue_queueSizeRejectionThreshold", threshold)
        .millis(
            "propertyValue_metricsRollingStatisticalWindowInMilliseconds",
            one.config.window.length,
        )
        .number("reportingHosts", 1)
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
    let add = |object: Object, (name, percent): (&str, f64)| {
        object.millis(name, latencies.percentile(percent))
    };
    PERCENTILES.into_iter().fold(Object::new(), add).end()
}
