//! The function that supplies the parts of a pool.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tidegate_core::ManualClock;
use tidegate_isolate::{Bulkhead, ConcurrencyStrategy, Isolation, Key, PropertySource};
use tidegate_testkit::{Gate, Log};

use super::queues::Ranked;
use super::{others_go_on, queue_up};
use crate::support::{Numbers, builder, hold, isolated, made, pool, pool_of, set};

#[test]
fn a_strategy_that_panics_refuses_the_command_that_needs_it() {
    let isolation = isolated(|i| {
        i.concurrency_strategy(|pool: &Key| match &**pool {
            "a" => panic!("on purpose"),
            _ => ConcurrencyStrategy::default(),
        })
    });
    let error = builder("a").threads(pool_of(1, 1)).build(&isolation);
    let error = error.unwrap_err();
    assert_eq!(
        (error.key(), error.property()),
        ("a", "concurrency strategy")
    );
    assert!(error.reason().contains("panicked: on purpose"), "{error}");
    let permits = builder("a").build(&isolation).unwrap();
    assert_eq!(permits.run(|_| Ok(1)), Ok(1), "permits need no pool");
    let error = permits.configure(|c| c.bulkhead = Bulkhead::Threads);
    assert_eq!(error.unwrap_err().property(), "concurrency strategy");
    assert_eq!(permits.run(|_| Ok(1)), Ok(1), "the old settings stay");
    others_go_on(&isolation);
}

#[test]
fn a_strategy_may_use_the_isolation_and_serves_a_live_change() {
    let isolation = Arc::new(OnceLock::<Isolation>::new());
    let inner = Arc::downgrade(&isolation);
    let built = Isolation::builder().concurrency_strategy(move |pool: &Key| {
        let inner = inner.upgrade().unwrap();
        if let (Some(isolation), "a") = (inner.get(), &**pool) {
            assert!(isolation.pool("a").is_none());
            others_go_on(isolation);
        }
        ConcurrencyStrategy::default().queue(Ranked::default())
    });
    isolation.set(built.build().unwrap()).unwrap();
    let isolation = isolation.get().unwrap();
    let command = builder("a").no_timeout().build(isolation).unwrap();
    set(&command, |c| {
        (c.bulkhead, c.pool) = (Bulkhead::Threads, pool_of(1, 5))
    });
    assert_has_ranked_queue(&command);
}

#[test]
fn only_a_pool_that_is_created_asks_the_strategy() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let isolation = isolated(|i| {
        i.concurrency_strategy(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            ConcurrencyStrategy::default()
        })
    });
    let permits = builder("a").pool("p").build(&isolation).unwrap();
    permits.configure(|c| c.fallback_permits = 3).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 0, "permits need no pool");
    let threads = made(builder("b").pool("p").threads(pool_of(1, 1)), &isolation);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    set(&permits, |c| {
        (c.bulkhead, c.pool) = (Bulkhead::Threads, pool_of(1, 1))
    });
    assert_eq!(asked.load(Ordering::Relaxed), 1, "the pool exists");
    assert_eq!(threads.run(|_| Ok(1)), Ok(1));
}

#[test]
fn a_strategy_that_creates_its_own_pool_first_shares_it() {
    let isolation = Arc::new(OnceLock::<Isolation>::new());
    let inner = Arc::downgrade(&isolation);
    let is_first = AtomicBool::new(true);
    let built = Isolation::builder().concurrency_strategy(move |_| {
        if is_first.swap(false, Ordering::Relaxed) {
            let other = builder("b").pool("p").threads(pool_of(1, 5));
            let inner = inner.upgrade().unwrap();
            let isolation = inner.get().unwrap();
            assert_eq!(other.build(isolation).unwrap().run(|_| Ok(2)), Ok(2));
            return ConcurrencyStrategy::default();
        }
        ConcurrencyStrategy::default().queue(Ranked::default())
    });
    isolation.set(built.build().unwrap()).unwrap();
    let isolation = isolation.get().unwrap();
    let command = made(
        builder("a").pool("p").threads(pool_of(1, 5)).no_timeout(),
        isolation,
    );
    assert_has_ranked_queue(&command);
}

