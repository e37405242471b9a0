//! The dump of an isolation: commands, breakers, permits, pools and their threads.

use std::sync::Arc;
use std::thread;

use tidegate_core::Dump;
use tidegate_isolate::{BreakerConfig, BreakerMode, Isolation};
use tidegate_testkit::{Counter, Gate, Log, explode, rounds, until};

use super::support::{
    Numbers, SECOND, builder, hold, isolated, made, pool_of, set, still, while_inside,
};

fn count(dump: &Dump, key: &str) -> u64 {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_count().unwrap()
}

fn text<'a>(dump: &'a Dump, key: &str) -> &'a str {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_text().unwrap()
}

fn command(dump: &Dump, key: &str) -> Dump {
    let commands = dump.find("commands").unwrap().children();
    let found = commands.iter().find(|one| one.name() == key);
    found.unwrap_or_else(|| panic!("{key} in {dump}")).clone()
}

fn pool(dump: &Dump, key: &str) -> Dump {
    let pools = dump.find("pools").unwrap().children();
    let found = pools.iter().find(|one| text(one, "key") == key);
    found.unwrap_or_else(|| panic!("{key} in {dump}")).clone()
}

/// Asserts that a dump of an isolation agrees with its snapshots.
fn assert_agrees(isolation: &Isolation) {
    let dump = isolation.dump();
    let snapshots = isolation.snapshots();
    assert_eq!(
        dump.find("commands").unwrap().total(),
        snapshots.len() as u64
    );
    for snapshot in snapshots {
        let shown = command(&dump, &snapshot.key);
        assert_eq!(
            count(&shown, "in_flight"),
            snapshot.active as u64,
            "{shown}"
        );
        assert_eq!(count(&shown, "limit"), snapshot.limit as u64, "{shown}");
        assert_eq!(count(&shown, "waiting"), snapshot.waiting as u64, "{shown}");
        assert_eq!(
            count(&shown, "fallbacks"),
            snapshot.fallbacks as u64,
            "{shown}"
        );
    }
    for snapshot in isolation.pool_snapshots() {
        let shown = pool(&dump, &snapshot.key);
        assert_eq!(count(&shown, "threads"), snapshot.threads as u64, "{shown}");
        assert_eq!(count(&shown, "queued"), snapshot.queued as u64, "{shown}");
        assert_eq!(count(&shown, "max"), snapshot.max as u64, "{shown}");
        assert_eq!(count(&shown, "accepted"), snapshot.accepted, "{shown}");
        assert_eq!(
            count(&shown, "overstaying"),
            snapshot.overstaying as u64,
            "{shown}"
        );
    }
}

#[test]
fn a_dump_shows_commands_with_permits() {
    let (_clock, isolation) = still();
    let prices = builder("prices").permits(3).no_timeout();
    let prices: Numbers = prices.build(&isolation).unwrap();
    while_inside(&prices, 2, || {
        let shown = command(&isolation.dump(), "prices");
        assert_eq!(
            (text(&shown, "bulkhead"), text(&shown, "group")),
            ("permits", "tests")
        );
        assert_eq!((count(&shown, "in_flight"), count(&shown, "limit")), (2, 3));
        assert_eq!(text(&shown, "breaker"), "closed");
        assert!(shown.get("timeout").is_none() && shown.get("pool").is_none());
        assert_agrees(&isolation);
    });
    assert_eq!(count(&command(&isolation.dump(), "prices"), "in_flight"), 0);
}

#[test]
fn a_dump_shows_the_threads_of_a_pool_and_its_queue() {
    let (_clock, isolation) = still();
    let prices = builder("prices").threads(pool_of(2, 5)).timeout(SECOND);
    let prices: Numbers = prices.build(&isolation).unwrap();
    let go_on = Gate::new();
    let held = [hold(&prices, &go_on), hold(&prices, &go_on)];
    let queued = prices.queue(|_| Ok(1));
    let dump = isolation.dump();
    let shown = command(&dump, "prices");
    assert_eq!(
        (text(&shown, "bulkhead"), text(&shown, "pool")),
        ("threads", "prices")
    );
    assert_eq!((count(&shown, "in_flight"), count(&shown, "limit")), (2, 2));
    assert_eq!(shown.get("timeout"), Some(&SECOND.into()));
    let threads = pool(&dump, "prices");
    assert_eq!(
        (count(&threads, "queued"), count(&threads, "calls_running")),
        (1, 2)
    );
    let list = threads.find("threads").unwrap();
    assert_eq!(list.total(), 2);
    assert!(
        list.children()
            .iter()
            .all(|one| text(one, "state") == "running")
    );
    assert_agrees(&isolation);
    go_on.open();
    for answer in held.into_iter().chain([queued]) {
        answer.wait().unwrap();
    }
    until("the threads are idle", || {
        isolation.pool_snapshots()[0].active == 0
    });
    assert_agrees(&isolation);
}

