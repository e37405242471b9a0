//! Late hand-over when no thread of the pool is idle: blocked by long tasks, or busy with short
//! ones. Each scenario of the README beside the code has a test of its name.

use std::sync::Arc;

use tidegate_core::Blocking;
use tidegate_pool::strategy::{Adaptive, Monitor, Strategy};
use tidegate_pool::{Headroom, WorkerPool};
use tidegate_testkit::Gate;

use super::late::{Late, QUIET, TICK, late, late_by};

/// Makes the monitor scan `scans` times, with `jobs` ended by the pool's threads before each scan.
fn scans(late: &Late, scans: u32, jobs: u64) {
    for _ in 0..scans {
        late.executor.ended(jobs);
        late.steps.tick(TICK);
    }
}

/// Runs one task that may block. Returns `true` if it was lent and not given to the executor.
fn is_lent(late: &Late) -> bool {
    let before = late.strategy.metrics();
    late.add(|| ());
    late.strategy.produce();
    let after = late.strategy.metrics();
    assert_eq!(after.tasks(), before.tasks() + 1);
    after.lent > before.lent
}

#[test]
fn a_task_is_lent_whether_or_not_the_pool_has_a_thread() {
    for threads in [0, 1] {
        let late = late(threads);
        assert!(is_lent(&late) && is_lent(&late));
        scans(&late, 5, 50);
        assert!(is_lent(&late));
        let counts = late.strategy.metrics();
        assert_eq!((counts.lent, counts.pec), (3, 0));
        assert_eq!(late.executor.tried(), 0, "no thread was requested");
        assert_eq!(late.monitor.stand_ins(), 1, "one is in reserve");
    }
}

#[test]
fn a_stuck_task_goes_to_the_next_thread_of_a_busy_pool() {
    let late = late(0);
    scans(&late, 2, 50);
    let (steps, executor, source) = (
        late.steps.clone(),
        late.executor.clone(),
        late.source.clone(),
    );
    late.add(move || {
        for _ in 0..4 {
            executor.ended(50);
            steps.tick(TICK);
        }
        assert_eq!(
            (executor.reserved_jobs(), executor.queued()),
            (0, 1),
            "one is enough"
        );
        assert!(executor.run_queued());
        assert_eq!(source.ran.count(), 2, "the other one ran meanwhile");
    });
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    let counts = late.strategy.metrics();
    assert_eq!(
        (counts.no_pool_thread, counts.late_epc, counts.helpers),
        (1, 1, 1)
    );
    assert!(late.strategy.is_idle());
}

#[test]
fn a_helper_dropped_with_its_queue_is_not_waited_for() {
    let late = late(0);
    scans(&late, 2, 50);
    let (steps, executor) = (late.steps.clone(), late.executor.clone());
    late.add(move || {
        for _ in 0..3 {
            executor.ended(50);
            steps.tick(TICK);
            executor.drop_all();
        }
        executor.ended(50);
        steps.tick(TICK);
        assert!(executor.run_queued(), "it was requested again");
    });
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    assert_eq!(
        (late.strategy.metrics().late_epc, late.source.ran.count()),
        (1, 2)
    );
}

#[test]
fn tasks_given_to_the_pool_without_a_stand_in_keep_the_monitor_awake() {
    let late = late_by(0, Monitor::builder("test").stand_ins(0));
    late.steps.tick(QUIET);
    assert!(late.monitor.is_asleep());
    assert!(!is_lent(&late));
    assert!(!late.monitor.is_asleep(), "it has to see when that ends");
    assert_eq!(late.strategy.metrics().monitor_wakes, 1);
    for _ in 0..10 {
        late.steps.tick(QUIET / 2);
        assert!(!is_lent(&late));
    }
    assert_eq!(
        (late.monitor.sleeps(), late.strategy.metrics().monitor_wakes),
        (1, 1)
    );
    late.steps.tick(QUIET);
    late.steps.tick(QUIET);
    assert!(late.monitor.is_asleep());
}

/// The `finished_jobs` of a real pool: each job that ended before another one began.
#[test]
fn a_pool_reports_how_many_jobs_its_threads_finished() {
    let pool = WorkerPool::builder("workers")
        .core(1)
        .max(1)
        .build()
        .unwrap();
    for _ in 0..=10 {
        pool.submit(|| ()).unwrap().wait().unwrap();
    }
    assert!(pool.finished_jobs() >= 10, "{}", pool.finished_jobs());
    assert!(!pool.free_threads().has_thread() || pool.free_threads().idle == 1);
}

/// A task that adapts is lent like the others. If no stand-in could take over, it runs here with
/// the thread tagged as non-blocking.
#[test]
fn a_task_that_adapts_is_lent_with_a_stand_in_and_tagged_without() {
    for stand_ins in [0, 1] {
        let late = late_by(0, Monitor::builder("test").stand_ins(stand_ins));
        late.source.add(Blocking::Adapts, || ());
        late.strategy.produce();
        let counts = late.strategy.metrics();
        let lent = stand_ins as u64;
        assert_eq!((counts.pic, counts.lent), (1 - lent, lent), "{counts}");
    }
}

#[test]
fn a_producer_that_waits_inside_leases_the_thread_it_keeps() {
    let pool = WorkerPool::builder("workers").max(3).build().unwrap();
    let (inside, gate) = (Gate::new(), Gate::new());
    let (arrived, opened) = (inside.clone(), gate.clone());
    let producer = move || {
        arrived.open();
        opened.wait();
        None
    };
    let waiting = Adaptive::builder(producer, Arc::new(pool.clone()));
    let waiting = waiting.lease("reactor").unwrap().build();
    let threads = |pool: &WorkerPool| {
        let room = pool.free_threads();
        assert_eq!(room.has_thread(), pool.has_thread());
        room.idle + room.may_start
    };
    assert_eq!(
        threads(&pool),
        2,
        "one of three is kept, though none has started"
    );
    waiting.dispatch().unwrap();
    inside.wait();
    assert_eq!(threads(&pool), 2, "and now it is used");
    let metrics = pool.metrics();
    assert_eq!(
        (metrics.leased, metrics.utilized, metrics.threads),
        (1, 0, 1)
    );

    let second = Adaptive::builder(|| None, Arc::new(pool.clone()));
    let second = second.lease("another").unwrap().build();
    assert_eq!(threads(&pool), 1);
    let third = Adaptive::builder(|| None, Arc::new(pool.clone())).lease("a third");
    let error = third.map(drop).unwrap_err();
    assert_eq!(error.leases().len(), 2, "{error}");
    drop(second);
    assert_eq!(threads(&pool), 2);

    gate.open();
    pool.shutdown(std::time::Duration::from_secs(60))
        .wait()
        .unwrap();
    assert!(waiting.is_idle());
}
