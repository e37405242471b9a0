//! The decision of `Adaptive` for each task, with eager hand-over.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_core::Blocking;
use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_pool::strategy::{Adaptive, Strategy};
use tidegate_pool::{Headroom, WorkerPool};
use tidegate_testkit::{Counter, Gate, Log, until};

use super::{Kind, ManualExecutor, Place, Source, Stage, elsewhere};

/// Returns (pc, pic, pec, epc).
fn modes(strategy: &dyn Strategy) -> (u64, u64, u64, u64) {
    let counts = strategy.metrics();
    (counts.pc, counts.pic, counts.pec, counts.epc)
}

#[test]
fn the_table_of_choices() {
    let cases = [
        (Blocking::Never, Place::ReservedWorkers, (1, 0, 0, 0)),
        (Blocking::Never, Place::NoReserve, (1, 0, 0, 0)),
        (Blocking::Never, Place::Tagged, (1, 0, 0, 0)),
        (Blocking::Adapts, Place::ReservedWorkers, (0, 0, 0, 1)),
        (Blocking::Adapts, Place::NoReserve, (0, 1, 0, 0)),
        (Blocking::Adapts, Place::Tagged, (1, 0, 0, 0)),
        (Blocking::May, Place::ReservedWorkers, (0, 0, 0, 1)),
        (Blocking::May, Place::NoReserve, (0, 0, 1, 0)),
        (Blocking::May, Place::Tagged, (0, 0, 1, 0)),
    ];
    for (kind, place, expected) in cases {
        let stage = Stage::new(Kind::Eager, place);
        stage.source.add(kind, || ());
        stage.produce_and_settle();
        let chosen = modes(&*stage.made.strategy);
        assert_eq!(chosen, expected, "{kind:?} at {place:?}");
        assert_eq!(stage.source.ran.count(), 1);
    }
}

/// There are four ways to run a task here. Each one has its own name in a profile and is counted
/// before the task runs. The fifth way gives the task to the executor, which runs it under the
/// executor's name.
#[test]
fn each_way_to_run_a_task_is_counted_first_and_is_a_frame_of_its_own() {
    let late = Kind::Late;
    let cases = [
        (
            Kind::Eager,
            Blocking::Never,
            Place::ReservedWorkers,
            "produce_consume",
        ),
        (
            Kind::Eager,
            Blocking::Adapts,
            Place::NoReserve,
            "produce_invoke_consume",
        ),
        (
            Kind::Eager,
            Blocking::May,
            Place::ReservedWorkers,
            "execute_produce_consume",
        ),
        (
            late,
            Blocking::May,
            Place::ReservedWorkers,
            "late_execute_produce_consume",
        ),
    ];
    for (kind, what, place, name) in cases {
        let stage = Stage::new(kind, place);
        let (strategy, seen) = (stage.strategy(), Log::new());
        let notified = seen.clone();
        stage.source.add(what, move || {
            let frames = std::backtrace::Backtrace::force_capture().to_string();
            notified.push((frames, strategy.metrics().tasks()));
        });
        stage.produce_and_settle();
        let (frames, counted) = seen.take().remove(0);
        assert_eq!(counted, 1, "{stage}");
        for (.., other) in cases {
            assert_eq!(
                has_frame(&frames, other),
                other == name,
                "{other} in {frames}"
            );
        }
    }
}

/// Returns `true` if a printed stack contains a function with exactly this name. Compilers print it
/// with and without its path and its generic arguments.
fn has_frame(stack: &str, function: &str) -> bool {
    let is_part =
        |byte: Option<&u8>| byte.is_some_and(|&byte| byte == b'_' || byte.is_ascii_alphanumeric());
    stack.match_indices(function).any(|(at, _)| {
        let (before, after) = (
            &stack.as_bytes()[..at],
            &stack.as_bytes()[at + function.len()..],
        );
        !is_part(before.last()) && !is_part(after.first())
    })
}

#[test]
fn without_a_thread_an_adapting_task_runs_tagged() {
    let stage = Stage::new(Kind::Eager, Place::NoReserve);
    let (seen, notified) = Log::pair();
    stage
        .source
        .add(Blocking::Adapts, move || notified.push(wait_policy()));
    stage.produce();
    assert_eq!(
        (seen.take(), wait_policy()),
        (vec![WaitPolicy::Tagged], WaitPolicy::Free)
    );
}

#[test]
fn a_thread_is_tried_for_only_when_none_is_on_its_way() {
    let stage = Stage::new(Kind::Eager, Place::ReservedWorkers);
    (0..4).for_each(|_| stage.source.add(Blocking::May, || ()));
    stage.produce();
    assert_eq!(
        (stage.executor.tried(), stage.executor.reserved_jobs()),
        (1, 1)
    );
    assert_eq!(modes(&*stage.made.strategy), (0, 0, 0, 4));
}

