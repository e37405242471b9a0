//! Calls on threads of their own: bounds, order and room.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{OnUnhandled, Task, Unhandled};
use tidegate_isolate::{
    AdaptiveLimit, Bulkhead, Cause, Criticality, Discipline, Event, Growth, Isolation, Partitions,
    PoolConfig, Properties, Refused, WindowConfig,
};
use tidegate_loop::{Crew, EventLoop, ParkDriver};
use tidegate_pool::{Adaptive, Quiet, Strategy};
use tidegate_testkit::{Gate, Log, until};

use crate::support::{
    SECOND, builder, cause, counted, hold, pool, pool_of, still, with_properties,
};

#[test]
fn runs_on_a_thread_of_the_pool() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .build(&isolation)
        .unwrap();
    let name = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&name);
    let answer = command.run(move |_| {
        *note.lock().unwrap() = std::thread::current().name().unwrap_or_default().to_owned();
        Ok(7)
    });
    assert_eq!(answer, Ok(7));
    assert!(name.lock().unwrap().starts_with("tidegate-a"), "{name:?}");
    assert_eq!(counted(&command), [(Event::Success, 1)]);
    let pool = pool(&isolation);
    assert_eq!((pool.executed, pool.rejected, pool.largest), (1, 0, 1));
    assert_eq!(command.queue(|_| Ok(8)).wait().unwrap(), 8);
}

#[test]
fn no_queue_means_a_thread_or_a_refusal() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(2, 0))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let error = command.run(|_| Ok(1)).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Refused::Pool));
    assert_eq!(command.snapshot().active, 2);
    go_on.open();
    for answer in held {
        assert_eq!(answer.wait().unwrap(), 0);
    }
    let pool = pool(&isolation);
    assert_eq!((pool.executed, pool.rejected), (2, 1));
    let snapshot = command.snapshot();
    assert_eq!(snapshot.totals[Event::PoolRejected], 1);
    assert_eq!(
        (
            snapshot.window.health_total(),
            snapshot.window.health_errors()
        ),
        (3, 1)
    );
    assert_eq!(
        snapshot.latencies.total.count(),
        2,
        "a refusal has no latency"
    );
}

#[test]
fn a_caller_that_comes_back_at_once_finds_its_thread_without_a_queue() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 0))
        .no_timeout()
        .build(&isolation)
        .unwrap();
    for n in 0..5_000 {
        assert_eq!(command.run(move |_| Ok(n)), Ok(n));
    }
    assert_eq!(counted(&command), [(Event::Success, 5_000)]);
    assert_eq!(pool(&isolation).largest, 1);
}

#[test]
fn the_live_bound_of_the_queue_is_exact() {
    let (_clock, isolation) = still();
    let config = PoolConfig {
        rejection_threshold: Some(2),
        ..pool_of(1, 10)
    };
    let command = builder("a").threads(config).build(&isolation).unwrap();
    let go_on = Gate::new();
    let _held = hold(&command, &go_on);
    let refused = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let answer = command.queue(|_| Ok(1));
                    if answer.is_done() {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    answers.lock().unwrap().push(answer);
                }
            });
        }
    });
    assert_eq!((refused.into_inner(), pool(&isolation).queued), (18, 2));
    command
        .configure(|c| c.pool.rejection_threshold = Some(3))
        .unwrap();
    let third = command.queue(|_| Ok(1));
    assert!(!third.is_done(), "the bound is live");
    command
        .configure(|c| c.pool.rejection_threshold = None)
        .unwrap();
    assert!(!command.queue(|_| Ok(1)).is_done(), "up to the queue's own");
    go_on.open();
    assert_eq!(third.wait().unwrap(), 1);
}

#[test]
fn grows_before_it_queues_or_after() {
    for (growth, threads) in [(Growth::ThreadsFirst, 2), (Growth::QueueFirst, 1)] {
        let (_clock, isolation) = still();
        let config = PoolConfig {
            max: Some(2),
            growth,
            ..pool_of(1, 5)
        };
        let command = builder("a").threads(config).build(&isolation).unwrap();
        let go_on = Gate::new();
        let _held = hold(&command, &go_on);
        let until = go_on.clone();
        let second = command.queue(move |_| {
            until.wait();
            Ok(1)
        });
        assert_eq!(pool(&isolation).threads, threads, "{growth:?}");
        go_on.open();
        assert_eq!(second.wait().unwrap(), 1);
    }
}