/// A source without values, which removes two keys the next time it is read after `is_due` is set.
struct Removes {
    isolation: Weak<OnceLock<Isolation>>,
    is_due: Arc<AtomicBool>,
}

impl PropertySource for Removes {
    fn get(&self, _: &str) -> Option<String> {
        if self.is_due.swap(false, Ordering::Relaxed) {
            let isolation = self.isolation.upgrade().unwrap();
            let isolation = isolation.get().unwrap();
            assert!(isolation.remove("a") && isolation.remove("b"));
            assert!(isolation.pool("p").is_none());
        }
        None
    }
}

/// The pool exists when the change begins and is gone when the command needs it.
#[test]
fn a_pool_that_is_removed_during_a_change_is_made_of_the_parts_of_the_program() {
    let isolation = Arc::new(OnceLock::<Isolation>::new());
    let is_due = Arc::new(AtomicBool::new(false));
    let built = Isolation::builder()
        .concurrency_strategy(|_| ConcurrencyStrategy::default().queue(Ranked::default()))
        .properties(Removes {
            isolation: Arc::downgrade(&isolation),
            is_due: Arc::clone(&is_due),
        });
    isolation.set(built.build().unwrap()).unwrap();
    let isolation = isolation.get().unwrap();
    let threads = builder("b").pool("p").threads(pool_of(1, 5));
    let _pool = threads.build(isolation).unwrap();
    let command = made(builder("a").pool("p").no_timeout(), isolation);
    is_due.store(true, Ordering::Relaxed);
    set(&command, |c| {
        (c.bulkhead, c.pool) = (Bulkhead::Threads, pool_of(1, 5))
    });
    assert!(!is_due.load(Ordering::Relaxed));
    assert_has_ranked_queue(&command);
}

/// Checks that the command's pool, of one thread, has the queue of the program.
fn assert_has_ranked_queue(command: &Numbers) {
    let (go_on, log) = (Gate::new(), Log::new());
    let held = hold(command, &go_on);
    let answers = queue_up(command, &log, 0..3);
    go_on.open();
    held.wait().unwrap();
    for answer in answers {
        answer.wait().unwrap();
    }
    log.assert_order(&[2, 1, 0]);
}

#[test]
fn the_default_strategy_changes_nothing() {
    let outcomes = [false, true].map(|has_strategy| {
        let mut isolation = Isolation::builder().clock(ManualClock::new());
        if has_strategy {
            isolation = isolation.concurrency_strategy(|_| ConcurrencyStrategy::default());
        }
        let isolation = isolation.build().unwrap();
        let command = made(builder("a").threads(pool_of(1, 3)).no_timeout(), &isolation);
        let (go_on, log) = (Gate::new(), Log::new());
        let held = hold(&command, &go_on);
        let answers = queue_up(&command, &log, 0..4);
        let queued = pool(&isolation).queued;
        go_on.open();
        held.wait().unwrap();
        let ended: Vec<_> = answers.into_iter().map(|one| one.wait().is_ok()).collect();
        let thread = command.run(|_| {
            let name = std::thread::current().name().unwrap().to_owned();
            assert!(name.starts_with("tidegate-a-"), "{name}");
            Ok(7)
        });
        let pool = pool(&isolation);
        let figures = (pool.executed_total, pool.rejected_total, pool.failed_part);
        (queued, ended, log.take(), thread, figures)
    });
    let [without, with] = outcomes;
    assert_eq!(without, with);
    assert_eq!(
        without.1,
        [true, true, true, false],
        "the last one is rejected"
    );
    assert_eq!(without.2, [0, 1, 2], "in the order of their arrival");
    assert_eq!(without.3, Ok(7), "on a thread of the pool's own");
    assert_eq!((without.0, without.4), (3, (5, 1, None)));
}
