//! Limits change while the pool runs, all of them in one step.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::{ManualClock, RejectReason, Task};
use tidegate_pool::{Growth, PoolLimits, WorkerPool};
use tidegate_promise::Completion;
use tidegate_testkit::{Counter, Gate, until};

use super::{builder, fixed, hold_many, release};
use crate::SECOND;

#[test]
fn raising_the_maximum_starts_threads_for_what_waits() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let mut gates = hold_many(&pool, 1);
    let handed: Vec<_> = (0..2).map(|_| super::held("waiting")).collect();
    for (task, arrived, go_on) in handed {
        pool.execute_task(task).unwrap();
        gates.push(go_on);
        assert!(!arrived.is_open());
    }
    let wider = PoolLimits {
        core: 3,
        max: 3,
        ..pool.limits()
    };
    let before = pool.resize(wider).unwrap();
    assert_eq!((before.core, before.max), (1, 1));
    until("three jobs run", || pool.metrics().running.len() == 3);
    assert_eq!((pool.metrics().threads, pool.metrics().queued), (3, 0));
    release(&clock, gates);
}

#[test]
fn lowering_the_maximum_ends_idle_threads_now_and_busy_ones_after_their_job() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 4, 8).build().unwrap();
    release(&clock, hold_many(&pool, 4));
    let gates = hold_many(&pool, 2);
    let narrower = PoolLimits {
        core: 1,
        max: 1,
        ..pool.limits()
    };
    pool.resize(narrower).unwrap();
    until("two threads are left", || pool.metrics().threads == 2);
    release(&clock, gates);
    assert_eq!(pool.metrics().threads, 1);
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
}

#[test]
fn a_shorter_keep_alive_counts_for_threads_that_are_idle_already() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(4).keep_alive(1000 * SECOND);
    let pool = pool.build().unwrap();
    release(&clock, hold_many(&pool, 4));
    clock.advance(5 * SECOND);
    let shorter = PoolLimits {
        keep_alive: 6 * SECOND,
        ..pool.limits()
    };
    pool.resize(shorter).unwrap();
    clock.settle();
    assert_eq!(pool.metrics().threads, 4);
    clock.advance(SECOND);
    assert_eq!(pool.metrics().threads, 0);
}

#[test]
fn a_lower_core_lets_idle_threads_go() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 3, 8).keep_alive(SECOND).build().unwrap();
    release(&clock, hold_many(&pool, 3));
    clock.advance(10 * SECOND);
    assert_eq!(pool.metrics().threads, 3);
    let smaller = PoolLimits {
        core: 1,
        ..pool.limits()
    };
    pool.resize(smaller).unwrap();
    clock.advance(SECOND);
    assert_eq!(pool.metrics().threads, 1);
}

#[test]
fn the_bound_is_taken_at_admission() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 3).build().unwrap();
    let gates = hold_many(&pool, 1);
    let ran = Counter::new();
    for _ in 0..3 {
        pool.execute(ran.hits()).unwrap();
    }
    let bound = |queue| PoolLimits {
        queue,
        ..pool.limits()
    };
    pool.resize(bound(1)).unwrap();
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    assert_eq!(pool.metrics().queued, 3, "what waits stays");
    pool.resize(bound(4)).unwrap();
    pool.execute(ran.hits()).unwrap();
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    release(&clock, gates);
    assert_eq!(ran.count(), 4);
}

#[test]
fn the_reserve_can_be_given_up_and_taken_again() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).reserved(2).build().unwrap();
    release(&clock, hold_many(&pool, 2));
    let reserve = |reserved| PoolLimits {
        reserved,
        ..pool.limits()
    };
    pool.resize(reserve(0)).unwrap();
    assert_eq!((pool.metrics().reserved, pool.metrics().ready), (0, 2));
    assert!(pool.try_execute(Task::new(|| ())).is_err());
    pool.resize(reserve(1)).unwrap();
    assert_eq!((pool.metrics().reserved, pool.metrics().ready), (1, 2));
    let ran = Counter::new();
    pool.try_execute(Task::new(ran.hits())).unwrap();
    ran.wait_for(1);
}

#[test]
fn no_reader_sees_half_of_a_change() {
    let clock = ManualClock::new();
    let small = PoolLimits {
        core: 1,
        max: 2,
        queue: 10,
        reserved: 1,
        keep_alive: SECOND,
        growth: Growth::QueueFirst,
        low: 1,
    };
    let large = PoolLimits {
        core: 8,
        max: 16,
        queue: 20,
        reserved: 4,
        keep_alive: Duration::ZERO,
        growth: Growth::ThreadsFirst,
        low: 3,
    };
    let pool = builder(&clock).limits(small).build().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                pool.resize(large).unwrap();
                pool.resize(small).unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            until("the limits have changed for the last time", || {
                let _ = pool.execute(|| ());
                let metrics = pool.metrics();
                assert!(metrics.limits == small || metrics.limits == large);
                assert!(metrics.most_threads <= 16);
                let room = pool.free_threads();
                assert!(room.may_start <= 16 && room.places <= 20);
                over.load(Ordering::Relaxed)
            });
        });
    });
    clock.settle();
    assert!(pool.metrics().threads <= 2);
}

/// Submits a job that waits for another job, which is queued behind a blocked thread. The result
/// says whether the wait was refused.
fn waiting_for_its_own(pool: &WorkerPool) -> (Completion<bool>, Gate) {
    let gate = super::hold(pool);
    let handle = pool.clone();
    let waiting = pool.submit(move || {
        let inner = handle.submit(|| ()).unwrap();
        inner.wait().is_err_and(|error| error.is_refused())
    });
    (waiting.unwrap(), gate)
}

#[test]
fn a_resize_below_what_a_wait_relies_on_is_refused_or_refuses_the_wait() {
    for _ in 0..50 {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 2, 8).build().unwrap();
        let (waiting, gate) = waiting_for_its_own(&pool);
        let narrower = PoolLimits {
            core: 1,
            max: 1,
            ..pool.limits()
        };
        let resized = pool.resize(narrower);
        gate.open();
        let wait_refused = waiting.wait().unwrap();
        match resized {
            Ok(_) => assert!(wait_refused, "nothing would have run it"),
            Err(error) => {
                assert!(!wait_refused);
                let message = "workers waits for workers";
                let cause = error.source().expect("the wait is the cause").to_string();
                assert!(cause.contains(message), "{error}: {cause}");
                assert_eq!(pool.limits().max, 2, "nothing has changed");
                clock.settle();
                pool.resize(narrower).unwrap();
            }
        }
    }
}

#[test]
fn a_lease_below_what_a_wait_relies_on_is_refused_or_refuses_the_wait() {
    for _ in 0..50 {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 2, 8).build().unwrap();
        let (waiting, gate) = waiting_for_its_own(&pool);
        match pool.lease("selectors", 1) {
            Ok(_lease) => assert!(waiting.wait().unwrap(), "it has no thread left"),
            Err(error) => {
                let message = "workers waits for workers";
                let cause = error.source().expect("the wait is the cause").to_string();
                assert!(cause.contains(message), "{error}: {cause}");
                gate.open();
                assert!(!waiting.wait().unwrap());
                assert_eq!(pool.metrics().leased, 0, "nothing has changed");
            }
        }
        gate.open();
    }
}
