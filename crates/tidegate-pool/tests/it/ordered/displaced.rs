//! A view whose turn is dropped by a pool that goes on: the waiting tasks go with it, the view stays.
//! A view over a full pool.

use std::sync::Arc;

use tidegate_core::executor::RejectHandler;
use tidegate_core::{Executor, ManualClock};
use tidegate_pool::{DisplacedError, OrderedView, PoolPolicy, WorkerPool};
use tidegate_testkit::{Bomb, Counter, DropCount, Gate, Log, until};

use super::ends::{hold_pool, hold_view};
use crate::SECOND;

/// A turn that the pool displaces takes the waiting tasks along. The view lives on.
#[test]
fn a_view_whose_turn_is_displaced_loses_its_waiting_tasks_and_stays_open() {
    let pool = WorkerPool::builder("workers").core(2).max(2).queue(1);
    let pool = pool.reserved(0).policy(PoolPolicy::DropOldest);
    let pool = pool.build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let gates = [hold_pool(&pool), hold_pool(&pool)];
    let drops = Counter::new();
    let bomb = Bomb::new();
    view.execute(move || drop(bomb)).unwrap();
    let held = DropCount::new(&drops);
    view.execute(move || drop(held)).unwrap();
    let (promise, signalled) = view.promise::<u32>();
    let (ran, seen) = Log::pair();
    signalled.on_complete(move |_| seen.push("signal"));
    promise.succeed(1).unwrap();
    pool.execute(ran.pushes("job")).unwrap();
    assert_eq!((drops.count(), view.pending_tasks()), (1, 0));
    assert_eq!(view.panics(), 1, "the drop of one of them panicked");
    assert!(view.handed_back().is_empty() && !view.has_abandoned_tasks());
    gates.iter().for_each(Gate::open);
    ran.wait_for(2);
    view.execute(ran.pushes("task")).unwrap();
    ran.wait_for(3);
    let mut ran = ran.take();
    ran.sort_unstable();
    assert_eq!(ran, ["job", "signal", "task"], "a signal is not displaced");
}

#[test]
fn scheduled_tasks_of_a_displaced_turn_fail_as_displaced() {
    let clock = ManualClock::new();
    let pool = WorkerPool::builder("workers").core(2).max(2).queue(1);
    let pool = pool.reserved(0).policy(PoolPolicy::DropOldest);
    let pool = pool.clock(&clock).build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let gates = [hold_pool(&pool), hold_pool(&pool)];
    let due = view.schedule(SECOND, || 7).unwrap();
    let _next = view.schedule(SECOND, || 8).unwrap();
    clock.jump(SECOND);
    // The lane counts a task before the task is in its place. One thread submits both, so the first
    // is in its place when the second is counted.
    until("the first task waits", || view.pending_tasks() == 2);
    pool.execute(|| ()).unwrap();
    let why = due.wait().unwrap_err().failure().unwrap();
    assert!(why.downcast_ref::<DisplacedError>().is_some(), "{why}");
    gates.iter().for_each(Gate::open);
}

/// With this policy, a full pool would run each next turn inside the last one.
#[test]
fn turns_do_not_nest_in_a_full_pool_whose_callers_run() {
    let pool = WorkerPool::builder("workers").core(2).max(2).queue(1);
    let pool = pool.reserved(0).policy(PoolPolicy::CallerRuns);
    let pool = pool.build().unwrap();
    let view = OrderedView::builder(Arc::new(pool.clone()));
    let view = view.max_tasks_per_turn(1).bound(30_000).build().unwrap();
    let go_on = hold_view(&view);
    let gate = hold_pool(&pool);
    let (ran, last) = (Counter::new(), Gate::new());
    for _ in 0..20_000 {
        view.execute(ran.hits()).unwrap();
    }
    let open = last.clone();
    view.execute(move || open.open()).unwrap();
    pool.execute(|| ()).unwrap(); // fills the queue
    go_on.open();
    last.wait();
    assert_eq!(ran.count(), 20_000);
    gate.open();
}

/// The user's policy drops the turn of the view like any other job.
#[test]
fn a_policy_that_drops_jobs_does_not_close_a_view() {
    let pool = WorkerPool::builder("workers").core(2).max(2).queue(1);
    let discards: RejectHandler = Arc::new(|refused| {
        drop(refused);
        Ok(())
    });
    let pool = pool.reserved(0).policy(PoolPolicy::With(discards));
    let pool = pool.build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let gates = [hold_pool(&pool), hold_pool(&pool)];
    pool.execute(|| ()).unwrap(); // fills the queue
    let drops = Counter::new();
    for _ in 0..3 {
        let held = DropCount::new(&drops);
        view.execute(move || drop(held)).unwrap();
    }
    assert_eq!((drops.count(), view.pending_tasks()), (3, 0));
    gates.iter().for_each(Gate::open);
    until("the pool has room", || pool.metrics().queued == 0);
    let ran = Counter::new();
    view.execute(ran.hits()).unwrap();
    ran.wait_for(1);
    assert!(view.handed_back().is_empty());
}
