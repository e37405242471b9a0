//! The metrics of a pool, the low-on-threads hook and the thread budget.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_pool::{PoolError, PoolLimits, WorkerPool};
use tidegate_testkit::{Counter, Gate, Log, until};

use super::{builder, fixed, held, hold, hold_many, release};

#[test]
fn threads_are_ready_leased_or_utilized() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(6).max(6).queue(8).reserved(2);
    let pool = pool.build().unwrap();
    release(&clock, hold_many(&pool, 5));
    let lease = pool.lease("selectors", 2).unwrap();
    let gates = hold_many(&pool, 3);
    until("two threads are ready", || pool.metrics().ready == 2);
    let metrics = pool.metrics();
    assert_eq!(
        metrics.threads,
        metrics.ready + metrics.leased + metrics.utilized
    );
    assert_eq!((metrics.threads, metrics.ready, metrics.leased), (5, 2, 2));
    assert_eq!(
        (metrics.utilized, metrics.busy, metrics.available),
        (1, 3, 4)
    );
    assert!((metrics.utilization - 0.25).abs() < 1e-9);
    assert_eq!(metrics.running, ["held", "held", "held"]);
    drop(lease);
    assert_eq!(pool.metrics().leased, 0);
    release(&clock, gates);
}

#[test]
fn the_queue_and_the_idle_are_counted_together() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).build().unwrap();
    let gates = hold_many(&pool, 2);
    for waiting in 1..=4 {
        pool.execute(|| ()).unwrap();
        let metrics = pool.metrics();
        assert_eq!(
            (metrics.queued, metrics.ready, metrics.threads),
            (waiting, 0, 2)
        );
    }
    assert_eq!(pool.metrics().most_queued, 4);
    release(&clock, gates);
    let metrics = pool.metrics();
    assert_eq!((metrics.queued, metrics.ready, metrics.threads), (0, 2, 2));
    assert_eq!((metrics.accepted, metrics.done, metrics.refused), (6, 6, 0));
}

#[test]
fn being_low_on_threads_is_reported_when_it_changes() {
    let clock = ManualClock::new();
    let (log, received) = Log::pair();
    let pool = fixed(&clock, 3, 8).low_threads(1);
    let pool = pool
        .on_low_threads(move |low| received.push(low))
        .build()
        .unwrap();
    let first = hold(&pool);
    assert!(!pool.is_low_on_threads() && log.is_empty());
    let second = hold(&pool);
    assert!(pool.is_low_on_threads() && pool.metrics().low);
    let third = hold(&pool);
    log.assert_order(&[true]);
    release(&clock, vec![first, second, third]);
    assert!(!pool.is_low_on_threads());
    log.assert_order(&[true, false]);
}

#[test]
fn a_thread_that_looks_on_and_is_claimed_makes_the_pool_low() {
    // With the system clock, an idle thread spins for a while before it sleeps.
    for _ in 0..200 {
        let (log, received) = Log::pair();
        let pool = WorkerPool::builder("workers").core(1).max(1).reserved(1);
        let pool = pool
            .low_threads(0)
            .on_low_threads(move |low| received.push(low));
        let pool = pool.build().unwrap();
        let (first, _, end_first) = held("first");
        end_first.open();
        pool.execute_task(first).unwrap();
        until("one thread is ready", || pool.metrics().ready == 1);
        let (task, arrived, go_on) = held("claiming");
        pool.try_execute(task).unwrap();
        arrived.wait();
        assert_eq!(log.take().last(), Some(&true), "it has no thread left");
        go_on.open();
    }
}

#[test]
fn signals_of_low_threads_arrive_in_their_order_and_one_at_a_time() {
    let clock = ManualClock::new();
    let (log, inside, go_on) = (Log::new(), Gate::new(), Gate::new());
    let (received, here, until_opened) = (log.clone(), inside.clone(), go_on.clone());
    let pool = fixed(&clock, 2, 8)
        .low_threads(0)
        .on_low_threads(move |low| {
            if low {
                here.open();
                until_opened.wait();
            }
            received.push(low);
        });
    let pool = pool.build().unwrap();
    let first = hold(&pool);
    let (second, _, end_second) = held("second");
    thread::scope(|scope| {
        scope.spawn(|| pool.execute_task(second).unwrap());
        inside.wait();
        // Another thread sees that the pool is no longer low, before the hook call for `true` has
        // returned.
        first.open();
        until("one thread is ready", || pool.metrics().ready == 1);
        assert!(log.is_empty(), "one at a time");
        go_on.open();
    });
    log.assert_order(&[true, false]);
    release(&clock, vec![end_second]);
}

