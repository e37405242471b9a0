//! Settings of a pool, from the builder and from properties.

use std::time::Duration;

use tidegate_core::{OnUnhandled, Unhandled};
use tidegate_isolate::{Bulkhead, PoolConfig, Properties, WindowConfig};
use tidegate_testkit::Log;

use crate::support::{alone, builder, isolated, pool, pool_of, set, set_property, with_properties};

#[test]
fn the_effective_maximum_follows_the_divergence() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(4, 0)));
    for (core, max, may_diverge, effective) in [
        (4, None, None, 4),
        (4, Some(8), None, 8),
        (4, Some(8), Some(false), 4),
        (4, Some(8), Some(true), 8),
        (4, Some(2), Some(true), 4),
        (12, Some(8), None, 12),
        (2, Some(3), Some(true), 3),
        (2, Some(3), Some(false), 2),
    ] {
        set(&command, |c| {
            (c.pool.core, c.pool.max, c.pool.may_diverge) = (core, max, may_diverge)
        });
        let pool = pool(&isolation);
        assert_eq!(
            (pool.core, pool.max),
            (core, effective),
            "at once, without a call"
        );
    }
}

#[test]
fn pool_properties_are_pushed() {
    let (properties, isolation) = with_properties();
    let command = builder("a").configure(|c| c.bulkhead = Bulkhead::Threads);
    let _command = command.build(&isolation).unwrap();
    set_property(&properties, "hystrix.threadpool.a.coreSize", "20");
    assert_eq!((pool(&isolation).core, pool(&isolation).max), (20, 20));
    let error = properties
        .set("hystrix.threadpool.a.coreSize", "0")
        .unwrap_err();
    assert_eq!(error.property(), "coreSize");
    assert_eq!(pool(&isolation).core, 20);
    set_property(&properties, "hystrix.threadpool.a.coreSize", "3");
    assert_eq!((pool(&isolation).core, pool(&isolation).max), (3, 3));
}

#[test]
fn a_maximum_by_property_needs_the_divergence() {
    let (properties, isolation) = with_properties();
    let set = |name: &str, value: &str| {
        let name = format!("hystrix.threadpool.a.{name}");
        properties.set(&name, value).unwrap();
    };
    let plain = builder("a").threads(pool_of(4, 0));
    let _plain = plain.build(&isolation).unwrap();
    set("maximumSize", "8");
    assert_eq!(pool(&isolation).max, 4);
    set("allowMaximumSizeToDivergeFromCoreSize", "true");
    assert_eq!(pool(&isolation).max, 8);
    set("maximumSize", "3");
    assert_eq!(pool(&isolation).max, 4);
    let name = "hystrix.threadpool.a.maximumSize";
    properties.remove(name).unwrap();
    assert_eq!(pool(&isolation).config.max, None);
    assert!(isolation.remove("a"));
    set("allowMaximumSizeToDivergeFromCoreSize", "false");
    let grows = PoolConfig {
        max: Some(6),
        ..pool_of(4, 0)
    };
    let _grows = builder("a").threads(grows).build(&isolation).unwrap();
    assert_eq!(pool(&isolation).max, 4, "the property of the key wins");
    let name = "hystrix.threadpool.a.allowMaximumSizeToDivergeFromCoreSize";
    properties.remove(name).unwrap();
    assert_eq!(pool(&isolation).max, 6, "the code is enough to diverge");
    set("maximumSize", "7");
    assert_eq!(pool(&isolation).max, 7, "of a pool that diverges already");
}

#[test]
fn a_maximum_without_effect_is_reported_once_for_each_pool() {
    let lines = Log::new();
    let note = lines.clone();
    let hook = OnUnhandled::new(move |_: &str, what: &Unhandled<'_>| {
        if let Unhandled::Setting { message } = what {
            note.push((*message).to_owned());
        }
    });
    let properties = Properties::new();
    let isolation = isolated(|i| i.properties(properties.clone()).report_to(hook.clone()));
    let build = |key: &str| {
        let command = builder(key).pool("one").threads(pool_of(4, 0));
        command.build(&isolation).unwrap()
    };
    let name = |name: &str| format!("hystrix.threadpool.one.{name}");
    properties.set(&name("maximumSize"), "8").unwrap();
    let commands = ["a", "b"].map(build);
    properties.set(&name("coreSize"), "5").unwrap();
    properties.set(&name("maximumSize"), "9").unwrap();
    hook.flush().unwrap();
    let notified = lines.take();
    assert_eq!(notified.len(), 1, "{notified:?}");
    assert!(
        notified[0].starts_with("pool `one`: maximumSize 8"),
        "{notified:?}"
    );
    // First with an effect, then below the core size.
    let diverge = name("allowMaximumSizeToDivergeFromCoreSize");
    properties.set(&diverge, "true").unwrap();
    assert_eq!(pool(&isolation).max, 9);
    properties.set(&name("maximumSize"), "2").unwrap();
    hook.flush().unwrap();
    let notified = lines.take();
    assert_eq!(notified.len(), 1, "{notified:?}");
    assert!(notified[0].contains("below coreSize"), "{notified:?}");
    drop(commands);
}

#[test]
fn every_setting_of_a_pool_reaches_it() {
    let (properties, isolation) = with_properties();
    let set = |name: &str, value: &str| {
        let name = format!("hystrix.threadpool.a.{name}");
        properties.set(&name, value).unwrap();
    };
    set("metrics.rollingStats.timeInMilliseconds", "6000");
    set("metrics.rollingStats.numBuckets", "3");
    let command = builder("a").pool("a");
    let command = command.configure(|c| c.bulkhead = Bulkhead::Threads);
    let command = command.build(&isolation).unwrap();
    set("keepAliveTimeMinutes", "7");
    set("maxQueueSize", "9");
    set("queueSizeRejectionThreshold", "4");
    let limits = isolation.pool("a").unwrap().limits();
    assert_eq!(limits.keep_alive, Duration::from_secs(7 * 60));
    assert_eq!(limits.queue, 4);
    set("metrics.rollingStats.numBuckets", "2");
    let window = pool(&isolation).config.window;
    let made = WindowConfig::new(Duration::from_secs(6), 3);
    assert_eq!(window, made, "read once, when the pool was made");
    let commands = WindowConfig::new(Duration::from_secs(10), 10);
    assert_eq!(
        command.config().metrics.counts,
        commands,
        "of another family"
    );
    let error = command.configure(|c| c.pool.window = commands);
    assert_eq!(error.unwrap_err().property(), "pool.window");
    let other = builder("b").pool("a");
    let other = other.configure(|c| c.bulkhead = Bulkhead::Threads);
    assert!(
        other.build(&isolation).is_ok(),
        "it shares the pool as it is"
    );
}

#[test]
fn the_window_of_a_pool_is_as_long_as_it_says() {
    let config = PoolConfig {
        window: WindowConfig::new(Duration::from_secs(2), 2),
        ..pool_of(1, 1)
    };
    let (clock, isolation, command) = alone(|c| c.threads(config));
    command.run(|_| Ok(1)).unwrap();
    assert_eq!(pool(&isolation).executed, 1);
    clock.jump(Duration::from_secs(3));
    let pool = pool(&isolation);
    assert_eq!((pool.executed, pool.executed_total), (0, 1));
}
