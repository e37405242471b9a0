//! An event loop together with `tidegate-pool` in one program: pools that queue first, full pools,
//! ordered views and the immediate executor.

use std::sync::Arc;
use std::thread;

use tidegate_core::{Executor, ManualClock, RejectReason, Task, ThreadBuilder};
use tidegate_loop::{EventLoop, EventLoopGroup, RoamingConfig};
use tidegate_pool::strategy::ProduceExecuteConsume;
use tidegate_pool::{
    Growth, ImmediateExecutor, OrderedView, OrderedViewError, PoolPolicy, WorkerPool,
};
use tidegate_promise::promise_on;
use tidegate_testkit::{Counter, Gate, Log, Stop, until};

use crate::strategies::Kind;
use crate::{SECOND, on};

/// Returns a pool with one core thread that queues `queue` jobs before it grows to `max`.
fn queue_first(clock: &ManualClock, max: usize, queue: usize) -> WorkerPool {
    let builder = WorkerPool::builder("workers").clock(clock);
    let builder = builder.core(1).max(max).queue(queue).reserved(0);
    builder.growth(Growth::QueueFirst).build().unwrap()
}

/// Returns a pool of one thread and one queue slot. If the queue is full, the caller runs the job.
fn tight(clock: &ManualClock) -> WorkerPool {
    let builder = WorkerPool::builder("workers").clock(clock);
    let builder = builder.core(1).max(1).queue(1).reserved(0);
    builder.policy(PoolPolicy::CallerRuns).build().unwrap()
}

/// Keeps one thread of the pool busy until the gate is opened.
fn hold_thread(pool: &WorkerPool) -> Gate {
    let stop = Stop::new();
    pool.execute(stop.closure()).unwrap();
    stop.reached()
}

#[test]
fn a_job_that_waits_for_a_promise_without_a_home_does_not_hold_the_clock() {
    let clock = ManualClock::new();
    let pool = queue_first(&clock, 4, 0);
    let (promise, answer) = tidegate_promise::promise::<u32>();
    let (_never, mut late) = tidegate_promise::promise::<u32>();
    let waits = pool.submit(move || answer.wait()).unwrap();
    let times_out = pool.submit(move || late.wait_timeout(SECOND)).unwrap();
    let (moved, moves) = Gate::pair();
    let thread = ThreadBuilder::new("clock").detached().spawn(move || {
        clock.advance(SECOND);
        moves.open();
    });
    moved.wait();
    drop(thread);
    assert!(times_out.wait().unwrap().unwrap_err().is_timeout());
    promise.succeed(7).unwrap();
    assert_eq!(waits.wait().unwrap().unwrap(), 7);
}

#[test]
fn a_wait_for_an_end_is_timed_by_the_clock_of_what_ends() {
    let clock = ManualClock::new();
    let home = on(&clock, "home");
    let group = EventLoopGroup::builder("group").loops(1).clock(&clock);
    let (group, pool) = (group.build().unwrap(), queue_first(&clock, 4, 0));
    let before = clock.sleepers();
    thread::scope(|scope| {
        let ends = [
            scope.spawn(|| home.termination().wait_timeout(SECOND).is_err()),
            scope.spawn(|| group.termination().wait_timeout(SECOND).is_err()),
            scope.spawn(|| pool.termination().wait_timeout(SECOND).is_err()),
        ];
        until("all wait on the clock", || clock.sleepers() == before + 3);
        clock.jump(SECOND);
        assert!(ends.into_iter().all(|end| end.join().unwrap()));
    });
}

#[test]
fn a_roaming_loop_starts_over_a_busy_core_thread() {
    let clock = ManualClock::new();
    let pool = Arc::new(queue_first(&clock, 4, 8));
    let gate = hold_thread(&pool);
    let config = RoamingConfig::new(Arc::clone(&pool) as _);
    let home = EventLoop::builder("home").clock(&clock);
    let home = home.build_roaming(&config).unwrap();
    let ran = Counter::new();
    // A task that may block would become a job of the pool and wait for the busy core thread.
    let task = Task::non_blocking(ran.hits());
    Executor::execute(&home, task).unwrap();
    ran.wait_for(1);
    gate.open();
}

