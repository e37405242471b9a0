//! What the guide says about each property: its type, its range and its meaning.
//!
//! Names, defaults and whether a property is live come from the crate. `properties_page` compares
//! the types and ranges here with the values that the crate accepts.

/// What the guide says about one property.
pub(super) struct PropertyDoc {
    pub(super) name: &'static str,
    pub(super) values: Values,
    pub(super) about: &'static str,
    /// Other properties that must be set for the whole range to be valid.
    pub(super) with: &'static [(&'static str, &'static str)],
    /// The range in words, if two numbers do not describe it.
    pub(super) range: &'static str,
}

/// The values of a property.
#[derive(Clone, Copy)]
pub(super) enum Values {
    Switch,
    Word(&'static [&'static str]),
    Text,
    /// Whole numbers. Every multiple of `step` in the range is valid.
    Number {
        unit: &'static str,
        least: i128,
        most: i128,
        step: i128,
    },
}

const MILLIS: &str = "milliseconds";
const MOST_MILLIS: i128 = i32::MAX as i128;
const MILLION: i128 = 1_000_000;

const fn row(name: &'static str, values: Values, about: &'static str) -> PropertyDoc {
    PropertyDoc {
        name,
        values,
        about,
        with: &[],
        range: "",
    }
}

impl PropertyDoc {
    const fn with(mut self, with: &'static [(&'static str, &'static str)]) -> Self {
        self.with = with;
        self
    }

    const fn range(mut self, range: &'static str) -> Self {
        self.range = range;
        self
    }
}

const fn number(least: i128, most: i128) -> Values {
    Values::Number {
        unit: "whole number",
        least,
        most,
        step: 1,
    }
}

const fn millis(least: i128) -> Values {
    Values::Number {
        unit: MILLIS,
        least,
        most: MOST_MILLIS,
        step: 1,
    }
}

pub(super) const COMMAND: [PropertyDoc; 30] = [
    row(
        "threadPoolKeyOverride",
        Values::Text,
        "The pool whose threads the command uses. It cannot be set for `default`.",
    ),
    row(
        "execution.isolation.strategy",
        Values::Word(&["SEMAPHORE", "THREAD"]),
        "Where the work runs: on the caller's thread, limited by permits, or on threads of a pool.",
    ),
    row(
        "execution.isolation.thread.timeoutInMilliseconds",
        millis(1),
        "The longest time that a call may take, waiting included.",
    ),
    row(
        "execution.timeout.enabled",
        Values::Switch,
        "Whether calls have a timeout.",
    ),
    row(
        "execution.isolation.thread.interruptOnTimeout",
        Values::Switch,
        "Whether a timeout cancels the token of the work.",
    ),
    row(
        "execution.isolation.thread.interruptOnFutureCancel",
        Values::Switch,
        "Whether a cancel by the caller cancels the token of the work.",
    ),
    row(
        "execution.isolation.semaphore.maxConcurrentRequests",
        number(1, MILLION),
        "The permits: how many calls may run at the same time.",
    ),
    row(
        "fallback.enabled",
        Values::Switch,
        "Whether a fallback is tried.",
    ),
    row(
        "fallback.isolation.semaphore.maxConcurrentRequests",
        number(1, MILLION),
        "How many fallbacks may run at the same time.",
    ),
    row(
        "fallback.timeoutInMilliseconds",
        millis(1),
        "The longest time that an asynchronous fallback may take.",
    ),
    row(
        "circuitBreaker.enabled",
        Values::Switch,
        "Whether the breaker counts and denies calls.",
    ),
    row(
        "circuitBreaker.requestVolumeThreshold",
        number(1, u32::MAX as i128),
        "The smallest number of calls in the window for which the breaker judges.",
    ),
    row(
        "circuitBreaker.sleepWindowInMilliseconds",
        millis(0),
        "How long all calls are denied after the breaker has opened.",
    ),
    row(
        "circuitBreaker.errorThresholdPercentage",
        number(1, 100),
        "The breaker opens when this percentage of the calls failed.",
    ),
    row(
        "circuitBreaker.forceClosed",
        Values::Switch,
        "Lets all calls through. They are still counted.",
    ),
    row(
        "circuitBreaker.forceOpen",
        Values::Switch,
        "Denies all calls. It overrides the other two switches.",
    ),
    row(
        "circuitBreaker.probes.maxConcurrentRequests",
        number(1, u32::MAX as i128),
        "How many probes may run at the same time while the breaker is half open.",
    ),
    row(
        "circuitBreaker.probes.requiredSuccesses",
        number(1, u32::MAX as i128),
        "How many probes must succeed before the breaker closes.",
    ),
    row(
        "circuitBreaker.probes.timeoutInMilliseconds",
        millis(1),
        "The longest time that the breaker is half open.",
    ),
    row(
        "circuitBreaker.ramp.timeInMilliseconds",
        millis(0),
        "The time in which the share of admitted calls rises to all of them after the probes. 0 \
         closes the breaker at once.",
    ),
    row(
        "metrics.rollingStats.timeInMilliseconds",
        millis(1),
        "The length of the window of event counts. It must divide evenly into its buckets.",
    )
    .with(&[("metrics.rollingStats.numBuckets", "1")]),
    row(
        "metrics.rollingStats.numBuckets",
        number(1, 10_000),
        "The number of buckets of this window.",
    ),
    row(
        "metrics.rollingPercentile.enabled",
        Values::Switch,
        "Whether latencies are recorded.",
    ),
    row(
        "metrics.rollingPercentile.timeInMilliseconds",
        millis(1),
        "The length of the window of latencies. It must divide evenly into its buckets.",
    )
    .with(&[("metrics.rollingPercentile.numBuckets", "1")]),
    row(
        "metrics.rollingPercentile.numBuckets",
        number(1, 10_000),
        "The number of buckets of this window.",
    ),
    row(
        "circuitBreaker.window.calls",
        number(1, 100_000),
        "The breaker judges this many last calls, instead of those of a length of time.",
    ),
    row(
        "circuitBreaker.window.timeInMilliseconds",
        Values::Number {
            unit: MILLIS,
            least: 500,
            most: 5_000_000,
            step: 500,
        },
        "The breaker judges the calls of this length of time.",
    )
    .range("1 to 10,000 buckets of the length below"),
    row(
        "metrics.healthSnapshot.intervalInMilliseconds",
        Values::Number {
            unit: MILLIS,
            least: 1,
            most: 10_000,
            step: 1,
        },
        "The length of a bucket of the breaker's window. The breaker judges when a bucket closes.",
    )
    .range("1 to the length of the window, which it must divide evenly"),
    row(
        "requestCache.enabled",
        Values::Switch,
        "Whether calls with the same cache key share one run within a request.",
    ),
    row(
        "requestLog.enabled",
        Values::Switch,
        "Whether calls are recorded in the log of their request.",
    ),
];

