//! Keys: one state for each, found by name, removable.

use std::cell::RefCell;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    BreakerConfig, BreakerState, BreakerWindow, Bulkhead, Cause, Command, CommandConfig, Event,
    Growth, Key, PoolConfig, Rejection,
};
use tidegate_testkit::{Gate, Log};

use crate::support::{
    SECOND, alone, builder, by_group, hold, isolated, made, pool, pool_of, set_property, still,
    touchy, waiting, with_properties,
};

#[test]
fn a_command_needs_a_group_and_a_name() {
    let (_clock, isolation) = still();
    let error = Command::<(), ()>::builder("a")
        .build(&isolation)
        .unwrap_err();
    assert_eq!(error.property(), "group");
    let error = builder(" ").build(&isolation).unwrap_err();
    assert_eq!(error.property(), "key");
}

#[test]
fn commands_of_one_key_share_everything() {
    let (_clock, isolation) = still();
    let (one, two) = (
        builder("a").build(&isolation).unwrap(),
        builder("a").build(&isolation).unwrap(),
    );
    one.run(|_| Ok(1)).unwrap();
    assert_eq!(two.snapshot().totals[Event::Success], 1);
    one.configure(|c| c.permits.limit = 3).unwrap();
    assert_eq!(two.snapshot().limit, 3);
    assert_eq!(isolation.len(), 1);
    assert!(
        builder("a").build(&isolation).is_ok(),
        "a live change is no conflict"
    );
}

#[test]
fn two_builders_that_disagree_are_reported() {
    let (_clock, isolation) = still();
    let _first = builder("a").permits(5).build(&isolation).unwrap();
    let error = builder("a").permits(6).build(&isolation).unwrap_err();
    let limit = "execution.isolation.semaphore.maxConcurrentRequests";
    assert_eq!((error.key(), error.property()), ("a", limit));
    let notified =
        format!("a: {limit} is 6 and was 5: a command of this key exists and was built diff");
    assert!(error.to_string().starts_with(&notified), "{error}");
    let patient = |c: &mut CommandConfig| c.permits.max_waiting = 3;
    let error = builder("a").permits(5).configure(patient);
    let error = error.build(&isolation).unwrap_err();
    assert_eq!(error.property(), "permits.max_waiting");
    assert!(error.to_string().contains("is 3 and was 100"), "{error}");
    let error = Command::<u32, &'static str>::builder("a")
        .group("other")
        .permits(5);
    assert_eq!(error.build(&isolation).unwrap_err().property(), "group");
    let error = Command::<String, ()>::builder("a")
        .group("tests")
        .permits(5);
    assert_eq!(error.build(&isolation).unwrap_err().property(), "types");
}

#[test]
fn the_pool_is_the_override_the_named_one_or_the_group() {
    let (properties, isolation) = by_group();
    let group = builder("a").build(&isolation).unwrap();
    let named = builder("b").pool("named").build(&isolation).unwrap();
    set_property(
        &properties,
        "hystrix.command.c.threadPoolKeyOverride",
        "over",
    );
    let over = builder("c").pool("named").build(&isolation).unwrap();
    let pools = [&group, &named, &over].map(|command| command.pool().as_str());
    assert_eq!(pools, ["tests", "named", "over"]);
}

#[test]
fn a_command_has_a_pool_of_its_own_unless_it_names_one() {
    let (_clock, isolation) = still();
    let threads = |key: &str| builder(key).threads(pool_of(1, 0)).no_timeout();
    let (slow, healthy) = (threads("slow"), threads("healthy"));
    let slow = slow.build(&isolation).unwrap();
    let healthy = healthy.build(&isolation).unwrap();
    assert_eq!(healthy.pool().as_str(), "healthy");
    let go_on = Gate::new();
    let held = hold(&slow, &go_on);
    assert_eq!(healthy.run(|_| Ok(1)), Ok(1), "it has a thread of its own");
    go_on.open();
    held.wait().unwrap();
    // Every command of a shared pool must name it, in whatever order they are built.
    let error = threads("guest").pool("slow").build(&isolation).unwrap_err();
    assert!(error.reason().contains("names it"), "{error}");
    let _named = threads("first").pool("late").build(&isolation).unwrap();
    let error = threads("late").build(&isolation).unwrap_err();
    assert!(error.reason().contains("names it"), "{error}");
    let joined = threads("late").pool("late").build(&isolation).unwrap();
    assert_eq!(joined.pool().as_str(), "late");
    assert_eq!(isolation.pool_count(), 3);
}

