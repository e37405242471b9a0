//! The list of all settings in force, and where each comes from; the manual reset of a breaker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_isolate::{
    BreakerConfig, BreakerState, BreakerWindow, Bulkhead, Event, Origin, PropertySource, Settings,
};

use crate::support::{alone, builder, isolated, made, pool_of, set, tunable, with_properties};

const LIMIT: &str = "execution.isolation.semaphore.maxConcurrentRequests";
const TIMEOUT: &str = "execution.isolation.thread.timeoutInMilliseconds";
const WINDOW: &str = "metrics.rollingStats.timeInMilliseconds";

fn notified(settings: &Settings, name: &str) -> (String, Origin) {
    let setting = settings.get(name).unwrap_or_else(|| panic!("no {name}"));
    (setting.value.clone(), setting.origin.clone())
}

fn by(name: &str) -> Origin {
    Origin::Property(name.to_owned())
}

#[test]
fn every_setting_has_its_value_and_its_origin() {
    let (properties, isolation) = with_properties();
    let plain = builder("plain").build(&isolation).unwrap();
    let coded = builder("coded").permits(7).build(&isolation).unwrap();
    let of = |name: &str| {
        (
            notified(&plain.settings(), name),
            notified(&coded.settings(), name),
        )
    };
    let value = |value: &str, origin: Origin| (value.to_owned(), origin);
    assert_eq!(
        of(LIMIT),
        (value("10", Origin::Default), value("7", Origin::Code))
    );
    let all = format!("hystrix.command.default.{LIMIT}");
    properties.set(&all, "5").unwrap();
    assert_eq!(of(LIMIT), (value("5", by(&all)), value("7", Origin::Code)));
    let mine = format!("hystrix.command.coded.{LIMIT}");
    properties.set(&mine, "9").unwrap();
    assert_eq!(of(LIMIT), (value("5", by(&all)), value("9", by(&mine))));
    plain.configure(|c| c.permits.limit = 3).unwrap();
    assert_eq!(of(LIMIT).0, value("3", Origin::Code));
    properties.remove(&mine).unwrap();
    assert_eq!(of(LIMIT).1, value("7", Origin::Code));
    // A timeout that is switched off keeps its origin.
    let enabled = "hystrix.command.plain.execution.timeout.enabled";
    properties.set(enabled, "false").unwrap();
    assert_eq!(of(TIMEOUT).0, value("", Origin::Default));
    let switch = notified(&plain.settings(), "execution.timeout.enabled");
    assert_eq!(switch, value("false", by(enabled)));
    // Settings without a property.
    plain.configure(|c| c.permits.max_waiting = 4).unwrap();
    let waiting = of("permits.max_waiting");
    assert_eq!(waiting.0, value("4", Origin::Code));
    assert_eq!(waiting.1, value("100", Origin::Default));
}

#[test]
fn the_settings_of_a_pool_are_listed_once_it_exists() {
    let (properties, _isolation, command) = tunable(|c| c);
    let settings = command.settings();
    assert_eq!(
        (settings.pool.as_ref(), settings.get("coreSize")),
        (None, None)
    );
    set(&command, |c| c.bulkhead = Bulkhead::Threads);
    let name = "hystrix.threadpool.a.coreSize";
    properties.set(name, "4").unwrap();
    let settings = command.settings();
    assert_eq!(notified(&settings, "coreSize"), ("4".to_owned(), by(name)));
    assert_eq!(notified(&settings, "growth").1, Origin::Default);
    let property = settings.get("coreSize").unwrap().property.as_deref();
    assert_eq!(property, Some(name), "the name under which it can be set");
    let text = settings.to_string();
    assert!(text.starts_with("command a, pool a\n  "), "{text}");
    let line = format!("\n  coreSize = 4 (property {name})\n");
    assert!(text.contains(&line), "{text}");
    assert!(
        text.contains("\n  maximumSize = none (default)\n"),
        "{text}"
    );
    assert!(text.contains("execution.isolation.strategy = THREAD (code)"));
}

#[test]
fn a_value_of_before_says_so() {
    let (properties, isolation) = with_properties();
    let mine = format!("hystrix.command.a.{WINDOW}");
    properties.set(&mine, "20000").unwrap();
    let command = builder("a").build(&isolation).unwrap();
    let window = || notified(&command.settings(), WINDOW);
    assert_eq!(window(), ("20000".to_owned(), by(&mine)));
    properties.set(&mine, "30000").unwrap();
    assert_eq!(window(), ("20000".to_owned(), Origin::Earlier));
    properties.remove(&mine).unwrap();
    assert_eq!(window(), ("20000".to_owned(), Origin::Earlier));
    let later = builder("b").build(&isolation).unwrap();
    let all = format!("hystrix.command.default.{WINDOW}");
    properties.set(&all, "40000").unwrap();
    let window = notified(&later.settings(), WINDOW);
    assert_eq!(window, ("10000".to_owned(), Origin::Default), "it is fixed");
}

#[test]
fn a_removed_command_keeps_its_values_and_says_so() {
    let (properties, isolation) = with_properties();
    let mine = format!("hystrix.command.a.{LIMIT}");
    properties.set(&mine, "5").unwrap();
    let old = builder("a").permits(3).build(&isolation).unwrap();
    assert!(isolation.remove("a"));
    let new = builder("a").build(&isolation).unwrap();
    let limits = || [&old, &new].map(|command| notified(&command.settings(), LIMIT));
    let both = ("5".to_owned(), by(&mine));
    assert_eq!(limits(), [both.clone(), both]);
    properties.set(&mine, "6").unwrap();
    let before = ("5".to_owned(), Origin::Earlier);
    assert_eq!(limits(), [before.clone(), ("6".to_owned(), by(&mine))]);
    properties.remove(&mine).unwrap();
    assert_eq!(limits(), [before, ("10".to_owned(), Origin::Default)]);
}

