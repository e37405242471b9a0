//! A pool that queues first: computations of free threads rely on its core threads, and on no more.

use tidegate_core::{Executor, ManualClock, Task};
use tidegate_pool::{Growth, Headroom, PoolLimits, WorkerPool};
use tidegate_testkit::{Counter, Gate};

use super::{builder, held, hold, release};

fn queue_first(clock: &ManualClock, core: usize, max: usize, queue: usize) -> WorkerPool {
    let builder = builder(clock).core(core).max(max).queue(queue).reserved(0);
    builder.growth(Growth::QueueFirst).build().unwrap()
}

#[test]
fn a_job_that_submits_a_job_and_waits_for_it_is_refused() {
    let clock = ManualClock::new();
    let pool = queue_first(&clock, 1, 4, 8);
    let handle = pool.clone();
    let (refused, notified) = (Gate::new(), Counter::new());
    let (open, hit) = (refused.clone(), notified.hits());
    pool.execute(move || {
        let inner = handle.submit(|| 7).unwrap();
        if inner.wait().is_err_and(|error| error.is_refused()) {
            open.open();
        }
        hit();
    })
    .unwrap();
    notified.wait_for(1);
    assert!(refused.is_open());
}

#[test]
fn the_width_is_what_jobs_can_count_on() {
    let clock = ManualClock::new();
    let pool = queue_first(&clock, 2, 8, 8);
    assert_eq!(pool.width(), 2);
    let lease = pool.lease("selectors", 3).unwrap();
    assert_eq!(pool.width(), 2, "leased threads come on top of the core");
    drop(lease);
    let lease = pool.lease("selectors", 7).unwrap();
    assert_eq!(pool.width(), 1, "but not of the maximum");
    drop(lease);
    let limits = |queue, growth| PoolLimits {
        queue,
        growth,
        ..pool.limits()
    };
    pool.resize(limits(0, Growth::QueueFirst)).unwrap();
    assert_eq!(pool.width(), 8, "without a queue it grows at once");
    pool.resize(limits(8, Growth::ThreadsFirst)).unwrap();
    assert_eq!(pool.width(), 8);
    assert_eq!(queue_first(&clock, 0, 8, 8).width(), 1);
}

#[test]
fn a_task_of_the_runtime_gets_a_thread_beyond_the_core() {
    let clock = ManualClock::new();
    let pool = queue_first(&clock, 1, 2, 8);
    let mut gates = vec![hold(&pool)];
    assert!(pool.has_thread());
    let (task, arrived, go_on) = held("helper");
    pool.execute_internal(task).unwrap();
    arrived.wait();
    gates.push(go_on);
    // The next task has to wait, and no thread is available for it.
    pool.execute_internal(Task::new(|| ())).unwrap();
    assert_eq!(pool.metrics().queued_internal, 1);
    assert!(!pool.has_thread());
    release(&clock, gates);
}

#[test]
fn jobs_run_though_a_lessee_keeps_as_many_threads_as_the_core_has() {
    let clock = ManualClock::new();
    let pool = queue_first(&clock, 1, 4, 8);
    let lease = pool.lease("selectors", 2).unwrap();
    let mut gates = Vec::new();
    for _ in 0..2 {
        let (task, arrived, go_on) = held("selector");
        pool.execute_internal(task).unwrap();
        arrived.wait();
        gates.push(go_on);
    }
    let ran = Counter::new();
    pool.execute(ran.hits()).unwrap();
    ran.wait_for(1);
    release(&clock, gates);
    drop(lease);
}
