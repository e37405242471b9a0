//! Changes of settings: properties are pushed, invalid values are rejected, and the old ones stay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    BreakerConfig, BreakerMode, BreakerState, Bulkhead, ChangeListener, ConfigError, Event,
    Isolation, MetricsConfig, PermitConfig, Properties, PropertySource, RateConfig, RateLimit,
    WindowConfig,
};
use tidegate_testkit::Log;

use crate::support::{
    Builder, Numbers, SECOND, alone, builder, isolated, made, pool, pool_of, set, set_property,
    still, touchy, tunable, with_properties,
};

#[test]
fn a_property_acts_at_once_without_a_call() {
    let (properties, isolation) = with_properties();
    let (a, b) = (
        builder("a").build(&isolation).unwrap(),
        builder("b").build(&isolation).unwrap(),
    );
    let limit = "execution.isolation.semaphore.maxConcurrentRequests";
    set_property(&properties, &format!("hystrix.command.a.{limit}"), "3");
    assert_eq!((a.snapshot().limit, b.snapshot().limit), (3, 10));
    set_property(
        &properties,
        &format!("hystrix.command.default.{limit}"),
        "4",
    );
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
    let (properties, _isolation, command) = tunable(|c| c);
    for (name, value) in [
        ("execution.isolation.semaphore.maxConcurrentRequests", "0"),
        ("execution.isolation.semaphore.maxConcurrentRequests", "-3"),
        ("execution.isolation.strategy", "GREEN_THREAD"),
        ("execution.isolation.thread.timeoutInMilliseconds", "0"),
        ("circuitBreaker.requestVolumeThreshold", "0"),
        ("circuitBreaker.window.timeInMilliseconds", "0"),
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
    let name = |name: &str| format!("hystrix.command.a.execution.{name}");
    let enabled = |value| properties.set(&name("timeout.enabled"), value);
    enabled("false").unwrap();
    let zero = properties.set(&name("isolation.thread.timeoutInMilliseconds"), "0");
    assert!(zero.is_err(), "also while the timeout is off");
    enabled("true").unwrap();
    assert_eq!(command.config().timeout, Some(SECOND));
}

/// A source that cannot take a value back, such as a file.
#[derive(Clone, Default)]
struct File {
    values: Arc<Mutex<HashMap<String, String>>>,
    listeners: Arc<Mutex<Vec<ChangeListener>>>,
}

impl PropertySource for File {
    fn get(&self, name: &str) -> Option<String> {
        self.values.lock().unwrap().get(name).cloned()
    }

    fn watch(&self, listener: ChangeListener) {
        self.listeners.lock().unwrap().push(listener);
    }
}

impl File {
    fn say(&self, name: &str, value: &str) -> Result<(), ConfigError> {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.values.lock().unwrap().insert(name.clone(), value);
        let listeners = self.listeners.lock().unwrap().clone();
        listeners.iter().try_for_each(|listener| listener(&name))
    }
}

#[test]
fn a_value_that_stays_wrong_keeps_nothing_else_from_changing() {
    let file = File::default();
    let isolation = isolated(|i| i.properties(file.clone()));
    let command = made(builder("a").threads(pool_of(2, 0)), &isolation);
    let core = "hystrix.threadpool.a.coreSize";
    file.say(core, "8").unwrap();
    for wrong in ["0", "many", "-4"] {
        let error = file.say(core, wrong).unwrap_err();
        assert_eq!((error.key(), error.property()), ("a", "coreSize"));
        assert_eq!(
            pool(&isolation).core,
            8,
            "the last good one, not the code's"
        );
    }
    let fallback = "hystrix.command.a.fallback.enabled";
    file.say(fallback, "false").unwrap();
    assert!(
        !command.config().fallback_enabled,
        "a change of another property takes effect"
    );
    let error = file.say("hystrix.command.default.requestLog.enabled", "?");
    assert_eq!(error.unwrap_err().property(), "requestLog.enabled");
    command.configure(|c| c.breaker.error_percent = 70).unwrap();
    assert_eq!(command.config().breaker.error_percent, 70, "and the code");
    assert!(command.configure(|c| c.breaker.probes = 0).is_err());
    assert_eq!(command.config().pool.core, 8);
    let error = builder("b").pool("b").threads(pool_of(2, 0));
    assert!(
        error.build(&isolation).is_err(),
        "nothing is built on nonsense"
    );
    file.say(core, "5").unwrap();
    assert_eq!(pool(&isolation).core, 5);
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
    let (properties, isolation, command) = tunable(|c| c);
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
fn a_command_with_permits_only_never_gets_threads() {
    let (properties, isolation, command) = tunable(|c| c.permits(2).only_permits());
    let name = "hystrix.command.a.execution.isolation.strategy";
    let error = properties.set(name, "THREAD").unwrap_err();
    assert_eq!(error.property(), "execution.isolation.strategy");
    assert!(error.reason().contains("no threads"), "{error}");
    let in_code = command.configure(|c| {
        c.bulkhead = Bulkhead::Threads;
        c.permits.limit = 9;
    });
    in_code.unwrap_err();
    // Nothing of it is in force, and other changes are.
    assert_eq!(isolation.pool_count(), 0);
    assert_eq!(command.config().permits.limit, 2);
    command.configure(|c| c.permits.limit = 3).unwrap();
    assert_eq!(command.snapshot().limit, 3);
    assert!(command.admit().is_ok());
    properties.set(name, "SEMAPHORE").unwrap();
    let later = "hystrix.command.b.execution.isolation.strategy";
    properties.set(later, "THREAD").unwrap();
    let error = builder("b").only_permits().build(&isolation).unwrap_err();
    assert!(error.reason().contains("no threads"), "{error}");
}

#[test]
fn the_strategy_is_live() {
    let (properties, isolation, command) = tunable(|c| c);
    let thread = || {
        let notified = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&notified);
        let work = move |_: &_| {
            *tell.lock().unwrap() = Some(std::thread::current().id());
            Ok(1)
        };
        command.run(work).unwrap();
        notified.lock().unwrap().take()
    };
    let here = Some(std::thread::current().id());
    assert_eq!(thread(), here);
    let name = "hystrix.command.a.execution.isolation.strategy";
    properties.set(name, "THREAD").unwrap();
    assert_ne!(thread(), here);
    assert_eq!(isolation.pool_count(), 1);
    set_property(&properties, "hystrix.threadpool.a.coreSize", "3");
    assert_eq!(command.snapshot().limit, 3);
    properties.remove(name).unwrap();
    assert_eq!(thread(), here);
    assert_eq!(
        (command.snapshot().limit, command.snapshot().active),
        (10, 0)
    );
    set(&command, |c| c.bulkhead = Bulkhead::Threads);
    assert_ne!(thread(), here);
}

#[test]
fn latencies_can_be_switched_off_and_have_a_window_of_their_own() {
    let (clock, isolation) = still();
    let command = |key: &str, metrics: MetricsConfig| {
        let command = builder(key).metrics(metrics).build(&isolation).unwrap();
        command.run(|_| Ok(1)).unwrap();
        command
    };
    let off = MetricsConfig {
        record_latencies: false,
        ..MetricsConfig::default()
    };
    let snapshot = command("off", off).snapshot();
    assert_eq!(snapshot.latencies.total.count(), 0);
    assert_eq!(
        (snapshot.window[Event::Success], snapshot.lent_bytes),
        (1, 0)
    );
    let short = MetricsConfig {
        latencies: WindowConfig::new(Duration::from_secs(2), 2),
        ..MetricsConfig::default()
    };
    let (short, long) = (
        command("short", short),
        command("long", MetricsConfig::default()),
    );
    clock.advance(Duration::from_secs(3));
    let counts = [short, long].map(|command| command.snapshot().latencies.total.count());
    assert_eq!(counts, [0, 1]);
}

#[test]
fn configure_is_all_or_nothing() {
    let (_clock, _isolation, command) = alone(|c| c);
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
    let (properties, _isolation, command) = tunable(|c| c);
    let name = "hystrix.command.a.circuitBreaker.forceOpen";
    properties.set(name, "true").unwrap();
    assert!(command.run(|_| Ok(1)).unwrap_err().is_short_circuited());
    properties.set(name, "false").unwrap();
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

#[test]
fn a_new_sleep_reaches_a_breaker_that_is_open() {
    let (clock, properties) = (ManualClock::new(), Properties::new());
    let isolation = isolated(|i| i.clock(&clock).properties(properties.clone()));
    let command = made(builder("a").breaker(touchy()), &isolation);
    command.run(|_| Err("down")).unwrap_err();
    let rest = || command.run(|_| Ok(1)).unwrap_err().retry_after().unwrap();
    assert_eq!(rest().as_secs(), 5);
    let name = "hystrix.command.a.circuitBreaker.sleepWindowInMilliseconds";
    for seconds in [8, 1] {
        set_property(&properties, name, &format!("{seconds}000"));
        assert_eq!(rest().as_secs(), seconds);
    }
    clock.jump(rest());
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

#[test]
fn a_change_closes_a_breaker_whose_probes_are_enough_now() {
    let breaker = BreakerConfig {
        successes: 3,
        ..touchy()
    };
    let (clock, changes) = (ManualClock::new(), Log::new());
    let log = changes.clone();
    let isolation = isolated(|i| i.clock(&clock).on_transition(move |one| log.push(one.to)));
    let command = made(builder("a").breaker(breaker), &isolation);
    command.run(|_| Err("down")).unwrap_err();
    clock.jump(SECOND * 6);
    (0..2).for_each(|_| assert_eq!(command.run(|_| Ok(1)), Ok(1)));
    set(&command, |c| c.breaker.successes = 2);
    use BreakerState::{Closed, HalfOpen, Open};
    assert_eq!(changes.take(), [Open, HalfOpen, Closed]);
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

#[test]
fn a_breaker_that_only_counts_is_not_reported_as_open() {
    let (_clock, _isolation, command) = alone(|c| c.breaker(touchy()));
    command.run(|_| Err("down")).unwrap_err();
    for (mode, is_open) in [
        (BreakerMode::Normal, true),
        (BreakerMode::MetricsOnly, false),
        (BreakerMode::ForcedClosed, false),
    ] {
        set(&command, |c| c.breaker.mode = mode);
        let snapshot = command.snapshot();
        let expected = (BreakerState::Open, is_open);
        assert_eq!((snapshot.breaker, snapshot.is_open), expected, "{mode:?}");
    }
}

#[test]
fn the_code_sets_what_it_assigns_even_if_it_is_the_default() {
    let (properties, isolation) = with_properties();
    let all = "hystrix.command.default.execution.isolation.semaphore.maxConcurrentRequests";
    set_property(&properties, all, "5");
    let plain = made(builder("plain"), &isolation);
    let built = made(
        builder("built").configure(|c| c.permits.limit = 10),
        &isolation,
    );
    let of_struct = builder("struct").configure(|c| c.permits = PermitConfig::default());
    let changed = made(builder("changed"), &isolation);
    // The value in force now, which is not that of the code.
    set(&changed, |c| c.permits.limit = 5);
    let commands = [plain, built, made(of_struct, &isolation), changed];
    let limits = || commands.each_ref().map(|command| command.snapshot().limit);
    assert_eq!(limits(), [5, 10, 10, 5]);
    set_property(&properties, all, "6");
    assert_eq!(limits(), [6, 10, 10, 5]);
    set(&commands[0], |c| c.permits.limit = 10);
    assert_eq!(limits(), [10, 10, 10, 5]);
}

#[test]
fn a_change_in_code_receives_the_settings_in_force() {
    let (properties, _isolation, command) = tunable(|c| c);
    let name = "hystrix.command.a.execution.isolation.semaphore.maxConcurrentRequests";
    set_property(&properties, name, "7");
    set(&command, |c| c.permits.max_waiting = c.permits.limit * 2);
    let permits = || command.config().permits.clone();
    assert_eq!((permits().limit, permits().max_waiting), (7, 14));
    properties.remove(name).unwrap();
    assert_eq!(permits().limit, 10, "the change has not set it");
    let name = "hystrix.command.a.execution.timeout.enabled";
    set_property(&properties, name, "false");
    set(&command, |c| c.permits.limit = 9);
    properties.remove(name).unwrap();
    assert_eq!(command.config().timeout, Some(SECOND));
}

#[test]
fn builders_are_checked() {
    let (_clock, isolation) = still();
    const fn rate(calls: u32) -> RateConfig {
        let per = Duration::from_millis(1);
        RateConfig {
            calls,
            per,
            burst: 1,
        }
    }
    type Change = fn(Builder) -> Builder;
    let wrong: [(&str, Change); 9] = [
        ("no calls", |c| c.rate(rate(0))),
        ("many calls", |c| c.rate(rate(1_000_001))),
        ("many threads", |c| c.configure(|c| c.pool.core = 10_001)),
        ("many buckets", |c| {
            c.configure(|c| c.metrics.counts.buckets = 10_001)
        }),
        ("no permits", |c| c.permits(0)),
        ("no time", |c| c.timeout(Duration::ZERO)),
        ("no threads", |c| c.configure(|c| c.pool.core = 0)),
        ("no fallbacks", |c| c.configure(|c| c.fallback_permits = 0)),
        ("no probes", |c| c.configure(|c| c.breaker.probes = 0)),
    ];
    for (what, with) in wrong {
        let built = with(builder("a")).build(&isolation);
        assert_eq!(built.expect_err(what).key(), "a", "{what}");
    }
    let config = PermitConfig {
        limit: 5,
        ..PermitConfig::default()
    };
    assert!(builder("a").permits(config).build(&isolation).is_ok());
}

/// Builds two commands that share a pool.
fn sharing(isolation: &Isolation) -> [Numbers; 2] {
    ["a", "b"].map(|key| {
        let command = builder(key).pool("shared").threads(pool_of(2, 1));
        command.build(isolation).unwrap()
    })
}

/// Returns the threads and queue places of a pool: as in its snapshot, and as in the settings of
/// each of its commands.
fn notified(isolation: &Isolation, commands: &[Numbers]) -> Vec<(usize, usize)> {
    let works = pool(isolation);
    let mut notified = vec![(works.core, works.config.queue)];
    notified.extend(commands.iter().map(|command| {
        let config = command.config();
        (config.pool.core, config.pool.queue)
    }));
    notified.dedup();
    notified
}

#[test]
fn changes_to_a_shared_pool_do_not_overwrite_each_other() {
    let (properties, isolation) = with_properties();
    let commands = sharing(&isolation);
    let [a, b] = &commands;
    a.configure(|c| c.pool.core = 5).unwrap();
    assert_eq!(
        notified(&isolation, &commands),
        [(5, 1)],
        "all report what is in force"
    );
    b.configure(|c| c.pool.queue = 3).unwrap();
    assert_eq!(notified(&isolation, &commands), [(5, 3)]);
    b.configure(|c| c.permits.limit = 4).unwrap();
    assert_eq!(
        notified(&isolation, &commands),
        [(5, 3)],
        "nor does any other change"
    );
    set_property(&properties, "hystrix.threadpool.shared.maxQueueSize", "7");
    assert_eq!(notified(&isolation, &commands), [(5, 7)]);
    properties
        .remove("hystrix.threadpool.shared.maxQueueSize")
        .unwrap();
    assert_eq!(notified(&isolation, &commands), [(5, 3)]);
    let late = made(
        builder("c").pool("shared").threads(pool_of(2, 1)),
        &isolation,
    );
    late.configure(|c| c.pool.keep_alive = Duration::from_secs(9))
        .unwrap();
    assert_eq!(
        notified(&isolation, &commands),
        [(5, 3)],
        "nor one that comes later"
    );
}

#[test]
fn changes_at_the_same_time_both_stay() {
    let (_clock, isolation) = still();
    let commands = sharing(&isolation);
    let [a, b] = &commands;
    // The other change comes between the start of the first change and its end.
    a.configure(|c| {
        b.configure(|c| c.pool.queue = 3).unwrap();
        c.pool.core = 5;
    })
    .unwrap();
    assert_eq!(notified(&isolation, &commands), [(5, 3)]);
    a.configure(|c| {
        a.configure(|c| c.breaker.error_percent = 70).unwrap();
        c.breaker.min_calls = 9;
    })
    .unwrap();
    let config = a.config();
    assert_eq!(
        (config.breaker.error_percent, config.breaker.min_calls),
        (70, 9)
    );
    // If two changes set one setting, the one that ends last counts, for all commands.
    a.configure(|c| {
        b.configure(|c| c.pool.core = 6).unwrap();
        c.pool.core = 4;
    })
    .unwrap();
    assert_eq!(notified(&isolation, &commands), [(4, 3)]);
}

#[test]
fn a_source_that_moves_a_command_to_another_pool_keeps_nothing_else_from_changing() {
    let file = File::default();
    let isolation = isolated(|i| i.properties(file.clone()));
    let command = made(builder("a").threads(pool_of(2, 0)), &isolation);
    let error = file.say("hystrix.command.a.threadPoolKeyOverride", "other");
    let error = error.unwrap_err();
    assert_eq!(
        (error.key(), error.property()),
        ("a", "threadPoolKeyOverride")
    );
    assert_eq!(command.pool().as_str(), "a", "it stays where it is");
    file.say("hystrix.command.a.fallback.enabled", "false")
        .unwrap();
    assert!(!command.config().fallback_enabled);
    file.say("hystrix.threadpool.a.coreSize", "3").unwrap();
    assert_eq!(pool(&isolation).core, 3);
    command.configure(|c| c.breaker.error_percent = 70).unwrap();
    assert_eq!(command.config().breaker.error_percent, 70);
}

#[test]
fn a_command_that_refuses_does_not_keep_others_from_hearing() {
    let file = File::default();
    let isolation = isolated(|i| i.properties(file.clone()));
    let commands: Vec<_> = ["a", "b", "c", "d", "e", "f"]
        .map(|key| {
            let command = builder(key).threads(pool_of(2, 0));
            command.build(&isolation).unwrap()
        })
        .into();
    // Rejected by one of them, whichever is notified first: it has an invalid value of its own.
    file.values
        .lock()
        .unwrap()
        .insert("hystrix.command.c.requestLog.enabled".into(), "?".into());
    let error = file.say("hystrix.command.default.requestLog.enabled", "false");
    assert_eq!(error.unwrap_err().key(), "c");
    for command in &commands {
        let expected = &**command.key() == "c";
        assert_eq!(command.config().log_enabled, expected, "{}", command.key());
    }
}

#[test]
fn a_rate_that_cannot_be_measured_is_refused() {
    for (per, burst) in [
        (Duration::MAX, 1),
        (Duration::MAX, u32::MAX),
        (SECOND * 60, u32::MAX),
    ] {
        let error = RateLimit::new(RateConfig {
            calls: 1,
            per,
            burst,
        })
        .unwrap_err();
        assert_eq!(error.property(), "rate.per");
    }
    let year = SECOND * 86_400 * 365;
    let (clock, _isolation, command) = alone(|c| c);
    let limit = RateLimit::new(RateConfig {
        calls: 1,
        per: year,
        burst: 2,
    })
    .unwrap();
    let run = || limit.run(command.call(), |call| call.run(|_| Ok(1)));
    assert_eq!((run(), run()), (Ok(1), Ok(1)));
    assert_eq!(run().unwrap_err().retry_after(), Some(year));
    clock.jump(year);
    assert_eq!(run(), Ok(1));
    assert!(run().is_err());
}

#[test]
fn a_faster_rate_is_in_force_at_once() {
    let rate = |per| RateConfig {
        calls: 1,
        per,
        burst: 1,
    };
    let day = SECOND * 86_400;
    let (clock, _isolation, command) = alone(|c| c.rate(rate(day)));
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    assert_eq!(command.run(|_| Ok(1)).unwrap_err().retry_after(), Some(day));
    command.configure(|c| c.rate = Some(rate(SECOND))).unwrap();
    assert_eq!(
        command.run(|_| Ok(1)).unwrap_err().retry_after(),
        Some(SECOND)
    );
    clock.jump(SECOND);
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    command.configure(|c| c.rate = None).unwrap();
    command.configure(|c| c.rate = Some(rate(day))).unwrap();
    assert_eq!(command.run(|_| Ok(1)), Ok(1), "a new limit begins full");
}
