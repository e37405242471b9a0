//! Roaming loops whose pool ends first, and strategies over a loop that ends: the executor hands back
//! what users submitted, and the rest neither stays nor keeps anything alive.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Executor, ManualClock, Task};
use tidegate_loop::{EventLoop, Quiet, Roaming};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{ProduceConsume, Strategy};
use tidegate_testkit::{Counter, DropCount, Gate, Stop, until};

use crate::strategies::{KINDS, Kind};
use crate::{SECOND, hold, home};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a pool of two threads, and a loop on it that counts its own drop.
fn roaming(
    kind: Kind,
    clock: &ManualClock,
    gone: &Counter,
) -> (Arc<WorkerPool>, EventLoop<Roaming>) {
    let pool = WorkerPool::builder("workers").clock(clock).core(2).max(2);
    let pool = Arc::new(pool.reserved(0).build().unwrap());
    let drops = DropCount::new(gone);
    let home = EventLoop::builder("home").clock(clock);
    let home = home.on_unhandled(move |_, _| {
        let _drops = &drops;
    });
    let config = kind.config(Arc::clone(&pool) as _);
    (pool, home.build_roaming(&config).unwrap())
}

/// Keeps one thread of the pool busy until the gate is opened.
fn hold_thread(pool: &WorkerPool) -> Gate {
    let stop = Stop::new();
    pool.execute(stop.closure()).unwrap();
    stop.reached()
}

#[test]
fn a_loop_whose_start_waits_in_an_ended_pool_gets_its_thread() {
    for kind in KINDS {
        let (clock, gone, ran) = (ManualClock::new(), Counter::new(), Counter::new());
        let (pool, home) = roaming(kind, &clock, &gone);
        let gates = [hold_thread(&pool), hold_thread(&pool)];
        let task = Task::non_blocking(ran.hits());
        Executor::execute(&home, task).unwrap();
        let report = pool.shutdown(Duration::ZERO).wait().unwrap();
        assert!(report.handed_back.is_empty(), "{kind:?}");
        gates.iter().for_each(Gate::open);
        ran.wait_for(1);
        home.shutdown(Quiet::none(MINUTE)).wait().unwrap();
        until("the pool has no thread", || pool.metrics().threads == 0);
        drop((home, pool, report));
        gone.wait_for(1);
    }
}

#[test]
fn a_loop_that_ends_while_its_start_waits_in_an_ended_pool_leaves_nothing() {
    for (kind, pool_first) in KINDS.into_iter().zip([true, false].into_iter().cycle()) {
        let (clock, gone) = (ManualClock::new(), Counter::new());
        let (pool, home) = roaming(kind, &clock, &gone);
        let gates = [hold_thread(&pool), hold_thread(&pool)];
        Executor::execute(&home, Task::non_blocking(|| ())).unwrap();
        let end_loop = || drop(home.shutdown(Quiet::none(MINUTE)));
        if pool_first {
            drop(pool.shutdown(Duration::ZERO));
            end_loop();
        } else {
            end_loop();
            drop(pool.shutdown(Duration::ZERO));
        }
        drop((home, pool));
        gates.iter().for_each(Gate::open);
        gone.wait_for(1);
    }
}

#[test]
fn a_task_of_a_loop_that_its_pool_handed_back_and_nobody_takes_keeps_neither() {
    let (clock, gone, ran) = (ManualClock::new(), Counter::new(), Counter::new());
    let (pool, home) = roaming(Kind::Pec, &clock, &gone);
    let begun = Gate::new();
    let task = Task::non_blocking(begun.opens());
    Executor::execute(&home, task).unwrap();
    begun.wait();
    let gate = hold_thread(&pool);
    home.execute(ran.hits()).unwrap();
    until("the task waits in the pool", || pool.metrics().queued == 1);
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!(report.handed_back.len(), 1);
    let ended = home.shutdown(Quiet::none(SECOND));
    drop((report, home, pool));
    gate.open();
    clock.await_sleepers(1);
    clock.jump(SECOND);
    assert!(ended.wait().is_err(), "the task is still out");
    drop(ended);
    gone.wait_for(1);
    assert_eq!(ran.count(), 0);
}

#[test]
fn a_loop_that_ends_drops_the_helpers_of_strategies_over_it() {
    let (home, clock) = home();
    let (gone, ran) = (Counter::new(), Counter::new());
    let gate = hold(&home);
    let drops = DropCount::new(&gone);
    let producer = move || {
        let _drops = &drops;
        None
    };
    let strategy = ProduceConsume::new(producer, Arc::new(home.clone()));
    strategy.dispatch().unwrap();
    home.execute(ran.hits()).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    gate.open();
    let report = ended.wait().unwrap();
    let tasks = report.handed_back.take();
    assert_eq!(tasks.len(), 1, "that of the user");
    tasks.into_iter().for_each(Task::run);
    assert_eq!((ran.count(), gone.count()), (1, 0));
    drop(strategy);
    gone.wait_for(1);
}