/// A source that cannot refuse a value.
#[derive(Clone)]
struct Fixed(Arc<Mutex<&'static str>>);

impl PropertySource for Fixed {
    fn get(&self, name: &str) -> Option<String> {
        let is = name == format!("hystrix.command.a.{LIMIT}");
        is.then(|| self.0.lock().unwrap().to_string())
    }
}

#[test]
fn a_value_that_was_refused_is_not_in_force() {
    let source = Fixed(Arc::new(Mutex::new("5")));
    let isolation = isolated(|i| i.properties(source.clone()));
    let command = builder("a").build(&isolation).unwrap();
    *source.0.lock().unwrap() = "many";
    command.configure(|c| c.log_enabled = false).unwrap();
    let limit = notified(&command.settings(), LIMIT);
    assert_eq!(limit.0, "5", "the value in force, not the refused one");
}

#[test]
fn all_keys_are_listed_in_order() {
    let (_properties, isolation) = with_properties();
    let _commands = ["b", "a"].map(|key| builder(key).build(&isolation).unwrap());
    let settings = isolation.settings();
    let keys: Vec<_> = settings.iter().map(|one| one.command.as_str()).collect();
    assert_eq!(keys, ["a", "b"]);
    let names: Vec<_> = settings[0].values.iter().map(|one| one.name).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "each is listed once");
}

#[test]
fn probes_and_ramp_are_live_properties() {
    let (properties, isolation, command) = tunable(|c| c);
    let set = |name: &str, value: &str| {
        let name = format!("hystrix.command.a.circuitBreaker.{name}");
        properties.set(&name, value)
    };
    set("probes.maxConcurrentRequests", "3").unwrap();
    set("probes.requiredSuccesses", "2").unwrap();
    set("probes.timeoutInMilliseconds", "700").unwrap();
    set("ramp.timeInMilliseconds", "9000").unwrap();
    let breaker = || command.config().breaker.clone();
    assert_eq!((breaker().probes, breaker().successes), (3, 2));
    assert_eq!(breaker().probe_limit, Duration::from_millis(700));
    assert_eq!(breaker().ramp, Some(Duration::from_secs(9)));
    for (name, value) in [
        ("probes.maxConcurrentRequests", "0"),
        ("probes.requiredSuccesses", "0"),
        ("probes.timeoutInMilliseconds", "0"),
        ("ramp.timeInMilliseconds", "-1"),
    ] {
        let error = set(name, value).unwrap_err();
        assert_eq!(error.property(), format!("circuitBreaker.{name}"));
    }
    assert_eq!(breaker().probes, 3, "the old value stays");
    set("ramp.timeInMilliseconds", "0").unwrap();
    assert_eq!(breaker().ramp, None);
    let later = made(builder("b").breaker(BreakerConfig::default()), &isolation);
    let all = "hystrix.command.default.circuitBreaker.probes.requiredSuccesses";
    properties.set(all, "5").unwrap();
    assert_eq!(later.config().breaker.successes, 1, "the code says so");
}

#[test]
fn a_breaker_is_reset_by_hand() {
    let config = BreakerConfig {
        window: BreakerWindow::Count(4),
        min_calls: 2,
        ..BreakerConfig::default()
    };
    let (clock, isolation, command) = alone(|c| c.breaker(config));
    let trip = || (0..2).for_each(|_| drop(command.run(|_| Err("down"))));
    trip();
    assert!(command.run(|_| Ok(1)).unwrap_err().is_short_circuited());
    command.reset_breaker();
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    let snapshot = command.snapshot();
    assert_eq!(snapshot.breaker, BreakerState::Closed);
    assert_eq!(snapshot.totals[Event::Failure], 2, "the metrics stay");
    trip();
    clock.advance(Duration::from_secs(6));
    assert!(isolation.reset_breaker("a") && !isolation.reset_breaker("b"));
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    assert_eq!(command.snapshot().breaker_entered, [2, 2, 0, 0], "no probe");
}

#[test]
fn absurd_settings_of_a_pool_are_refused_and_the_rest_goes_on() {
    let (properties, isolation, command) = tunable(|c| c.threads(pool_of(2, 3)));
    for (name, value) in [
        ("coreSize", "-1"),
        ("coreSize", "0"),
        ("coreSize", "10001"),
        ("coreSize", "99999999999999999999"),
        ("maxQueueSize", "1000001"),
        ("queueSizeRejectionThreshold", "-1"),
        ("keepAliveTimeMinutes", "-1"),
    ] {
        let error = properties.set(&format!("hystrix.threadpool.a.{name}"), value);
        assert_eq!(error.unwrap_err().property(), name, "{value}");
    }
    for core in [0, usize::MAX] {
        let error = command.configure(|c| c.pool.core = core).unwrap_err();
        assert_eq!((error.key(), error.property()), ("a", "coreSize"));
        let error = builder("b").threads(pool_of(core, 0)).build(&isolation);
        assert_eq!(error.unwrap_err().property(), "coreSize");
    }
    let error = command
        .configure(|c| c.pool.queue = usize::MAX)
        .unwrap_err();
    assert_eq!((error.key(), error.property()), ("a", "maxQueueSize"));
    let error = builder("b")
        .threads(pool_of(1, usize::MAX))
        .build(&isolation);
    assert_eq!(error.unwrap_err().property(), "maxQueueSize");
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}
