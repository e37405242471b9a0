//! The event streams of Hystrix: their form, and what the dashboard demands of them.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use tidegate_core::ManualClock;
use tidegate_isolate::{BreakerMode, Command, Isolation, PoolConfig, RequestContext};
use tidegate_metrics::HystrixStream;

/// The fields without which version 1.0.4 of the dashboard refuses a command.
const COMMAND_FIELDS: [&str; 37] = [
    "reportingHosts",
    "type",
    "name",
    "group",
    "isCircuitBreakerOpen",
    "errorPercentage",
    "errorCount",
    "requestCount",
    "rollingCountCollapsedRequests",
    "rollingCountExceptionsThrown",
    "rollingCountFailure",
    "rollingCountFallbackFailure",
    "rollingCountFallbackRejection",
    "rollingCountFallbackSuccess",
    "rollingCountResponsesFromCache",
    "rollingCountSemaphoreRejected",
    "rollingCountShortCircuited",
    "rollingCountSuccess",
    "rollingCountThreadPoolRejected",
    "rollingCountTimeout",
    "rollingCountBadRequests",
    "currentConcurrentExecutionCount",
    "latencyExecute_mean",
    "latencyExecute",
    "propertyValue_circuitBreakerRequestVolumeThreshold",
    "propertyValue_circuitBreakerSleepWindowInMilliseconds",
    "propertyValue_circuitBreakerErrorThresholdPercentage",
    "propertyValue_circuitBreakerForceOpen",
    "propertyValue_circuitBreakerForceClosed",
    "propertyValue_executionIsolationStrategy",
    "propertyValue_executionIsolationThreadTimeoutInMilliseconds",
    "propertyValue_executionIsolationThreadInterruptOnTimeout",
    "propertyValue_executionIsolationSemaphoreMaxConcurrentRequests",
    "propertyValue_fallbackIsolationSemaphoreMaxConcurrentRequests",
    "propertyValue_requestCacheEnabled",
    "propertyValue_requestLogEnabled",
    "propertyValue_metricsRollingStatisticalWindowInMilliseconds",
];

/// The fields without which it refuses a pool.
const POOL_FIELDS: [&str; 15] = [
    "type",
    "name",
    "currentActiveCount",
    "currentCompletedTaskCount",
    "currentCorePoolSize",
    "currentLargestPoolSize",
    "currentMaximumPoolSize",
    "currentPoolSize",
    "currentQueueSize",
    "currentTaskCount",
    "rollingCountThreadsExecuted",
    "rollingMaxActiveThreads",
    "reportingHosts",
    "propertyValue_queueSizeRejectionThreshold",
    "propertyValue_metricsRollingStatisticalWindowInMilliseconds",
];

const NOW: Duration = Duration::from_millis(1_700_000_000_123);

struct Shop {
    clock: ManualClock,
    isolation: Isolation,
    prices: Command<u32, String>,
}

/// One command on permits and one on threads. Each was called, and the bucket has closed.
fn shop() -> Shop {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    let prices: Command<u32, String> = Command::builder("prices")
        .group("cata\"log\n")
        .build(&isolation)
        .unwrap();
    let stock: Command<u32, String> = Command::builder("stock")
        .group("catalog")
        .threads(PoolConfig::default())
        .build(&isolation)
        .unwrap();
    let during = clock.clone();
    let slow = prices.run(move |_| {
        during.advance(Duration::from_millis(40));
        Ok(1)
    });
    assert_eq!(slow, Ok(1));
    assert!(prices.run(|_| Err("no".to_owned())).is_err());
    assert_eq!(stock.run(|_| Ok(2)), Ok(2));
    clock.advance(Duration::from_secs(1));
    Shop {
        clock,
        isolation,
        prices,
    }
}

pub(crate) fn time() -> SystemTime {
    SystemTime::UNIX_EPOCH + NOW
}

