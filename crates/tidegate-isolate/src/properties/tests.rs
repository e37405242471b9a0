//! Precedence, defaults and refusals of properties.

use super::*;
use crate::{BreakerMode, Bulkhead};
use std::time::Duration;

const LIMIT: &str = "execution.isolation.semaphore.maxConcurrentRequests";

fn resolve(said: &Said, properties: &Properties) -> (CommandConfig, Vec<Invalid>) {
    let sources = Sources::new(vec![Arc::new(properties.clone())]);
    let keys = (&"prices".into(), &"catalog".into());
    said.resolve(&sources, keys, None).unwrap()
}

fn with(pairs: &[(&str, &str)]) -> Properties {
    let properties = Properties::new();
    for (name, value) in pairs {
        properties.set(name, *value).unwrap();
    }
    properties
}

fn plain() -> Said {
    Said::new(CommandConfig::default())
}

#[test]
fn the_four_levels_in_their_order() {
    let instance = format!("hystrix.command.prices.{LIMIT}");
    let global = format!("hystrix.command.default.{LIMIT}");
    let properties = Properties::new();
    let limit = |said: &Said| resolve(said, &properties).0.permits.limit;
    let mut coded = plain();
    let mut config = CommandConfig::default();
    config.permits.limit = 7;
    coded.change(config);
    assert_eq!((limit(&plain()), limit(&coded)), (10, 7));
    properties.set(&global, "3").unwrap();
    assert_eq!(
        (limit(&plain()), limit(&coded)),
        (3, 7),
        "code hides the global value"
    );
    properties.set(&instance, "5").unwrap();
    assert_eq!((limit(&plain()), limit(&coded)), (5, 5));
    properties.remove(&instance).unwrap();
    assert_eq!(
        (limit(&plain()), limit(&coded)),
        (3, 7),
        "the next level again"
    );
}

#[test]
fn what_the_code_says_hides_the_global_value_even_if_it_is_the_default() {
    let properties = with(&[("hystrix.command.default.fallback.enabled", "false")]);
    let mut said = plain();
    assert!(!resolve(&said, &properties).0.fallback_enabled);
    said.mark(Family::Command, "fallback.enabled");
    assert!(resolve(&said, &properties).0.fallback_enabled);
}

#[test]
fn pools_have_their_own_names() {
    let properties = with(&[
        ("hystrix.threadpool.default.coreSize", "4"),
        ("hystrix.threadpool.catalog.maximumSize", "8"),
        ("hystrix.threadpool.catalog.maxQueueSize", "-1"),
        ("hystrix.threadpool.prices.coreSize", "99"),
    ]);
    let (config, invalid) = resolve(&plain(), &properties);
    assert_eq!(
        (config.pool.core, config.pool.max, config.pool.queue),
        (4, Some(8), 0)
    );
    assert_eq!(config.pool.effective_max(), 4, "it does not diverge");
    assert_eq!(invalid, []);
}