#[test]
fn a_submitter_does_not_call_the_hook_of_low_threads_for_ever() {
    const CHANGES: usize = 40;
    let clock = ManualClock::new();
    let own: Arc<OnceLock<WorkerPool>> = Arc::default();
    let (calls, gates) = (Log::new(), Log::new());
    let (received, held_up, handle) = (calls.clone(), gates.clone(), Arc::clone(&own));
    // Each call of the hook makes the next one necessary.
    let flip = move |low| {
        received.push((low, thread::current().id()));
        let pool = handle.get().unwrap();
        if low {
            held_up.take().iter().for_each(Gate::open);
            until("one thread is ready", || pool.metrics().ready == 1);
        } else if received.len() < CHANGES {
            held_up.push(hold(pool));
        }
    };
    let pool = fixed(&clock, 1, 8).low_threads(0).on_low_threads(flip);
    assert!(own.set(pool.build().unwrap()).is_ok());
    let (task, _, gate) = held("first");
    gates.push(gate);
    own.get().unwrap().execute_task(task).unwrap();
    calls.wait_for(CHANGES);
    let calls = calls.take();
    let here = calls.iter().filter(|call| call.1 == thread::current().id());
    assert!(here.count() <= 2, "the submitter has other things to do");
    let notified: Vec<_> = calls.iter().map(|call| call.0).collect();
    assert_eq!(notified, [true, false].repeat(CHANGES / 2));
}

#[test]
fn a_hook_of_low_threads_that_panics_does_no_harm() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).on_low_threads(|_| panic!("on purpose"));
    let pool = pool.build().unwrap();
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    clock.settle();
    assert_eq!(pool.submit(|| 8).unwrap().wait().unwrap(), 8);
}

#[test]
fn the_budget_leaves_a_thread_and_names_each_lessee() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 4, 8).build().unwrap();
    let _acceptors = pool.lease("acceptors", 1).unwrap();
    let lease = pool.lease("selectors", 2).unwrap();
    assert_eq!(lease.threads(), 2);
    let error = pool.lease("monitor", 1).unwrap_err();
    let message = error.to_string();
    for word in [
        "insufficient threads",
        "monitor",
        "acceptors has 1",
        "selectors has 2",
    ] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(error.leases().len(), 2);
    assert!(pool.lease("too many", usize::MAX).is_err());
    assert_eq!(pool.metrics().leased, 3, "the failed ones are undone");
    drop(lease);
    assert!(pool.lease("monitor", 2).is_ok());
}

#[test]
fn a_maximum_below_the_leases_is_refused_and_changes_nothing() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 8, 8).build().unwrap();
    let lease = pool.lease("selectors", 4).unwrap();
    let smaller = PoolLimits {
        core: 1,
        max: 4,
        ..pool.limits()
    };
    let error = pool.resize(smaller).unwrap_err();
    assert!(matches!(&error, PoolError::Budget(_)));
    assert!(error.to_string().contains("selectors has 4"), "{error}");
    assert_eq!((pool.limits().core, pool.limits().max), (8, 8));
    drop(lease);
    pool.resize(smaller).unwrap();
}

#[test]
fn leased_threads_do_not_count_as_width() {
    use tidegate_core::Executor;
    let clock = ManualClock::new();
    let pool = fixed(&clock, 3, 8).build().unwrap();
    let lease = pool.lease("selectors", 2).unwrap();
    assert_eq!(pool.width(), 1);
    drop(lease);
    assert_eq!(pool.width(), 3);
}

#[test]
fn internal_jobs_are_never_refused_and_come_first() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 1).build().unwrap();
    let gate = hold(&pool);
    let log = Log::new();
    let note = |what: &'static str| log.pushes(what);
    pool.execute(note("user")).unwrap();
    assert!(pool.execute(note("refused")).is_err());
    for _ in 0..100 {
        pool.execute_internal(tidegate_core::Task::new(note("internal")))
            .unwrap();
    }
    assert_eq!(pool.metrics().queued_internal, 100);
    release(&clock, vec![gate]);
    let order = log.take();
    assert_eq!(order.len(), 101);
    assert_eq!(order[0], "internal");
    let user = order.iter().position(|what| *what == "user").unwrap();
    assert!(user < 20, "users get their turn too: {user}");
}

#[test]
fn listeners_run_on_the_pool_whatever_its_bound() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 0).build().unwrap();
    let gate = hold(&pool);
    let (promise, answer) = pool.promise::<u32>();
    let (received, handle) = (Counter::new(), pool.clone());
    let hit = received.hits();
    answer.on_complete(move |_| {
        assert!(handle.is_current());
        hit();
    });
    promise.succeed(7).unwrap();
    assert_eq!(received.count(), 0, "the only thread is busy");
    release(&clock, vec![gate]);
    assert_eq!(received.count(), 1);
}

#[test]
fn a_pool_that_measures_reports_how_long_jobs_waited_and_ran() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).measure_times().build().unwrap();
    let first = hold(&pool);
    let (task, started, go_on) = held("second");
    pool.execute_task(task).unwrap();
    clock.jump(Duration::from_millis(5));
    first.open();
    started.wait();
    clock.jump(Duration::from_millis(3));
    release(&clock, vec![go_on]);
    until("two jobs are done", || pool.metrics().done == 2);
    let metrics = pool.metrics();
    let (waits, runs) = (metrics.waits.unwrap(), metrics.runs.unwrap());
    let ms = Duration::from_millis;
    assert_eq!((waits.count, waits.total, waits.longest), (2, ms(5), ms(5)));
    assert_eq!((runs.count, runs.total, runs.longest), (2, ms(8), ms(5)));
    assert_eq!(runs.mean(), ms(4));

    let silent = fixed(&clock, 1, 8).build().unwrap();
    silent.submit(|| ()).unwrap().wait().unwrap();
    assert_eq!(
        (silent.metrics().waits, silent.metrics().runs),
        (None, None)
    );
}
