//! How many threads and queued calls a bulkhead allows, and which threads may wait for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_isolate::{AdaptiveLimit, Cause, Event, Growth, PoolConfig, Rejection};
use tidegate_testkit::{Gate, until};

use super::kit::{alone, still};
use crate::support::{SECOND, builder, cause, counted, hold, made, pool, pool_of, set};

#[test]
fn runs_on_a_thread_of_the_pool() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(1, 1)));
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
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(2, 0)));
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let error = command.run(|_| Ok(1)).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Pool));
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
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(1, 0)).no_timeout());
    for n in 0..5_000 {
        assert_eq!(command.run(move |_| Ok(n)), Ok(n));
    }
    assert_eq!(counted(&command), [(Event::Success, 5_000)]);
    assert_eq!(pool(&isolation).largest, 1);
}

#[test]
fn the_live_bound_of_the_queue_is_exact() {
    let config = PoolConfig {
        rejection_threshold: Some(2),
        ..pool_of(1, 10)
    };
    let (_clock, isolation, command) = alone(|c| c.threads(config));
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
    set(&command, |c| c.pool.rejection_threshold = Some(3));
    let third = command.queue(|_| Ok(1));
    assert!(!third.is_done(), "the bound is live");
    set(&command, |c| c.pool.rejection_threshold = None);
    assert!(!command.queue(|_| Ok(1)).is_done(), "up to the queue's own");
    go_on.open();
    assert_eq!(third.wait().unwrap(), 1);
}

#[test]
fn grows_before_it_queues_or_after() {
    for (growth, threads) in [(Growth::ThreadsFirst, 2), (Growth::QueueFirst, 1)] {
        let config = PoolConfig {
            max: Some(2),
            growth,
            ..pool_of(1, 5)
        };
        let (_clock, isolation, command) = alone(|c| c.threads(config));
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
fn commands_of_one_pool_key_share_its_threads() {
    let (_clock, isolation) = still();
    let builder = |key: &str| builder(key).pool("one");
    let a = made(builder("a").threads(pool_of(1, 0)), &isolation);
    let b = made(builder("b").threads(pool_of(1, 0)), &isolation);
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
fn an_adaptive_limit_bounds_what_is_queued_and_what_runs() {
    let limit = AdaptiveLimit {
        initial: 4,
        min: 1,
        max: 10,
        window: None,
        ..AdaptiveLimit::aimd()
    };
    let config = pool_of(1, 50);
    let (clock, isolation, command) = alone(|c| c.threads(config).adaptive(limit).timeout(SECOND));
    let at = || command.snapshot().adaptive_limit;
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let queued = [(); 3].map(|()| command.queue(|_| Ok(1)));
    assert_eq!(at(), Some(4));
    let refused = command.queue(|_| Ok(1));
    assert_eq!(cause(refused), Cause::Rejected(Rejection::Permits));
    assert_eq!(at(), Some(4), "a refusal says nothing about the dependency");
    clock.jump(SECOND);
    for answer in queued.into_iter().chain([held]) {
        assert_eq!(cause(answer), Cause::TimedOut(SECOND));
    }
    assert_eq!(at(), Some(1), "each timeout is a drop: a tenth less");
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
    assert_eq!(at(), Some(3), "and quick calls raise it while it is used");
}

#[test]
fn a_loop_must_not_wait_for_a_thread() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 1)));
    let error = tidegate_core::Blocking::forbid(|| command.run(|_| Ok(1))).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Waiting));
    let answer = tidegate_core::Blocking::forbid(|| command.queue(|_| Ok(1)));
    assert_eq!(answer.wait().unwrap(), 1);
}