pub(super) const POOL: [PropertyDoc; 8] = [
    row(
        "coreSize",
        number(1, 10_000),
        "The number of threads that are kept alive.",
    ),
    row(
        "maximumSize",
        number(0, 10_000),
        "The largest number of threads. Without it, and with a value below `coreSize`, it is `coreSize`.",
    )
    .with(&[("allowMaximumSizeToDivergeFromCoreSize", "true")]),
    row(
        "maxQueueSize",
        number(i64::MIN as i128, MILLION),
        "How many calls may wait for a thread. 0 or less means that there is no queue.",
    )
    .range("up to 1,000,000"),
    row(
        "queueSizeRejectionThreshold",
        number(0, MILLION),
        "A lower bound for the queue than `maxQueueSize`.",
    ),
    row(
        "keepAliveTimeMinutes",
        Values::Number {
            unit: "minutes",
            least: 0,
            most: MILLION,
            step: 1,
        },
        "How long a thread above `coreSize` may be idle before it ends. 0 keeps it for ever.",
    ),
    row(
        "allowMaximumSizeToDivergeFromCoreSize",
        Values::Switch,
        "Whether the property `maximumSize` has an effect.",
    ),
    row(
        "metrics.rollingStats.timeInMilliseconds",
        millis(1),
        "The length of the window of the pool's counts. It must divide evenly into its buckets.",
    )
    .with(&[("metrics.rollingStats.numBuckets", "1")]),
    row(
        "metrics.rollingStats.numBuckets",
        number(1, 10_000),
        "The number of buckets of this window.",
    ),
];

pub(super) const COLLAPSER: [PropertyDoc; 3] = [
    row(
        "maxRequestsInBatch",
        number(1, usize::MAX as i128),
        "The largest number of requests in a batch. A full batch runs at once.",
    )
    .range("1 or more"),
    row(
        "timerDelayInMilliseconds",
        millis(0),
        "How long requests are collected.",
    ),
    row(
        "requestCache.enabled",
        Values::Switch,
        "Whether equal requests of a batch share one result. If not, the later ones are rejected.",
    ),
];

/// The settings that have no property: their names in `Command::settings`, and their meaning.
pub(super) const CODE_ONLY: [(&str, &str); 15] = [
    (
        "permits.max_wait",
        "How long a call waits for a permit. Zero rejects at once. A layer of tower never waits.",
    ),
    (
        "permits.max_waiting",
        "How many calls may wait for a permit at the same time.",
    ),
    (
        "permits.discipline",
        "The order in which waiting calls are served.",
    ),
    (
        "permits.partitions",
        "The shares of the permits that are reserved for critical calls.",
    ),
    (
        "permits.adaptive",
        "A limit that follows the latency, instead of a fixed number of permits.",
    ),
    (
        "breaker.mode",
        "The mode of the breaker; the switches above set it too, except `MetricsOnly`.",
    ),
    (
        "breaker.count_rejections",
        "A call that a full bulkhead rejects counts as failed.",
    ),
    ("breaker.slow_call", "A call that takes longer is slow."),
    (
        "breaker.slow_percent",
        "The breaker opens when this percentage of the calls was slow.",
    ),
    (
        "breaker.sleep_factor",
        "The factor by which the sleep grows each time that a probe fails.",
    ),
    ("breaker.max_sleep", "The longest sleep."),
    ("rate", "The rate limit."),
    (
        "growth",
        "Pool: whether a thread is started or the queue is used first.",
    ),
    (
        "discipline",
        "Pool: the order in which waiting calls are run.",
    ),
    (
        "partitions",
        "Pool: the shares of the places that are reserved for critical calls.",
    ),
];