#[test]
fn the_tag_is_read_when_a_thread_becomes_the_producer() {
    let stage = Stage::new(Kind::Eager, Place::ReservedWorkers);
    let (executor, source, strategy) = (
        stage.executor.clone(),
        stage.source.clone(),
        stage.strategy(),
    );
    // A tagged task that calls `produce` does not become the producer. The round that it requests
    // is untagged, as the thread was when it started producing.
    stage.source.add(Blocking::Never, move || {
        Blocking::forbid(|| {
            source.add(Blocking::May, || ());
            strategy.produce();
        });
        assert_eq!(executor.tried(), 0);
    });
    stage.produce();
    assert_eq!(modes(&*stage.made.strategy), (1, 0, 0, 1));
    assert!(stage.executor.unhandled.is_empty());
}

#[test]
fn a_helper_that_arrives_meanwhile_goes_on_producing() {
    let stage = Stage::new(Kind::Eager, Place::ReservedWorkers);
    let (here, log) = (thread::current().id(), Log::new());
    let executor = Arc::clone(&stage.executor);
    stage
        .source
        .add(Blocking::May, move || assert!(executor.run_reserved()));
    let notified = log.clone();
    stage.source.add(Blocking::Never, move || {
        notified.push(thread::current().id() == here);
    });
    stage.produce();
    assert_eq!(log.take(), [false]);
    assert!(stage.made.strategy.is_idle());
    assert!(stage.executor.unhandled.is_empty());
}

#[test]
fn a_thread_that_beats_the_helper_goes_on_itself() {
    let stage = Stage::new(Kind::Eager, Place::ReservedWorkers);
    let (here, log) = (thread::current().id(), Log::new());
    stage.source.add(Blocking::May, || ());
    let notified = log.clone();
    stage.source.add(Blocking::Never, move || {
        notified.push(thread::current().id() == here);
    });
    stage.produce();
    assert_eq!(log.take(), [true]);
    stage.executor.settle();
    assert_eq!(stage.made.strategy.metrics().idle_helpers, 1);
}

#[test]
fn an_idle_strategy_dispatches_one_helper_and_a_producing_one_none() {
    let stage = Stage::new(Kind::Eager, Place::ReservedWorkers);
    let strategy = stage.strategy();
    strategy.dispatch().unwrap();
    strategy.dispatch().unwrap();
    assert_eq!(stage.executor.queued(), 1);
    let (source, executor) = (stage.source.clone(), stage.executor.clone());
    stage.source.add(Blocking::Never, move || {
        source.add(Blocking::Never, || ());
        strategy.dispatch().unwrap();
        assert_eq!(executor.queued(), 0, "the producer itself will look again");
    });
    stage.executor.settle();
    assert_eq!(stage.source.ran.count(), 2);
    assert!(stage.executor.unhandled.is_empty());
}

/// The last thread that could produce is the only one of the pool.
#[test]
fn in_a_pool_of_one_the_thread_that_produces_is_not_held_by_a_task() {
    let stage = Stage::new(Kind::Eager, Place::NoReserve);
    only_tagged_tasks_run_on_the_last_thread(&stage);
    let stage = Stage::new(Kind::Late, Place::NoReserve);
    only_tagged_tasks_run_on_the_last_thread(&stage);
}

/// Three threads, all of them blocked by tasks.
#[test]
fn with_every_thread_held_the_thread_that_produces_is_not_held_too() {
    for kind in [Kind::Eager, Kind::Late] {
        let stage = Stage::new(kind, Place::ReservedWorkers);
        stage.executor.set_reserve(0);
        only_tagged_tasks_run_on_the_last_thread(&stage);
    }
}

fn only_tagged_tasks_run_on_the_last_thread(stage: &Stage) {
    let ((gate, opened), log) = (Gate::pair(), Log::new());
    let notified = log.clone();
    // The task waits for the third task: if no thread took over, it would never end.
    let steps = stage.made.steps.clone();
    stage.source.add(Blocking::May, move || {
        for steps in std::iter::repeat_n(steps.iter(), 2).flatten() {
            steps.tick(Duration::from_micros(60));
        }
        opened.wait();
        notified.push(("may", wait_policy()));
    });
    let notified = log.clone();
    stage.source.add(Blocking::Adapts, move || {
        notified.push(("adapts", wait_policy()))
    });
    stage.source.add(Blocking::Never, gate.opens());
    stage.produce_and_settle();
    let expected = [("adapts", WaitPolicy::Tagged), ("may", WaitPolicy::Free)];
    assert_eq!(log.take(), expected, "{stage}");
    assert!(stage.executor.unhandled.is_empty(), "{stage}");
}