#[test]
fn the_effective_maximum_follows_the_divergence() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(4, 0))
        .build(&isolation)
        .unwrap();
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
        command
            .configure(|c| (c.pool.core, c.pool.max, c.pool.may_diverge) = (core, max, may_diverge))
            .unwrap();
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
    properties
        .set("hystrix.threadpool.a.coreSize", "20")
        .unwrap();
    assert_eq!((pool(&isolation).core, pool(&isolation).max), (20, 20));
    let error = properties
        .set("hystrix.threadpool.a.coreSize", "0")
        .unwrap_err();
    assert_eq!(error.property(), "coreSize");
    assert_eq!(pool(&isolation).core, 20);
    properties
        .set("hystrix.threadpool.a.coreSize", "3")
        .unwrap();
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
    let isolation = Isolation::builder().properties(properties.clone());
    let isolation = isolation.report_to(hook.clone()).build().unwrap();
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
    let told = lines.take();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("pool `one`: maximumSize 8"), "{told:?}");
    // With an effect, and then below the core size.
    let diverge = name("allowMaximumSizeToDivergeFromCoreSize");
    properties.set(&diverge, "true").unwrap();
    assert_eq!(pool(&isolation).max, 9);
    properties.set(&name("maximumSize"), "2").unwrap();
    hook.flush().unwrap();
    let told = lines.take();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("below coreSize"), "{told:?}");
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
    let error = command.configure(|c| c.pool.window = made);
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
    let (clock, isolation) = still();
    let config = PoolConfig {
        window: WindowConfig::new(Duration::from_secs(2), 2),
        ..pool_of(1, 1)
    };
    let command = builder("a").threads(config).build(&isolation).unwrap();
    command.run(|_| Ok(1)).unwrap();
    assert_eq!(pool(&isolation).executed, 1);
    clock.jump(Duration::from_secs(3));
    let pool = pool(&isolation);
    assert_eq!((pool.executed, pool.executed_total), (0, 1));
}

#[test]
fn commands_of_one_pool_key_share_its_threads() {
    let (_clock, isolation) = still();
    let builder = |key: &str| builder(key).pool("one");
    let a = builder("a")
        .threads(pool_of(1, 0))
        .build(&isolation)
        .unwrap();
    let b = builder("b")
        .threads(pool_of(1, 0))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = hold(&a, &go_on);
    assert!(b.run(|_| Ok(1)).unwrap_err().is_rejected());
    assert_eq!((a.snapshot().active, b.snapshot().active), (1, 0));
    go_on.open();
    held.wait().unwrap();
    let error = builder("c")
        .threads(pool_of(2, 0))
        .build(&isolation)
        .unwrap_err();
    assert!(error.reason().contains("other settings"), "{error}");
    assert_eq!(isolation.pool_snapshots().len(), 1);
}

#[test]
fn what_matters_more_displaces_what_matters_less() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 2))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let _held = hold(&command, &go_on);
    let call = |criticality| command.call().criticality(criticality).queue(|_| Ok(1));
    let normal = call(Criticality::Normal);
    let sheddable = call(Criticality::Sheddable);
    assert!(
        call(Criticality::Sheddable).is_done(),
        "nobody matters less"
    );
    let high = call(Criticality::High);
    assert_eq!(cause(sheddable), Cause::Rejected(Refused::Pool));
    go_on.open();
    assert_eq!((normal.wait().unwrap(), high.wait().unwrap()), (1, 1));
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 2);
}

#[test]
fn what_is_reserved_of_a_pool_is_not_taken_by_others() {
    let (_clock, isolation) = still();
    let config = PoolConfig {
        partitions: Partitions {
            normal: 0.0,
            high: 0.25,
            critical: 0.25,
        },
        ..pool_of(2, 2)
    };
    let command = builder("a").threads(config).build(&isolation).unwrap();
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let call = |criticality| command.call().criticality(criticality).queue(|_| Ok(1));
    let refused = call(Criticality::Normal);
    assert_eq!(cause(refused), Cause::Rejected(Refused::Reserved));
    assert_eq!(pool(&isolation).queued, 0, "though there is a place");
    let high = call(Criticality::High);
    assert!(!high.is_done() && call(Criticality::High).is_done());
    let critical = call(Criticality::Critical);
    assert!(!critical.is_done() && call(Criticality::Critical).is_done());
    assert!(high.cancel() && critical.cancel(), "free again at once");
    let high = call(Criticality::High);
    let critical = call(Criticality::Critical);
    assert!(!high.is_done() && !critical.is_done());
    assert_eq!(pool(&isolation).rejected, 3);
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 3);
    go_on.open();
    for answer in held.into_iter().chain([high, critical]) {
        answer.wait().unwrap();
    }
    until("no call is active", || pool(&isolation).active == 0);
    assert_eq!(command.run(|_| Ok(1)), Ok(1), "nothing is held any more");
    let too_much = Partitions {
        normal: 0.6,
        high: 0.6,
        critical: 0.0,
    };
    let error = command.configure(|c| c.pool.partitions = too_much);
    assert_eq!(error.unwrap_err().property(), "partitions");
    command
        .configure(|c| c.pool.partitions = Partitions::default())
        .unwrap();
    let go_on = Gate::new();
    let _held = [hold(&command, &go_on), hold(&command, &go_on)];
    assert!(!call(Criticality::Normal).is_done(), "it is live");
    go_on.open();
}