#[test]
fn an_override_is_for_one_key_and_for_those_that_are_built_later() {
    let (properties, isolation) = with_properties();
    let name = |key: &str| format!("hystrix.command.{key}.threadPoolKeyOverride");
    properties.set(&name("default"), "all").unwrap();
    let command = builder("a").build(&isolation).unwrap();
    assert_eq!(command.pool().as_str(), "a", "there is no form for all");
    let error = properties.set(&name("a"), "over").unwrap_err();
    assert_eq!(
        (error.key(), error.property()),
        ("a", "threadPoolKeyOverride")
    );
    let error = command.configure(|c| c.pool_override = Some("over".to_owned()));
    assert_eq!(error.unwrap_err().property(), "threadPoolKeyOverride");
    assert!(isolation.remove("a"));
    properties.set(&name("a"), "over").unwrap();
    let command = builder("a").build(&isolation).unwrap();
    assert_eq!(command.pool().as_str(), "over");
}

#[test]
fn a_builder_that_names_another_pool_is_reported() {
    let (_clock, isolation) = still();
    let build = |pool: Option<&str>| {
        let command = builder("a");
        let command = match pool {
            Some(pool) => command.pool(pool),
            None => command,
        };
        command.build(&isolation)
    };
    let first = build(Some("one")).unwrap();
    assert!(build(Some("one")).is_ok());
    for (other, notified) in [
        (Some("two"), "two and was one"),
        (None, "its own and was one"),
    ] {
        let error = build(other).unwrap_err();
        assert_eq!((error.key(), error.property()), ("a", "pool"));
        assert!(error.to_string().contains(notified), "{error}");
    }
    assert_eq!(first.pool().as_str(), "one");
}

#[test]
fn the_override_of_a_builder_counts() {
    let (properties, isolation) = with_properties();
    let build = |key: &str, over: &str| {
        let over = over.to_owned();
        let command = builder(key).pool("named");
        let command = command.configure(|c| c.pool_override = Some(over));
        command.build(&isolation)
    };
    assert_eq!(build("a", "coded").unwrap().pool().as_str(), "coded");
    let error = build("a", "other").unwrap_err();
    assert_eq!(error.property(), "threadPoolKeyOverride");
    let name = "hystrix.command.b.threadPoolKeyOverride";
    properties.set(name, "property").unwrap();
    assert_eq!(build("b", "coded").unwrap().pool().as_str(), "property");
}

#[test]
fn a_conflict_about_a_pool_names_the_setting() {
    let (_clock, isolation) = still();
    let build = |key: &str, pool: PoolConfig| {
        let command = builder(key).pool("shared").threads(pool);
        command.build(&isolation)
    };
    let _first = build("a", pool_of(2, 5)).unwrap();
    let error = build("b", pool_of(3, 5)).unwrap_err();
    assert_eq!((error.key(), error.property()), ("shared", "coreSize"));
    let notified = "shared: coreSize is 3 and was 2: a pool of this key exists";
    assert!(error.to_string().starts_with(notified), "{error}");
    let lifo = PoolConfig {
        growth: Growth::QueueFirst,
        ..pool_of(2, 5)
    };
    let error = build("c", lifo).unwrap_err();
    let notified = "shared: growth is QueueFirst and was ThreadsFirst: ";
    assert!(error.to_string().starts_with(notified), "{error}");
}