#[test]
fn a_loop_that_only_produces_starts_over_a_busy_core_thread() {
    let clock = ManualClock::new();
    let pool = Arc::new(queue_first(&clock, 4, 8));
    let gate = hold_thread(&pool);
    let config = RoamingConfig::new(Arc::clone(&pool) as _)
        .strategy(|producer, pool| ProduceExecuteConsume::new(producer, pool));
    let home = EventLoop::builder("home").clock(&clock);
    let home = home.build_roaming(&config).unwrap();
    let ran = Counter::new();
    Executor::execute(&home, Task::non_blocking(ran.hits())).unwrap();
    ran.wait_for(1);
    gate.open();
}

#[test]
fn a_full_queue_does_not_keep_a_loop_that_only_produces_from_starting() {
    let clock = ManualClock::new();
    let pool = Arc::new(queue_first(&clock, 3, 1));
    let config = RoamingConfig::new(Arc::clone(&pool) as _)
        .strategy(|producer, pool| ProduceExecuteConsume::new(producer, pool));
    let home = EventLoop::builder("home").clock(&clock);
    let home = home.build_roaming(&config).unwrap();
    let gate = Gate::new();
    let busy = || pool.execute(gate.waits());
    while busy().is_ok() {}
    let ran = Counter::new();
    Executor::execute(&home, Task::non_blocking(ran.hits())).unwrap();
    gate.open();
    ran.wait_for(1);
}

/// The helper that takes the loop over is not a job of the user. If the full pool ran it on the
/// submitting thread, it would wait inside the loop, and the task would never run.
#[test]
fn caller_runs_does_not_run_the_helper_of_a_loop() {
    for kind in [Kind::Epc, Kind::Ewyk, Kind::Eager, Kind::Late] {
        let pool = WorkerPool::builder("workers").core(2).max(2).queue(1);
        let pool = pool.policy(PoolPolicy::CallerRuns).reserved(0).build();
        let pool = Arc::new(pool.unwrap());
        let config = kind.config(Arc::clone(&pool) as _);
        let home = EventLoop::builder("home").build_roaming(&config).unwrap();
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
        let gate = hold_thread(&pool);
        let ran = Counter::new();
        pool.execute(ran.hits()).unwrap();
        assert_eq!(home.submit(|| 8).unwrap().wait().unwrap(), 8, "{kind:?}");
        gate.open();
        ran.wait_for(1);
    }
}

#[test]
fn caller_runs_does_not_block_a_loop() {
    let clock = ManualClock::new();
    let pool = tight(&clock);
    let gate = hold_thread(&pool);
    pool.execute(|| ()).unwrap();
    let (home, handle): (EventLoop, _) = (on(&clock, "home"), pool.clone());
    let answer = home.submit(move || {
        let may = handle.execute(|| ()).unwrap_err().why();
        let never = handle.execute_task(Task::non_blocking(|| ())).is_ok();
        (may, never)
    });
    assert_eq!(answer.unwrap().wait().unwrap(), (RejectReason::Full, true));
    gate.open();
    clock.settle();
}

#[test]
fn an_ordered_view_over_a_loop_is_refused() {
    let home = EventLoop::builder("home").build().unwrap();
    let refused = OrderedView::over(home.executor()).unwrap_err();
    assert!(matches!(&refused, OrderedViewError::Ordered { executor } if executor == "home"));
    assert_eq!(
        refused.to_string(),
        "home already runs its tasks in order; use it without a view"
    );
}

#[test]
fn a_loops_thread_stays_a_loops_thread() {
    let home = EventLoop::builder("home").build().unwrap();
    let here = ImmediateExecutor::new();
    let refused = home.submit(move || {
        let (log, seen) = Log::pair();
        let (_promise, answer) =
            promise_on::<u32, tidegate_promise::Failure>(Arc::new(here.clone()));
        here.execute(move || seen.push(answer.wait().is_err()));
        log.take()
    });
    assert_eq!(refused.unwrap().wait().unwrap(), [true]);
}
