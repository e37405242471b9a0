//! Precedence, defaults and rejections of properties.

use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::table::COMMAND;
use super::*;
use crate::breaker::BreakerWindow;
use crate::{BreakerMode, Bulkhead, CommandConfig, ConfigError, WindowConfig};

const LIMIT: &str = "execution.isolation.semaphore.maxConcurrentRequests";

fn resolve(
    code_settings: &CodeSettings,
    properties: &Properties,
) -> (CommandConfig, Vec<ConfigError>) {
    let sources = Sources::new(vec![Arc::new(properties.clone())]);
    let keys = (&"prices".into(), &"catalog".into());
    code_settings
        .resolve(&sources.read(keys), keys, None)
        .unwrap()
}

fn with(pairs: &[(&str, &str)]) -> Properties {
    let properties = Properties::new();
    for (name, value) in pairs {
        properties.set(name, *value).unwrap();
    }
    properties
}

fn plain() -> CodeSettings {
    CodeSettings::new(CommandConfig::default())
}

#[test]
fn the_four_levels_in_their_order() {
    let instance = format!("hystrix.command.prices.{LIMIT}");
    let global = format!("hystrix.command.default.{LIMIT}");
    let properties = Properties::new();
    let limit = |code_settings: &CodeSettings| resolve(code_settings, &properties).0.permits.limit;
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
    let mut code_settings = plain();
    assert!(!resolve(&code_settings, &properties).0.fallback_enabled);
    code_settings.mark(Family::Command, "fallback.enabled");
    assert!(resolve(&code_settings, &properties).0.fallback_enabled);
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
fn every_property_can_be_set_and_read() {
    for property in COMMAND.iter().chain(&POOL) {
        let config = CommandConfig::default();
        let new = match (property.get)(&config).as_str() {
            "true" => "false",
            "false" => "true",
            "SEMAPHORE" => "THREAD",
            "" if property.family == Family::Pool => "4",
            "" if property.name == "circuitBreaker.window.calls" => "4",
            "" => "other",
            "500" => "1000",
            "10000" => "20000",
            _ => "4",
        };
        let mut draft = Draft::new(config, Duration::ZERO);
        (property.set)(&mut draft, new).unwrap();
        let config = draft.finish(&"prices".into()).unwrap();
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
        ("fallback.timeoutInMilliseconds", "soon"),
        ("metrics.healthSnapshot.intervalInMilliseconds", "0"),
        ("metrics.healthSnapshot.intervalInMilliseconds", "333"),
        ("circuitBreaker.errorThresholdPercentage", "1000"),
        ("circuitBreaker.requestVolumeThreshold", "-20"),
        ("circuitBreaker.probes.maxConcurrentRequests", "0"),
        ("circuitBreaker.probes.requiredSuccesses", "0"),
        ("circuitBreaker.probes.requiredSuccesses", "-1"),
        ("circuitBreaker.probes.timeoutInMilliseconds", "0"),
        ("circuitBreaker.ramp.timeInMilliseconds", "slow"),
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
fn a_window_that_does_not_divide_is_refused_by_the_name_of_its_property() {
    for (of, name, value) in [
        ("command.prices", "metrics.rollingStats.numBuckets", "7"),
        ("command.prices", "metrics.rollingStats.numBuckets", "0"),
        (
            "command.prices",
            "metrics.rollingStats.timeInMilliseconds",
            "0",
        ),
        (
            "command.prices",
            "metrics.rollingPercentile.numBuckets",
            "7",
        ),
        ("threadpool.catalog", "metrics.rollingStats.numBuckets", "7"),
        (
            "threadpool.catalog",
            "metrics.rollingStats.timeInMilliseconds",
            "0",
        ),
    ] {
        let full = format!("hystrix.{of}.{name}");
        // A valid property of the same name in the other family stays.
        let (valid, is_command) = match of {
            "command.prices" => ("threadpool.catalog", true),
            _ => ("command.prices", false),
        };
        let valid = format!("hystrix.{valid}.metrics.rollingStats.numBuckets");
        let properties = with(&[(&full, value), (&valid, "5")]);
        let (config, invalid) = resolve(&plain(), &properties);
        let key = if is_command { "prices" } else { "catalog" };
        let refused: Vec<_> = invalid.iter().map(|e| (e.key(), e.property())).collect();
        assert_eq!(refused, [(key, name)], "{full}={value}");
        let (command, pool) = (config.metrics.counts.buckets, config.pool.window.buckets);
        let expected = if is_command { (10, 5) } else { (5, 10) };
        assert_eq!((command, pool), expected, "{full}={value}");
    }
    let time = "metrics.rollingPercentile.timeInMilliseconds";
    let properties = with(&[(&format!("hystrix.command.prices.{time}"), "10000")]);
    let (config, invalid) = resolve(&plain(), &properties);
    assert_eq!(config, CommandConfig::default());
    assert_eq!(
        (invalid.len(), invalid[0].property()),
        (1, time),
        "6 buckets"
    );
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
    let core = "threadpool.catalog.coreSize";
    assert_eq!(reason(core, "-2"), "it must not be negative");
    let queue = "threadpool.catalog.maxQueueSize";
    assert_eq!(reason(queue, "1000001"), "a million is the most");
    assert_eq!(reason(queue, "-"), "it is not a whole number");
    assert_eq!(reason(queue, "--1"), "it is not a whole number");
}

#[test]
fn any_negative_queue_size_means_no_queue() {
    let mut coded = CommandConfig::default();
    coded.pool.queue = 7;
    let coded = CodeSettings::new(coded);
    for none in [
        "0",
        "-1",
        "-2",
        "-2147483648",
        "-99999999999999999999999999",
    ] {
        let properties = with(&[("hystrix.threadpool.catalog.maxQueueSize", none)]);
        let (config, invalid) = resolve(&coded, &properties);
        assert_eq!((config.pool.queue, invalid), (0, Vec::new()), "{none}");
    }
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
fn a_timeout_and_its_switch_may_come_from_two_levels() {
    const VALUE: &str = "execution.isolation.thread.timeoutInMilliseconds";
    const ENABLED: &str = "execution.timeout.enabled";
    let name = |scope: &str, property: &str| format!("hystrix.command.{scope}.{property}");
    let timeout = |code_settings: &CodeSettings, pairs: &[&(String, &str)]| {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (&**name, *value))
            .collect();
        let timeout = resolve(code_settings, &with(&pairs)).0.timeout;
        timeout.map(|timeout| timeout.as_millis())
    };
    let mut without = plain();
    without.change(CommandConfig {
        timeout: None,
        ..CommandConfig::default()
    });
    without.mark(Family::Command, ENABLED);
    let on = (name("prices", ENABLED), "true");
    let (mine, all) = (
        (name("prices", VALUE), "80"),
        (name("default", VALUE), "90"),
    );
    assert_eq!(timeout(&without, &[&mine]), None, "the code has no timeout");
    assert_eq!(timeout(&without, &[&on]), Some(1000));
    assert_eq!(timeout(&without, &[&on, &mine]), Some(80));
    assert_eq!(timeout(&without, &[&on, &all]), Some(90));
    assert_eq!(timeout(&without, &[&on, &all, &mine]), Some(80));
    let off = (name("default", ENABLED), "false");
    assert_eq!(timeout(&plain(), &[&off, &on, &all]), Some(90));
    assert_eq!(timeout(&plain(), &[&off, &mine]), None);
    let mut was = plain();
    for timeout in [Some(Duration::from_millis(250)), None] {
        was.change(CommandConfig {
            timeout,
            ..CommandConfig::default()
        });
    }
    assert_eq!(
        timeout(&was, &[&on]),
        Some(250),
        "the last value set in code"
    );
}

#[test]
fn forcing_a_breaker_at_two_levels_is_decided_switch_by_switch() {
    let mode = |code_settings: BreakerMode, pairs: &[(&str, &str)]| {
        let mut config = CommandConfig::default();
        config.breaker.mode = code_settings;
        let properties = Properties::new();
        for (name, value) in pairs {
            let name = format!("hystrix.command.{name}");
            properties.set(&name, *value).unwrap();
        }
        resolve(&CodeSettings::new(config), &properties)
            .0
            .breaker
            .mode
    };
    use BreakerMode::{Disabled, ForcedClosed, ForcedOpen, MetricsOnly, Normal};
    let (all_open, all_closed) = (
        ("default.circuitBreaker.forceOpen", "true"),
        ("default.circuitBreaker.forceClosed", "true"),
    );
    let open = |value| ("prices.circuitBreaker.forceOpen", value);
    let closed = |value| ("prices.circuitBreaker.forceClosed", value);
    let enabled = |value| ("prices.circuitBreaker.enabled", value);
    // An exception for one key overrides the setting for all, and the other switch stays as it was.
    assert_eq!(
        mode(Normal, &[all_closed, all_open, open("false")]),
        ForcedClosed
    );
    assert_eq!(mode(Normal, &[all_open, closed("true")]), ForcedOpen);
    assert_eq!(
        mode(Normal, &[all_open, closed("true"), open("false")]),
        ForcedClosed
    );
    assert_eq!(
        mode(ForcedOpen, &[closed("true")]),
        ForcedOpen,
        "the code's switch"
    );
    assert_eq!(
        mode(ForcedOpen, &[closed("true"), open("false")]),
        ForcedClosed
    );
    assert_eq!(mode(ForcedClosed, &[closed("false")]), Normal);
    assert_eq!(
        mode(MetricsOnly, &[open("true"), closed("true")]),
        ForcedOpen
    );
    assert_eq!(mode(MetricsOnly, &[open("false")]), MetricsOnly);
    // Forced open denies even with the breaker switched off; forced closed has nothing to force.
    assert_eq!(mode(Normal, &[enabled("false"), all_open]), ForcedOpen);
    assert_eq!(mode(Normal, &[enabled("false"), all_closed]), Disabled);
    assert_eq!(
        mode(Disabled, &[enabled("true"), closed("true")]),
        ForcedClosed
    );
}

#[test]
fn the_window_of_the_breaker_has_properties() {
    let window = |code_settings: &CodeSettings, pairs: &[(&str, &str)]| {
        let properties = Properties::new();
        for (name, value) in pairs {
            let name = format!("hystrix.command.{name}");
            properties.set(&name, *value).unwrap();
        }
        let (config, invalid) = resolve(code_settings, &properties);
        (config.breaker.window, invalid)
    };
    let time = |millis, buckets| {
        BreakerWindow::Time(WindowConfig::new(Duration::from_millis(millis), buckets))
    };
    let (mine, all) = (
        "prices.circuitBreaker.window.timeInMilliseconds",
        "default.circuitBreaker.window.timeInMilliseconds",
    );
    let (my_calls, all_calls) = (
        "prices.circuitBreaker.window.calls",
        "default.circuitBreaker.window.calls",
    );
    let interval = "prices.metrics.healthSnapshot.intervalInMilliseconds";
    let of = |pairs: &[(&str, &str)]| {
        let (window, invalid) = window(&plain(), pairs);
        assert_eq!(invalid, [], "{pairs:?}");
        window
    };
    assert_eq!(of(&[(mine, "20000")]), time(20_000, 40));
    assert_eq!(of(&[(all, "20000"), (interval, "2000")]), time(20_000, 10));
    assert_eq!(
        of(&[(all, "20000"), (my_calls, "100")]),
        BreakerWindow::Count(100)
    );
    assert_eq!(of(&[(mine, "20000"), (all_calls, "100")]), time(20_000, 40));
    let mut counting = CommandConfig::default();
    counting.breaker.window = BreakerWindow::Count(50);
    let counting = CodeSettings::new(counting);
    assert_eq!(window(&counting, &[(mine, "5000")]).0, time(5_000, 10));
    // A value that does not fit is rejected under its own name, and the rest stays.
    for (name, value, property) in [
        (mine, "20300", "circuitBreaker.window.timeInMilliseconds"),
        (mine, "0", "circuitBreaker.window.timeInMilliseconds"),
        (my_calls, "0", "circuitBreaker.window.calls"),
        (my_calls, "many", "circuitBreaker.window.calls"),
    ] {
        let (window, invalid) = window(&plain(), &[(name, value)]);
        assert_eq!(window, time(10_000, 20), "{name} = {value}");
        assert_eq!(invalid.len(), 1, "{invalid:?}");
        assert_eq!(
            (invalid[0].key(), invalid[0].property()),
            ("prices", property)
        );
    }
}

#[test]
fn a_name_selects_its_property_and_the_keys_that_it_concerns() {
    for (name, family, scope) in [
        (
            "hystrix.command.default.fallback.enabled",
            Family::Command,
            "default",
        ),
        (
            "hystrix.command.prices.fallback.enabled",
            Family::Command,
            "prices",
        ),
        (
            "hystrix.command.a.b.fallback.enabled",
            Family::Command,
            "a.b",
        ),
        (
            "hystrix.threadpool.catalog.coreSize",
            Family::Pool,
            "catalog",
        ),
        (
            "hystrix.threadpool.default.coreSize",
            Family::Pool,
            "default",
        ),
    ] {
        let Named::Setting(key, property) = parse(name).unwrap() else {
            panic!("{name} is a setting");
        };
        assert_eq!((key, property.family), (scope, family), "{name}");
        assert!(name.ends_with(property.name));
    }
}

#[test]
fn names_that_are_none_are_refused_unless_they_are_accepted() {
    let strict = Properties::new();
    for name in ["hystrix.command.prices.unknown", "spring.name", "a", ""] {
        let error = strict.set(name, "1").unwrap_err();
        assert_eq!(error.property(), name, "{error}");
        assert_eq!(strict.get(name), None, "nothing was set");
    }
    let lenient = Properties::new().accept_unknown();
    assert!(lenient.set("hystrix.command.prices.unknown", "1").is_ok());
    assert!(lenient.clone().set("spring.name", "1").is_ok());
}

#[test]
fn a_refused_change_is_undone() {
    let properties = Arc::new(Properties::new().accept_unknown());
    properties.set("a", "1").unwrap();
    properties.watch(Arc::new({
        let properties = Arc::downgrade(&properties);
        move |name| match properties.upgrade().unwrap().get(name).as_deref() {
            Some("2") => Err(ConfigError::new("k", name, 2, "no")),
            _ => Ok(()),
        }
    }));
    assert!(properties.set("a", "2").is_err());
    assert_eq!(properties.get("a").as_deref(), Some("1"));
    assert!(properties.set("a", "3").is_ok());
    assert!(properties.remove("a").is_ok());
    assert_eq!(properties.get("a"), None);
}