/// Splits a text into its events, and checks the form of each.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let events = text.strip_suffix("\n\n").expect("a blank line at the end");
    let events = events.split("\n\n").map(|event| {
        let json = event.strip_prefix("data: ").expect("a field `data`");
        assert!(!json.contains(['\n', '\r']), "one line: {json}");
        serde_json::from_str(json).unwrap_or_else(|why| panic!("{why}: {json}"))
    });
    events.collect()
}

fn names(events: &[Value]) -> Vec<(&str, &str)> {
    let pairs = events.iter().map(|event| {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        (text("type"), text("name"))
    });
    pairs.collect()
}

#[test]
fn a_sample_is_one_object_for_each_event() {
    let shop = shop();
    let events = events(&HystrixStream::new(&shop.isolation).sample(time()));
    assert!(events.iter().all(Value::is_object), "never an array");
    assert_eq!(events[0]["group"], "cata\"log\n", "names are escaped");
}

#[test]
fn commands_come_first_and_pools_after_them() {
    let shop = shop();
    let events = events(&HystrixStream::new(&shop.isolation).sample(time()));
    let expected = [
        ("HystrixCommand", "prices"),
        ("HystrixCommand", "stock"),
        ("HystrixThreadPool", "stock"),
    ];
    assert_eq!(names(&events), expected);
}

#[test]
fn the_dashboard_finds_every_field_that_it_demands() {
    let shop = shop();
    let events = events(&HystrixStream::new(&shop.isolation).sample(time()));
    for (event, fields) in [
        (&events[0], &COMMAND_FIELDS[..]),
        (&events[2], &POOL_FIELDS),
    ] {
        for field in fields {
            assert!(!event[field].is_null(), "{field} is missing: {event}");
        }
    }
}

#[test]
fn numbers_are_numbers_flags_are_booleans_and_no_override_is_null() {
    let shop = shop();
    let events = events(&HystrixStream::new(&shop.isolation).sample(time()));
    let [prices, stock, pool] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(prices["currentTime"], 1_700_000_000_123_u64);
    assert_eq!(prices["requestCount"], 2);
    assert_eq!(prices["errorCount"], 1);
    assert_eq!(prices["errorPercentage"], 50);
    assert_eq!(prices["rollingCountSuccess"], 1);
    assert_eq!(prices["rollingCountFailure"], 1);
    assert_eq!(prices["rollingCountEmit"], 0);
    assert_eq!(prices["isCircuitBreakerOpen"], false);
    assert_eq!(prices["propertyValue_circuitBreakerEnabled"], true);
    assert_eq!(
        prices["propertyValue_executionIsolationStrategy"],
        "SEMAPHORE"
    );
    assert_eq!(stock["propertyValue_executionIsolationStrategy"], "THREAD");
    assert!(prices["propertyValue_executionIsolationThreadPoolKeyOverride"].is_null());
    let latency = prices["latencyExecute"]["100"].as_u64().unwrap();
    assert!(
        (38..=42).contains(&latency),
        "whole milliseconds: {latency}"
    );
    let keys: Vec<_> = ["0", "25", "50", "75", "90", "95", "99", "99.5", "100"].into();
    assert!(keys.iter().all(|key| prices["latencyTotal"][*key].is_u64()));
    assert_eq!(pool["rollingCountThreadsExecuted"], 1);
    assert_eq!(pool["currentCorePoolSize"], 10);
    assert_eq!(pool["reportingHosts"], 1);
}

#[test]
fn a_forced_breaker_shows_as_open() {
    let shop = shop();
    let force = |mode| shop.prices.configure(|c| c.breaker.mode = mode).unwrap();
    let mut stream = HystrixStream::new(&shop.isolation);
    force(BreakerMode::ForcedOpen);
    let sample = events(&stream.sample(time()));
    assert_eq!(sample[0]["isCircuitBreakerOpen"], true);
    assert_eq!(sample[0]["propertyValue_circuitBreakerForceOpen"], true);
    force(BreakerMode::Disabled);
    let sample = events(&stream.sample(time()));
    assert_eq!(sample[0]["isCircuitBreakerOpen"], false);
    assert_eq!(sample[0]["propertyValue_circuitBreakerEnabled"], false);
}