#[test]
fn a_dump_shows_the_breaker_without_judging_it() {
    let (clock, isolation) = still();
    let config = BreakerConfig {
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let broken: Numbers = builder("broken").breaker(config).build(&isolation).unwrap();
    for _ in 0..4 {
        let _ = broken.run(|_| Err("broken"));
    }
    clock.advance(SECOND);
    assert!(broken.snapshot().is_open, "a snapshot judges");
    assert_eq!(
        text(&command(&isolation.dump(), "broken"), "breaker"),
        "open"
    );
    set(&broken, |c| c.breaker.mode = BreakerMode::ForcedClosed);
    let shown = command(&isolation.dump(), "broken");
    assert_eq!(text(&shown, "breaker"), "forced closed");
}

#[test]
fn a_dump_calls_no_listener() {
    let called = Counter::new();
    let (clock, hear) = (tidegate_core::ManualClock::new(), called.clone());
    let isolation = isolated(|i| {
        i.clock(&clock).on_transition(move |_| {
            hear.hit();
        })
    });
    let config = BreakerConfig {
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let broken: Numbers = builder("broken").breaker(config).build(&isolation).unwrap();
    for _ in 0..4 {
        let _ = broken.run(|_| Err("broken"));
    }
    let before = called.count();
    clock.advance(SECOND);
    for _ in 0..3 {
        drop(isolation.dump());
    }
    assert_eq!(called.count(), before);
    assert!(broken.snapshot().is_open);
    assert_eq!(called.count(), before + 1, "a snapshot judges and tells");
}

#[test]
fn the_work_of_a_call_and_a_plug_in_can_dump() {
    let dumps = Log::new();
    let hear = dumps.clone();
    let isolation: Arc<std::sync::OnceLock<Isolation>> = Arc::default();
    let handle = Arc::downgrade(&isolation);
    let built = Isolation::builder().on_command_added(move |_| {
        if let Some(isolation) = handle.upgrade().and_then(|one| one.get().cloned()) {
            hear.push(isolation.dump());
        }
    });
    let isolation = isolation.get_or_init(|| built.build().unwrap());
    let prices: Numbers = builder("prices").build(isolation).unwrap();
    assert_eq!(dumps.take().len(), 1, "the plug-in dumped");
    let inside = isolation.clone();
    let seen = prices.run(move |_| {
        let shown = command(&inside.dump(), "prices");
        Ok(u32::try_from(count(&shown, "in_flight")).unwrap())
    });
    assert_eq!(seen.unwrap(), 1);
}

#[test]
fn a_dump_after_the_shutdown_shows_the_end() {
    let (_clock, isolation) = still();
    let prices = made(builder("prices").threads(pool_of(1, 1)), &isolation);
    prices.run(|_| Ok(1)).unwrap();
    isolation.shutdown(SECOND).wait().unwrap();
    let dump = isolation.dump();
    assert_eq!(dump.get("shut_down"), Some(&true.into()));
    assert_eq!(text(&pool(&dump, "prices"), "state"), "ended");
}

#[test]
fn the_size_of_a_dump_does_not_grow_with_the_number_of_keys() {
    let (_clock, isolation) = still();
    let commands: Vec<Numbers> = (0..1_000)
        .map(|n| builder(&format!("key-{n:03}")).build(&isolation).unwrap())
        .collect();
    let dump = isolation.dump();
    let list = dump.find("commands").unwrap();
    assert_eq!((list.children().len(), list.left_out()), (100, 900));
    let names: Vec<_> = list.children().iter().map(Dump::name).collect();
    assert_eq!((names[0], names[99]), ("key-000", "key-099"));
    let shown = dump.to_string();
    assert!(shown.contains("and 900 more") && shown.len() < 64 * 1024);
    drop(commands);
}

/// Keys, calls and pools come and go, and work panics, while others dump. The last dump agrees with
/// the snapshots.
#[test]
fn dumps_under_load_are_whole_and_the_last_agrees_with_the_snapshots() {
    let isolation = isolated(|i| i.on_unhandled(|_, _| ()));
    let threads = made(builder("threads").threads(pool_of(2, 8)), &isolation);
    let permits: Numbers = builder("permits").permits(10).build(&isolation).unwrap();
    let rounds = rounds(200);
    thread::scope(|scope| {
        for command in [&threads, &permits] {
            scope.spawn(move || {
                for round in 0..rounds {
                    let _ = command.run(move |_| {
                        if round % 16 == 0 {
                            explode();
                        }
                        Ok(1)
                    });
                }
            });
        }
        scope.spawn(|| {
            for round in 0..rounds {
                let key = format!("short-lived-{}", round % 4);
                let one = made(builder(&key).threads(pool_of(1, 1)), &isolation);
                let _ = one.run(|_| Ok(1));
                isolation.remove(&key);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let dump = isolation.dump();
                    if let Some(commands) = dump.find("commands") {
                        assert!((2..=3).contains(&commands.total()), "{dump}");
                    }
                }
            });
        }
    });
    until("the threads are idle", || {
        isolation.pool_snapshots()[0].active == 0
    });
    assert_agrees(&isolation);
}