#[test]
fn a_helper_that_waits_in_a_queue_is_no_thread_to_be_had() {
    // Not even if the executor counts a thread as available: another strategy may count the same
    // one.
    for may_start in [0, 1] {
        let stage = Stage::new(Kind::Eager, Place::NoReserve);
        stage.executor.set_may_start(may_start);
        stage.made.strategy.dispatch().unwrap();
        stage.source.add(Blocking::May, || ());
        stage.produce();
        assert_eq!(stage.source.ran.count(), 0, "given away: {stage}");
        assert_eq!(stage.made.strategy.metrics().pec, 1);
        stage.executor.settle();
        assert_eq!(stage.source.ran.count(), 1);
        assert!(stage.made.strategy.is_idle());
    }
    let stage = Stage::new(Kind::Eager, Place::ReservedWorkers);
    stage.made.strategy.dispatch().unwrap();
    (0..2).for_each(|_| stage.source.add(Blocking::May, || ()));
    stage.produce();
    assert_eq!(modes(&*stage.made.strategy), (0, 0, 0, 2), "{stage}");
    assert_eq!(stage.executor.tried(), 1, "a thread has the second helper");
}

#[test]
fn an_inner_strategy_in_an_adapting_task_never_holds_the_outer_producer() {
    let outer = Stage::new(Kind::Eager, Place::NoReserve);
    let (executor, inner_source, log) = (ManualExecutor::new(3), Source::new(), Log::new());
    let inner = Adaptive::new(inner_source.producer(), executor.clone());
    for kind in [Blocking::May, Blocking::Adapts, Blocking::Never] {
        let log = log.clone();
        inner_source.add(kind, move || log.push((kind, wait_policy())));
    }
    let driven = inner.clone();
    outer.source.add(Blocking::Adapts, move || driven.produce());
    outer.produce();
    // Tagged by the outer strategy, the inner one has many threads available and uses none of them
    // here.
    assert_eq!(modes(&inner), (2, 0, 1, 0));
    executor.settle();
    let expected = [
        (Blocking::Adapts, WaitPolicy::Tagged),
        (Blocking::Never, WaitPolicy::Tagged),
        (Blocking::May, WaitPolicy::Free),
    ];
    assert_eq!(log.take(), expected);
}

#[test]
fn a_thread_that_was_refused_takes_production_back_or_leaves_it() {
    // Another thread calls `produce` while this thread has lent the producer and finds no helper.
    // In either case the task runs once and production continues.
    let stage = Stage::new(Kind::Eager, Place::NoReserve);
    let (source, strategy) = (stage.source.clone(), stage.strategy());
    stage.source.add(Blocking::Adapts, move || {
        source.add(Blocking::May, || ());
        elsewhere(|| strategy.produce());
    });
    stage.produce_and_settle();
    assert_eq!(stage.source.ran.count(), 2);
    assert_eq!(modes(&*stage.made.strategy), (0, 1, 1, 0));
}

#[test]
fn a_pool_says_cheaply_what_its_room_says() {
    let pool = WorkerPool::builder("workers")
        .core(2)
        .max(2)
        .reserved(1)
        .build()
        .unwrap();
    let agree = |expected: bool| {
        assert_eq!(pool.free_threads().has_thread(), expected);
        assert_eq!(pool.has_thread(), expected);
    };
    agree(true); // a thread may start
    let (gate, arrived) = (Gate::new(), Counter::new());
    let hold = || {
        let (gate, arrived) = (gate.clone(), arrived.clone());
        pool.execute(move || {
            arrived.hit();
            gate.wait();
        })
        .unwrap();
    };
    (0..2).for_each(|_| hold());
    arrived.wait_for(2);
    agree(false); // all threads are blocked
    hold();
    agree(false); // and one job is queued
    gate.open();
    until("the pool is idle", || {
        pool.metrics().busy + pool.metrics().queued == 0
    });
    agree(true); // idle or reserved
    pool.shutdown(std::time::Duration::from_secs(5))
        .wait()
        .unwrap();
    agree(false); // stopped
}

#[test]
fn a_pool_that_is_full_of_jobs_still_takes_a_helper() {
    let pool = WorkerPool::builder("workers")
        .core(1)
        .max(1)
        .queue(1)
        .build()
        .unwrap();
    let gate = Gate::new();
    let arrived = Counter::new();
    let (held, here) = (gate.clone(), arrived.clone());
    pool.execute(move || {
        here.hit();
        held.wait();
    })
    .unwrap();
    arrived.wait_for(1);
    pool.execute(|| ()).unwrap();
    assert!(pool.execute(|| ()).is_err(), "full");
    let source = Source::new();
    source.add(Blocking::Never, || ());
    let strategy = Adaptive::new(source.producer(), Arc::new(pool.clone()));
    strategy.dispatch().unwrap();
    gate.open();
    source.ran.wait_for(1);
}