#[test]
fn every_default_is_the_one_of_the_table() {
    let config = CommandConfig::default();
    let told = |table: &[Property]| -> HashMap<_, _> {
        let told = table.iter();
        told.map(|property| (property.name, (property.get)(&config)))
            .collect()
    };
    let (commands, pools) = (told(&COMMAND), told(&POOL));
    for (name, value) in [
        ("execution.isolation.thread.timeoutInMilliseconds", "1000"),
        ("execution.timeout.enabled", "true"),
        ("execution.isolation.thread.interruptOnTimeout", "true"),
        (
            "execution.isolation.thread.interruptOnFutureCancel",
            "false",
        ),
        (LIMIT, "10"),
        ("threadPoolKeyOverride", ""),
        ("fallback.enabled", "true"),
        ("fallback.isolation.semaphore.maxConcurrentRequests", "10"),
        ("circuitBreaker.enabled", "true"),
        ("circuitBreaker.requestVolumeThreshold", "20"),
        ("circuitBreaker.sleepWindowInMilliseconds", "5000"),
        ("circuitBreaker.errorThresholdPercentage", "50"),
        ("circuitBreaker.forceOpen", "false"),
        ("circuitBreaker.forceClosed", "false"),
        ("metrics.rollingStats.timeInMilliseconds", "10000"),
        ("metrics.rollingStats.numBuckets", "10"),
        ("metrics.rollingPercentile.enabled", "true"),
        ("metrics.rollingPercentile.timeInMilliseconds", "60000"),
        ("metrics.rollingPercentile.numBuckets", "6"),
        ("metrics.healthSnapshot.intervalInMilliseconds", "500"),
        ("requestCache.enabled", "true"),
        ("requestLog.enabled", "true"),
        ("execution.isolation.strategy", "SEMAPHORE"),
    ] {
        assert_eq!(
            commands.get(name).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
    for (name, value) in [
        ("coreSize", "10"),
        ("maximumSize", ""),
        ("maxQueueSize", "0"),
        ("queueSizeRejectionThreshold", ""),
        ("keepAliveTimeMinutes", "1"),
        ("allowMaximumSizeToDivergeFromCoreSize", "false"),
        ("metrics.rollingStats.timeInMilliseconds", "10000"),
        ("metrics.rollingStats.numBuckets", "10"),
    ] {
        assert_eq!(pools.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn every_property_can_be_set_and_told() {
    for property in COMMAND.iter().chain(&POOL) {
        let mut config = CommandConfig::default();
        let old = (property.get)(&config);
        let new = match old.as_str() {
            "true" => "false",
            "false" => "true",
            "SEMAPHORE" => "THREAD",
            "" if property.family == Family::Pool => "4",
            "" => "other",
            "500" => "1000",
            _ => "4",
        };
        (property.set)(&mut config, new).unwrap();
        assert_eq!((property.get)(&config), new, "{}", property.name);
    }
}

#[test]
fn nonsense_is_refused_with_the_property_and_the_key() {
    for (name, value) in [
        (LIMIT, "-1"),
        (LIMIT, "many"),
        (LIMIT, "99999999999"),
        ("execution.isolation.strategy", "COROUTINE"),
        ("execution.isolation.thread.timeoutInMilliseconds", "-5"),
        ("fallback.enabled", "perhaps"),
        ("metrics.healthSnapshot.intervalInMilliseconds", "0"),
        ("metrics.healthSnapshot.intervalInMilliseconds", "333"),
        ("circuitBreaker.errorThresholdPercentage", "1000"),
        ("circuitBreaker.requestVolumeThreshold", "-20"),
        (
            "execution.isolation.thread.timeoutInMilliseconds",
            "2147483648",
        ),
    ] {
        let properties = with(&[(&format!("hystrix.command.prices.{name}"), value)]);
        let (config, invalid) = resolve(&plain(), &properties);
        assert_eq!(invalid.len(), 1, "{name}={value}");
        assert_eq!((invalid[0].key(), invalid[0].property()), ("prices", name));
        assert_eq!(config, CommandConfig::default(), "the old stays");
    }
}

#[test]
fn a_refusal_says_what_is_wrong_with_the_text() {
    let reason = |name: &str, value: &str| {
        let properties = with(&[(&format!("hystrix.{name}"), value)]);
        let invalid = resolve(&plain(), &properties).1;
        invalid[0].reason().to_owned()
    };
    let volume = "command.prices.circuitBreaker.requestVolumeThreshold";
    assert_eq!(reason(volume, "-20"), "it must not be negative");
    assert_eq!(reason(volume, "99999999999"), "it is too large");
    assert_eq!(reason(volume, "a few"), "it is not a whole number");
    let queue = "threadpool.catalog.maxQueueSize";
    assert_eq!(reason(queue, "-2"), "it must not be negative");
    assert_eq!(reason(queue, "1000001"), "a million is the most");
}

#[test]
fn an_unknown_strategy_keeps_the_one_in_force() {
    let properties = with(&[("hystrix.command.prices.execution.isolation.strategy", "X")]);
    let (config, invalid) = resolve(&plain(), &properties);
    assert_eq!(config.bulkhead, Bulkhead::Permits);
    assert!(invalid[0].reason().contains("SEMAPHORE"), "{}", invalid[0]);
}

#[test]
fn forcing_open_beats_forcing_closed() {
    let open = "hystrix.command.prices.circuitBreaker.forceOpen";
    let closed = "hystrix.command.prices.circuitBreaker.forceClosed";
    let mode = |pairs: &[(&str, &str)]| resolve(&plain(), &with(pairs)).0.breaker.mode;
    assert_eq!(
        mode(&[(open, "true"), (closed, "true")]),
        BreakerMode::ForcedOpen
    );
    assert_eq!(mode(&[(closed, "true")]), BreakerMode::ForcedClosed);
    assert_eq!(mode(&[(open, "false")]), BreakerMode::Normal);
    let enabled = "hystrix.command.prices.circuitBreaker.enabled";
    assert_eq!(mode(&[(enabled, "false")]), BreakerMode::Disabled);
}

#[test]
fn a_switched_off_timeout_stays_off_and_comes_back() {
    let enabled = "hystrix.command.default.execution.timeout.enabled";
    let value = "hystrix.command.prices.execution.isolation.thread.timeoutInMilliseconds";
    let timeout = |pairs: &[(&str, &str)]| resolve(&plain(), &with(pairs)).0.timeout;
    assert_eq!(timeout(&[(enabled, "false")]), None);
    assert_eq!(timeout(&[(value, "80")]), Some(Duration::from_millis(80)));
    assert_eq!(timeout(&[(enabled, "false"), (value, "80")]), None);
}

#[test]
fn a_change_concerns_whom_its_name_says() {
    for (name, whom) in [
        ("hystrix.command.default.fallback.enabled", Concerns::All),
        (
            "hystrix.command.prices.fallback.enabled",
            Concerns::Command("prices"),
        ),
        (
            "hystrix.command.a.b.fallback.enabled",
            Concerns::Command("a.b"),
        ),
        (
            "hystrix.threadpool.catalog.coreSize",
            Concerns::Pool("catalog"),
        ),
        ("hystrix.threadpool.default.coreSize", Concerns::All),
        ("hystrix.command.prices.unknown", Concerns::Nothing),
        ("hystrix.command..fallback.enabled", Concerns::Nothing),
        ("spring.name", Concerns::Nothing),
    ] {
        assert_eq!(concerns(name), whom, "{name}");
    }
    let threads = format!("hystrix.command.prices.{LIMIT}");
    assert_eq!(concerns(&threads), Concerns::Command("prices"));
}

#[test]
fn a_refused_change_is_undone() {
    let properties = with(&[("a", "1")]);
    properties.watch(Arc::new({
        let properties = properties.clone();
        move |name| match properties.get(name).as_deref() {
            Some("2") => Err(Invalid::new("k", name, 2, "no")),
            _ => Ok(()),
        }
    }));
    assert!(properties.set("a", "2").is_err());
    assert_eq!(properties.get("a").as_deref(), Some("1"));
    assert!(properties.set("a", "3").is_ok());
    assert!(properties.remove("a").is_ok());
    assert_eq!(properties.get("a"), None);
}