#[test]
fn an_adaptive_limit_bounds_what_is_queued_and_what_runs() {
    let (clock, isolation) = still();
    let limit = AdaptiveLimit {
        initial: 4,
        min: 1,
        max: 10,
        window: None,
        ..AdaptiveLimit::aimd()
    };
    let config = pool_of(1, 50);
    let command = builder("a").threads(config).adaptive(limit);
    let command = command.timeout(SECOND).build(&isolation).unwrap();
    let at = || command.snapshot().adaptive_limit;
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let queued = [(); 3].map(|()| command.queue(|_| Ok(1)));
    assert_eq!(at(), Some(4));
    let refused = command.queue(|_| Ok(1));
    assert_eq!(cause(refused), Cause::Rejected(Refused::Permits));
    assert_eq!(at(), Some(3), "a refusal is a drop: a tenth less");
    clock.jump(SECOND);
    for answer in queued.into_iter().chain([held]) {
        assert_eq!(cause(answer), Cause::TimedOut(SECOND));
    }
    assert_eq!(at(), Some(1), "so is a timeout, in the queue or not");
    go_on.open();
    until("no call is active", || pool(&isolation).active == 0);
    for _ in 0..3 {
        let turn = clock.clone();
        let work = move |_: &_| {
            turn.jump(Duration::from_millis(1));
            Ok(1)
        };
        command.run(work).unwrap();
    }
    assert_eq!(at(), Some(3), "and quick answers raise it while it is used");
}

#[test]
fn codel_turns_away_who_waited_too_long_and_tells_them() {
    let (clock, isolation) = still();
    let config = PoolConfig {
        discipline: Discipline::codel(),
        ..pool_of(1, 10)
    };
    let command = builder("a").threads(config).no_timeout();
    let command = command.build(&isolation).unwrap();
    let gates = [(); 3].map(|()| Gate::new());
    let first = hold(&command, &gates[0]);
    let queue = |until: &Gate| {
        let (inside, until) = (Gate::new(), until.clone());
        let open = inside.clone();
        let answer = command.queue(move |_| {
            open.open();
            until.wait();
            Ok(1)
        });
        (answer, inside)
    };
    let (second, inside) = queue(&gates[1]);
    clock.jump(Duration::from_millis(50));
    gates[0].open();
    inside.wait();
    let stale = command.queue(|_| panic!("must not run"));
    // The shortest wait of an interval was 50 ms: a queue stands.
    clock.jump(Duration::from_millis(120));
    let (fresh, inside) = queue(&gates[2]);
    gates[1].open();
    inside.wait();
    assert_eq!(cause(stale), Cause::Rejected(Refused::Pool));
    gates[2].open();
    for answer in [first, second, fresh] {
        answer.wait().unwrap();
    }
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 1);
    assert_eq!(pool(&isolation).rejected, 1);
}

#[test]
fn the_peak_of_a_pool_is_of_all_its_commands() {
    let (clock, isolation) = still();
    let [a, b] = ["a", "b"].map(|key| {
        let command = builder(key).pool("one").threads(pool_of(3, 0));
        let command = command.no_timeout();
        command.build(&isolation).unwrap()
    });
    let go_on = Gate::new();
    let held = [hold(&a, &go_on), hold(&b, &go_on)];
    assert_eq!((a.snapshot().peak, b.snapshot().peak), (1, 1));
    assert_eq!(pool(&isolation).peak, 2);
    go_on.open();
    for answer in held {
        answer.wait().unwrap();
    }
    assert_eq!(pool(&isolation).peak, 2, "for as long as the window is");
    clock.jump(Duration::from_secs(11));
    assert_eq!(pool(&isolation).peak, 0);
}

#[test]
fn the_discipline_is_live() {
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 5))
        .no_timeout()
        .build(&isolation)
        .unwrap();
    let (go_on, log) = (Gate::new(), Log::new());
    let _held = hold(&command, &go_on);
    let queued = ["old", "new"].map(|name| {
        let log = log.clone();
        command.queue(move |_| {
            log.push(name);
            Ok(1)
        })
    });
    let after = Duration::from_millis(5);
    command
        .configure(|c| c.pool.discipline = Discipline::LifoUnderOverload { after })
        .unwrap();
    clock.jump(Duration::from_millis(6));
    go_on.open();
    for answer in queued {
        answer.wait().unwrap();
    }
    log.assert_order(&["new", "old"]);
}