#[test]
fn a_key_that_is_gone_removes_its_tile_once() {
    let shop = shop();
    let odd: Command<u32, String> = Command::builder("a.b c-d_e")
        .group("odd")
        .build(&shop.isolation)
        .unwrap();
    let mut stream = HystrixStream::new(&shop.isolation);
    stream.sample(time());
    drop(odd);
    assert!(shop.isolation.remove("a.b c-d_e"));
    assert!(shop.isolation.remove("stock"), "with its pool");
    let sample = events(&stream.sample(time()));
    let expected = [
        ("HystrixCommand", "prices"),
        ("HystrixCommand", "a.b c-d_e"),
        ("HystrixCommand", "stock"),
        ("HystrixThreadPool", "stock"),
    ];
    assert_eq!(names(&sample), expected);
    assert_eq!(sample[1]["deleteData"], "true", "a string");
    assert_eq!(sample[1]["escapedName"], "a\\.b\\ c-d_e_0");
    assert_eq!(sample[3]["escapedName"], "stock_0");
    assert_eq!(events(&stream.sample(time())).len(), 1, "only once");
    let fresh = events(&HystrixStream::new(&shop.isolation).sample(time()));
    assert_eq!(fresh.len(), 1, "another client has not seen them");
}

#[test]
fn without_commands_there_are_pings() {
    let isolation = Isolation::builder().build().unwrap();
    let mut stream = HystrixStream::new(&isolation);
    assert_eq!(stream.sample(time()), "ping: \n\n");
    assert_eq!(HystrixStream::PING, "ping: \n\n");
}

#[test]
fn sister_streams_tell_of_settings_and_utilization() {
    let shop = shop();
    let stream = HystrixStream::new(&shop.isolation);
    let config = &events(&stream.config())[0];
    assert_eq!(config["type"], "HystrixConfig");
    let prices = &config["commands"]["prices"];
    assert_eq!(prices["groupKey"], "cata\"log\n");
    assert_eq!(prices["execution"]["timeoutInMilliseconds"], 1000);
    assert!(prices["execution"]["threadPoolKeyOverride"].is_null());
    assert_eq!(prices["metrics"]["percentileBucketCount"], 6);
    assert_eq!(prices["metrics"]["counterBucketCount"], 10);
    assert_eq!(prices["circuitBreaker"]["isForcedClosed"], false);
    let pool = &config["threadpools"]["stock"];
    assert_eq!(
        (pool["coreSize"].as_i64(), pool["maxQueueSize"].as_i64()),
        (Some(10), Some(-1))
    );
    assert_eq!(pool["keepAliveTimeInMinutes"], 1);
    let utilization = &events(&stream.utilization())[0];
    assert_eq!(utilization["type"], "HystrixUtilization");
    assert_eq!(utilization["commands"]["prices"]["activeCount"], 0);
    assert_eq!(utilization["threadpools"]["stock"]["corePoolSize"], 10);
}

#[test]
fn the_request_stream_groups_equal_calls() {
    let shop = shop();
    let request = RequestContext::new();
    let entered = request.enter();
    for took in [3, 4] {
        let during = shop.clock.clone();
        let price = shop.prices.run(move |_| {
            during.advance(Duration::from_millis(took));
            Ok(1)
        });
        assert_eq!(price, Ok(1));
    }
    assert!(shop.prices.run(|_| Err("no".to_owned())).is_err());
    drop(entered);
    let calls = &events(&HystrixStream::request(&request))[0];
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    assert_eq!(calls[0]["name"], "prices");
    assert_eq!(calls[0]["events"], serde_json::json!(["SUCCESS"]));
    assert_eq!(calls[0]["latencies"], serde_json::json!([3, 4]));
    let events = calls[1]["events"].as_array().unwrap();
    assert!(events.contains(&"FAILURE".into()), "{events:?}");
}
