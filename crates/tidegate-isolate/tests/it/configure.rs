//! Settings at work: properties are pushed, nonsense is refused, the old stay.

use std::time::Duration;

use tidegate_isolate::{Invalid, PermitConfig, WindowConfig};

use crate::support::{Numbers, builder, still, with_properties};

#[test]
fn a_property_acts_at_once_without_a_call() {
    let (properties, isolation) = with_properties();
    let (a, b) = (
        builder("a").build(&isolation).unwrap(),
        builder("b").build(&isolation).unwrap(),
    );
    let limit = "execution.isolation.semaphore.maxConcurrentRequests";
    properties
        .set(&format!("hystrix.command.a.{limit}"), "3")
        .unwrap();
    assert_eq!((a.snapshot().limit, b.snapshot().limit), (3, 10));
    properties
        .set(&format!("hystrix.command.default.{limit}"), "4")
        .unwrap();
    assert_eq!((a.snapshot().limit, b.snapshot().limit), (3, 4));
    properties
        .remove(&format!("hystrix.command.a.{limit}"))
        .unwrap();
    assert_eq!(a.snapshot().limit, 4);
    let c = builder("c").build(&isolation).unwrap();
    assert_eq!(c.snapshot().limit, 4);
}

#[test]
fn a_refused_value_names_the_property_and_the_old_stays() {
    let (properties, isolation) = with_properties();
    let command = builder("a").build(&isolation).unwrap();
    for (name, value) in [
        ("execution.isolation.semaphore.maxConcurrentRequests", "0"),
        ("execution.isolation.semaphore.maxConcurrentRequests", "-3"),
        ("execution.isolation.strategy", "GREEN_THREAD"),
        ("execution.isolation.thread.timeoutInMilliseconds", "0"),
        ("circuitBreaker.requestVolumeThreshold", "0"),
    ] {
        let error = properties
            .set(&format!("hystrix.command.a.{name}"), value)
            .unwrap_err();
        assert_eq!((error.key(), error.property()), ("a", name));
    }
    assert_eq!(command.snapshot().limit, 10);
    assert_eq!(command.config().timeout, Some(Duration::from_secs(1)));
    let limit = "hystrix.command.a.execution.isolation.semaphore.maxConcurrentRequests";
    properties.set(limit, "5").unwrap();
    assert_eq!(command.snapshot().limit, 5, "what was refused is forgotten");
}

#[test]
fn a_bad_property_refuses_the_command_that_is_built_under_it() {
    let (properties, isolation) = with_properties();
    let name = "hystrix.command.a.metrics.rollingStats.numBuckets";
    properties.set(name, "7").unwrap();
    let error = builder("a").build(&isolation).unwrap_err();
    assert!(error.reason().contains("divide"), "{error}");
    assert!(isolation.is_empty());
}

#[test]
fn windows_are_read_once() {
    let (properties, isolation) = with_properties();
    let command = builder("a").build(&isolation).unwrap();
    let name = "hystrix.command.default.metrics.rollingStats.timeInMilliseconds";
    properties.set(name, "20000").unwrap();
    assert_eq!(
        command.config().metrics.counts.length,
        Duration::from_secs(10)
    );
    let later = builder("b").build(&isolation).unwrap();
    assert_eq!(
        later.config().metrics.counts.length,
        Duration::from_secs(20)
    );
    let error =
        command.configure(|c| c.metrics.counts = WindowConfig::new(Duration::from_secs(1), 1));
    assert!(error.unwrap_err().reason().contains("fixed"));
}

#[test]
fn configure_is_all_or_nothing() {
    let (_clock, isolation) = still();
    let command = builder("a").build(&isolation).unwrap();
    let error = command.configure(|c| {
        c.permits.limit = 20;
        c.breaker.error_percent = 0;
    });
    assert!(error.is_err());
    assert_eq!(command.snapshot().limit, 10);
    command.configure(|c| c.permits.limit = 20).unwrap();
    command.configure(|c| c.breaker.error_percent = 60).unwrap();
    let config = command.config();
    assert_eq!(
        (config.permits.limit, config.breaker.error_percent),
        (20, 60)
    );
    assert_eq!(command.snapshot().limit, 20);
}

#[test]
fn forced_states_come_and_go_live() {
    let (properties, isolation) = with_properties();
    let command = builder("a").build(&isolation).unwrap();
    let name = "hystrix.command.a.circuitBreaker.forceOpen";
    properties.set(name, "true").unwrap();
    assert!(command.run(|_| Ok(1)).unwrap_err().is_short_circuited());
    properties.set(name, "false").unwrap();
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

#[test]
fn builders_are_checked() {
    let (_clock, isolation) = still();
    let built: [Result<Numbers, Invalid>; 5] = [
        builder("a").permits(0).build(&isolation),
        builder("a").timeout(Duration::ZERO).build(&isolation),
        builder("a")
            .configure(|c| c.pool.core = 0)
            .build(&isolation),
        builder("a")
            .configure(|c| c.fallback_permits = 0)
            .build(&isolation),
        builder("a")
            .configure(|c| c.breaker.probes = 0)
            .build(&isolation),
    ];
    for error in built {
        assert_eq!(error.unwrap_err().key(), "a");
    }
    let config = PermitConfig {
        limit: 5,
        ..PermitConfig::default()
    };
    assert!(builder("a").permits_with(config).build(&isolation).is_ok());
}