#[test]
fn the_queue_follows_its_discipline() {
    let (clock, isolation) = still();
    let discipline = Discipline::LifoUnderOverload {
        after: Duration::from_millis(5),
    };
    let config = PoolConfig {
        discipline,
        ..pool_of(1, 5)
    };
    let command = builder("a")
        .threads(config)
        .no_timeout()
        .build(&isolation)
        .unwrap();
    let (go_on, log) = (Gate::new(), Log::new());
    let _held = hold(&command, &go_on);
    let queued: Vec<_> = ["old", "mid", "new"]
        .into_iter()
        .map(|name| {
            let log = log.clone();
            command.queue(move |_| {
                log.push(name);
                Ok(1)
            })
        })
        .collect();
    clock.jump(Duration::from_millis(6));
    go_on.open();
    for answer in queued {
        answer.wait().unwrap();
    }
    log.assert_order(&["new", "mid", "old"]);
}

#[test]
fn a_loop_must_not_wait_for_a_thread() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .build(&isolation)
        .unwrap();
    let error = tidegate_core::non_blocking(|| command.run(|_| Ok(1))).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Refused::Waiting));
    let answer = tidegate_core::non_blocking(|| command.queue(|_| Ok(1)));
    assert_eq!(answer.wait().unwrap(), 1);
}

#[test]
fn a_roaming_loop_over_a_full_bulkhead_keeps_producing() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(2, 0))
        .build(&isolation)
        .unwrap();
    let bulkhead = isolation.pool("a").unwrap();
    // The loop lives on a thread of the bulkhead; a call has the other.
    let crew = Crew::of(Arc::new(bulkhead.clone()));
    let home = EventLoop::builder("roams").build_over(ParkDriver::new(), &crew);
    let home = home.unwrap();
    home.submit(|| ()).unwrap().wait().unwrap();
    until("the bulkhead has a thread", || bulkhead.room().has_thread());
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    assert!(!bulkhead.room().has_thread(), "the strategy sees it");
    for n in 0..5 {
        let called = command.clone();
        let task = home.submit(move || {
            let answer = called.queue(|_| Ok(1));
            assert!(
                answer.is_done(),
                "refused at once: nobody waits for a thread"
            );
            n
        });
        assert_eq!(task.unwrap().wait().unwrap(), n);
        assert_eq!(home.spawn(async move { n }).unwrap().wait().unwrap(), n);
    }
    go_on.open();
    held.wait().unwrap();
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 5);
    let over = home.shutdown_gracefully(Quiet::none(SECOND * 60));
    over.wait().unwrap();
}

#[test]
fn a_strategy_over_a_full_bulkhead_keeps_producing() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(2, 0))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let bulkhead = isolation.pool("a").unwrap();
    assert!(
        !bulkhead.room().has_thread(),
        "the strategy sees that it is full"
    );
    let (refused, mut left) = (Arc::new(AtomicUsize::new(0)), 5);
    let (count, called) = (Arc::clone(&refused), command.clone());
    let producer = move || {
        left -= 1;
        let (count, called) = (Arc::clone(&count), called.clone());
        (left >= 0).then(|| {
            Task::non_blocking(move || {
                let answer = called.queue(|_| Ok(1));
                assert!(answer.is_done(), "refused at once");
                count.fetch_add(1, Ordering::Relaxed);
            })
        })
    };
    let strategy = Adaptive::new(producer, Arc::new(bulkhead.clone()));
    strategy.produce();
    assert_eq!(
        refused.load(Ordering::Relaxed),
        5,
        "nobody waited for a thread"
    );
    go_on.open();
    for answer in held {
        answer.wait().unwrap();
    }
    until("the bulkhead has a thread", || bulkhead.room().has_thread());
}

#[test]
fn waiting_running_and_total_are_three_figures() {
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .no_timeout()
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let turn = clock.clone();
    let queued = command.queue(move |_| {
        turn.jump(Duration::from_millis(10));
        Ok(1)
    });
    clock.jump(Duration::from_millis(30));
    go_on.open();
    held.wait().unwrap();
    queued.wait().unwrap();
    let latencies = command.snapshot().latencies;
    let near = |told: Duration, ms: f64| (told.as_secs_f64() * 1e3 - ms).abs() <= ms * 0.03;
    assert!(
        near(latencies.wait.max(), 30.0),
        "{:?}",
        latencies.wait.max()
    );
    assert!(
        near(latencies.total.max(), 40.0),
        "{:?}",
        latencies.total.max()
    );
    assert!(
        near(latencies.run.percentile(50.0), 10.0),
        "{:?}",
        latencies.run.percentile(50.0)
    );
}