#[test]
fn a_live_change_of_a_pool_is_no_conflict() {
    let (_clock, isolation) = still();
    let builder = |key: &str| builder(key).pool("one");
    let build = |key: &str| builder(key).threads(pool_of(2, 0)).build(&isolation);
    let first = build("a").unwrap();
    first.configure(|c| c.pool.core = 5).unwrap();
    assert!(
        build("b").is_ok(),
        "its settings equal those of the first one"
    );
    let as_it_is = builder("c").threads(first.config().pool.clone());
    assert!(as_it_is.build(&isolation).is_ok());
    assert_eq!(pool(&isolation).core, 5);
    let other = builder("d").threads(pool_of(3, 0)).build(&isolation);
    assert!(other.unwrap_err().reason().contains("other settings"));
}

#[test]
fn a_pool_is_made_once_under_a_race() {
    let (_clock, isolation) = still();
    let commands: Vec<_> = std::thread::scope(|scope| {
        let build = |key: usize| {
            let key = format!("key-{key}");
            let command = builder(&key).pool("one").threads(pool_of(2, 8));
            command.build(&isolation)
        };
        let built: Vec<_> = (0..8).map(|key| scope.spawn(move || build(key))).collect();
        built.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(isolation.pool_count(), 1);
    for command in commands {
        command.unwrap().run(|_| Ok(1)).unwrap();
    }
    let pool = pool(&isolation);
    assert_eq!((pool.executed_total, pool.accepted), (8, 8), "all in one");
}

#[test]
fn a_pool_goes_with_the_last_of_its_keys() {
    struct OpensOnDrop(Gate);
    impl Drop for OpensOnDrop {
        fn drop(&mut self) {
            self.0.open();
        }
    }
    thread_local! {
        static ON_EXIT: RefCell<Option<OpensOnDrop>> = const { RefCell::new(None) };
    }
    let (_clock, isolation) = still();
    let commands = ["a", "b"].map(|key| {
        let command = builder(key).pool("one").threads(pool_of(1, 1));
        command.build(&isolation).unwrap()
    });
    let other = Command::<u32, ()>::builder("c").group("other");
    let _other = other.threads(pool_of(1, 1)).build(&isolation).unwrap();
    let ended = Gate::new();
    let notified = ended.clone();
    let work = move |_: &_| {
        ON_EXIT.set(Some(OpensOnDrop(notified)));
        Ok(1)
    };
    commands[0].run(work).unwrap();
    assert_eq!(isolation.pool_count(), 2);
    assert!(isolation.remove("a"));
    assert_eq!(isolation.pool_count(), 2, "the other still uses it");
    assert!(isolation.remove("b"));
    assert_eq!(isolation.pool_count(), 1);
    assert!(isolation.pool("one").is_none());
    assert_eq!(
        commands[1].run(|_| Ok(2)),
        Ok(2),
        "a remaining handle may go on"
    );
    let old = commands[0].group().clone();
    drop(commands);
    ended.wait();
    let again = made(builder("a").threads(pool_of(2, 0)), &isolation);
    assert_eq!(isolation.pool_count(), 2);
    assert!(!again.group().is_same(&old), "its name was forgotten, too");
}

#[test]
fn names_are_interned() {
    let (_clock, isolation) = still();
    let [a, b] = ["a", "b"].map(|key| builder(key).pool("one").build(&isolation).unwrap());
    assert!(a.group().is_same(b.group()) && a.pool().is_same(b.pool()));
    assert!(
        !a.group().is_same(&Key::from("tests")),
        "equal, but not interned"
    );
}

#[test]
fn interned_pool_keys_are_counted() {
    let (_clock, isolation) = still();
    assert_eq!(isolation.pool_key_count(), 0);
    let build = |key: &str, pool: &str| builder(key).pool(pool).build(&isolation).unwrap();
    let _commands = [build("a", "one"), build("b", "one"), build("c", "two")];
    let _own = made(builder("d").threads(pool_of(1, 0)), &isolation);
    assert_eq!(isolation.pool_key_count(), 3, "also those without threads");
    assert_eq!(isolation.pool_count(), 1, "a pool is made when it is used");
    assert!(isolation.remove("a"));
    assert_eq!(isolation.pool_key_count(), 3, "another command names it");
    assert!(isolation.remove("b") && isolation.remove("d"));
    assert_eq!((isolation.pool_key_count(), isolation.pool_count()), (1, 0));
}

#[test]
fn an_enum_of_the_user_is_a_key() {
    #[derive(Clone, Copy)]
    enum Pools {
        Legacy,
    }
    impl From<Pools> for Key {
        fn from(pool: Pools) -> Self {
            match pool {
                Pools::Legacy => Self::from("legacy"),
            }
        }
    }
    let (_clock, isolation) = still();
    let [a, b] = ["a", "b"].map(|key| {
        let command = builder(key).pool(Pools::Legacy).threads(pool_of(1, 1));
        command.build(&isolation).unwrap()
    });
    let text = made(
        builder("c").pool("legacy").threads(pool_of(1, 1)),
        &isolation,
    );
    assert!(a.pool().is_same(b.pool()) && a.pool().is_same(text.pool()));
    assert_eq!((isolation.pool_count(), isolation.pool_key_count()), (1, 1));
    assert_eq!((a.run(|_| Ok(1)), b.run(|_| Ok(2))), (Ok(1), Ok(2)));
    assert_eq!(pool(&isolation).executed_total, 2);
}

#[test]
fn known_keys_appear_at_once_with_zeros() {
    let (_clock, isolation) = still();
    let _commands = ["b", "a"].map(|key| builder(key).build(&isolation).unwrap());
    let snapshots = isolation.snapshots();
    let keys: Vec<_> = snapshots
        .iter()
        .map(|snapshot| snapshot.key.as_str())
        .collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(snapshots[0].totals[Event::Success], 0);
}

#[test]
fn a_removed_key_begins_anew() {
    let (_clock, isolation) = still();
    let old = builder("a").build(&isolation).unwrap();
    old.run(|_| Ok(1)).unwrap();
    assert!(isolation.remove("a"));
    let new = builder("a").permits(3).build(&isolation).unwrap();
    assert_eq!(new.snapshot().totals[Event::Success], 0);
    assert_eq!(old.run(|_| Ok(1)), Ok(1), "a remaining handle may go on");
}

#[test]
fn a_removed_command_that_changes_to_threads_has_a_pool_of_its_own() {
    let (log, clock) = (Log::new(), ManualClock::new());
    let added = log.clone();
    let isolation = isolated(|i| {
        i.clock(&clock)
            .on_pool_added(move |pool| added.push(pool.to_string()))
    });
    let [before, after] = [false, true].map(|is_known| {
        let old = builder("a").no_timeout().build(&isolation).unwrap();
        assert!(isolation.remove("a"));
        let new = || builder("a").threads(pool_of(1, 1)).build(&isolation);
        let known = is_known.then(|| new().unwrap());
        old.configure(|c| c.bulkhead = Bulkhead::Threads).unwrap();
        assert_eq!(old.run(|_| Ok(1)), Ok(1));
        assert_eq!(isolation.pool_count(), usize::from(is_known), "not listed");
        let new = known.unwrap_or_else(|| new().unwrap());
        assert_eq!(new.run(|_| Ok(2)), Ok(2));
        assert_eq!(
            pool(&isolation).executed_total,
            1,
            "that of the new command"
        );
        assert!(isolation.remove("a"));
        old
    });
    log.assert_order(&["a".to_owned(), "a".to_owned()]);
    let report = isolation.shutdown(SECOND).wait().unwrap();
    assert!(report.pools.len() >= 2 && report.is_clean());
    for old in [before, after] {
        let refused = old.run(|_| Ok(1)).unwrap_err();
        assert_eq!(refused.cause(), &Cause::Rejected(Rejection::Closed));
    }
}

#[test]
fn idle_keys_give_their_histograms_back() {
    let (clock, isolation, command) = alone(|c| c);
    command.run(|_| Ok(1)).unwrap();
    assert_eq!(command.snapshot().lent_bytes, 4096);
    assert_eq!(isolation.reclaim(), 0, "it is in use");
    clock.advance(std::time::Duration::from_secs(61));
    assert_eq!(isolation.reclaim(), 1);
    assert_eq!(command.snapshot().lent_bytes, 0);
    command.run(|_| Ok(1)).unwrap();
    let snapshot = command.snapshot();
    assert_eq!(
        (
            snapshot.totals[Event::Success],
            snapshot.latencies.run.count()
        ),
        (2, 1)
    );
    clock.advance(std::time::Duration::from_secs(61));
    assert_eq!(
        isolation.snapshots()[0].lent_bytes,
        0,
        "reading removes idle entries"
    );
    assert_eq!(command.snapshot().totals[Event::Success], 2);
}

#[test]
fn a_shutdown_ends_removed_keys_too() {
    let (clock, isolation) = still();
    let threads = made(builder("t").threads(pool_of(1, 1)).no_timeout(), &isolation);
    let leave = Gate::new();
    let held = hold(&threads, &leave);
    assert!(isolation.remove("t"));
    let end = isolation.shutdown(SECOND);
    let refused = threads.run(|_| Ok(1)).unwrap_err();
    assert_eq!(refused.cause(), &Cause::Rejected(Rejection::Closed));
    clock.jump(SECOND);
    let report = end.wait().unwrap();
    assert_eq!(
        (report.pools.len(), report.is_clean()),
        (1, false),
        "it is stuck"
    );
    leave.open();
    drop(held.wait());

    let (clock, isolation) = still();
    let permits = made(
        builder("p").permits(waiting(1, SECOND)).no_timeout(),
        &isolation,
    );
    let _entry = permits.admit().unwrap();
    std::thread::scope(|scope| {
        let sleepers = clock.sleepers();
        let waiter = scope.spawn(|| permits.run(|_| Ok(1)));
        clock.await_sleepers(sleepers + 1);
        assert!(isolation.remove("p"));
        isolation.shutdown_now();
        assert!(waiter.join().unwrap().unwrap_err().is_rejected());
    });
}

#[test]
fn what_is_prepared_takes_effect_when_it_is_applied_and_cannot_fail_then() {
    let (properties, isolation) = with_properties();
    let with = |limit: usize, window: u32| {
        builder("a").permits(limit).breaker(BreakerConfig {
            window: BreakerWindow::Count(window),
            ..touchy()
        })
    };
    let (first, apply) = with(3, 5).prepare(&isolation, None).unwrap();
    assert!(isolation.is_empty());
    apply();
    let in_force = || isolation.snapshots().remove(0);
    assert_eq!((isolation.len(), in_force().limit), (1, 3));
    assert!(first.run(|_| Err("failed")).is_err());
    // New settings; those that are dropped have no effect.
    drop(with(4, 5).prepare(&isolation, Some(&first)).unwrap());
    let (second, apply) = with(5, 5).prepare(&isolation, Some(&first)).unwrap();
    assert_eq!(in_force().limit, 3);
    // A property that changes meanwhile counts.
    let limit = "hystrix.command.a.execution.isolation.semaphore.maxConcurrentRequests";
    properties.set(limit, "9").unwrap();
    apply();
    assert_eq!(in_force().limit, 9);
    properties.remove(limit).unwrap();
    assert_eq!(in_force().limit, 5);
    assert_eq!(second.snapshot().breaker, BreakerState::Open, "it stays");
    // A window is fixed for the life of a command: another one begins in its place.
    let (third, apply) = with(5, 6).prepare(&isolation, Some(&second)).unwrap();
    assert_eq!(in_force().breaker, BreakerState::Open);
    apply();
    assert_eq!(
        (isolation.len(), in_force().breaker),
        (1, BreakerState::Closed)
    );
    assert!(third.run(|_| Ok(1)).is_ok());
    // Only the command that is named gives up its place.
    let why = with(7, 6).prepare(&isolation, None).err().unwrap();
    assert!(why.to_string().contains("built differently"), "{why}");
    assert_eq!(in_force().limit, 5);
}
