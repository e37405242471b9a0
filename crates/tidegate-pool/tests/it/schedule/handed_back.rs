//! Scheduled tasks that were due when their pool ended: taken from the pool or from the view, once
//! each, run elsewhere, cancelled, or dropped.

use std::time::Duration;

use tidegate_core::{ManualClock, RejectReason, Task};
use tidegate_pool::{NotStartedError, OrderedView, WorkerPool};
use tidegate_testkit::{Counter, Gate, Log, until};

use super::{fixed, hold, view_of};
use crate::SECOND;

/// Keeps both threads of the pool busy until the gates are opened.
fn hold_all(pool: &WorkerPool) -> [Gate; 2] {
    [hold(pool), hold(pool)]
}

/// A pool whose threads are held, and a view of it with three tasks that wait: two of them were
/// scheduled.
fn waiting(
    log: &Log<u32>,
) -> (
    WorkerPool,
    OrderedView,
    [Gate; 2],
    [tidegate_promise::Completion<u32>; 2],
) {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).build().unwrap();
    let view = view_of(&pool);
    let gate = hold_all(&pool);
    let notes = |n| {
        let log = log.clone();
        move || {
            log.push(n);
            n
        }
    };
    let first = notes(0);
    view.execute(move || {
        first();
    })
    .unwrap();
    let scheduled = [1, 2].map(|n| view.schedule(SECOND * n, notes(n)).unwrap());
    for left in [2, 3] {
        clock.jump(SECOND);
        until("it is queued", || view.pending_tasks() == left);
    }
    (pool, view, gate, scheduled)
}

#[test]
fn the_turn_of_a_view_that_is_taken_runs_the_tasks_of_the_view_in_order() {
    let log = Log::new();
    let (pool, view, gate, scheduled) = waiting(&log);
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    let _ = pool.dump().to_string();
    assert_eq!(report.handed_back.len(), 1, "the turn of the view");
    assert!(view.handed_back().is_empty());
    assert_eq!(view.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
    pool.handed_back().take().into_iter().for_each(Task::run);
    assert_eq!(log.take(), [0, 1, 2]);
    for (completion, n) in scheduled.into_iter().zip([1, 2]) {
        assert_eq!(completion.wait().unwrap(), n);
    }
    gate.iter().for_each(Gate::open);
}

#[test]
fn the_turn_of_a_view_that_is_dropped_hands_the_tasks_back_to_the_view() {
    let log = Log::new();
    let (pool, view, gate, scheduled) = waiting(&log);
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    drop(report.handed_back.take());
    let left = view.handed_back();
    until("the view has them", || left.len() == 3);
    // One of them is cancelled before another thread runs it.
    let [first, second] = scheduled;
    assert!(first.cancel());
    left.take().into_iter().for_each(Task::run);
    assert_eq!(log.take(), [0, 2]);
    assert_eq!(second.wait().unwrap(), 2);
    assert!(left.is_empty() && view.handed_back().is_empty());
    gate.iter().for_each(Gate::open);
}

#[test]
fn the_completions_of_tasks_that_are_not_taken_fail() {
    for takes in [true, false] {
        let log = Log::new();
        let (pool, view, gate, scheduled) = waiting(&log);
        let report = pool.shutdown(Duration::ZERO).wait().unwrap();
        if takes {
            drop(report.handed_back.take());
        }
        gate.iter().for_each(Gate::open);
        drop((report, pool, view));
        for completion in scheduled {
            let why = completion.wait().unwrap_err().failure().unwrap();
            assert!(why.downcast_ref::<NotStartedError>().is_some(), "{why}");
        }
        assert!(log.is_empty());
    }
}

#[test]
fn each_task_is_taken_once_by_threads_that_race_for_it() {
    for _ in 0..20 {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 1, 64).build().unwrap();
        let gate = hold(&pool);
        let ran = Counter::new();
        let completions: Vec<_> = (0..40)
            .map(|n| {
                let after = SECOND * (n % 4);
                pool.schedule(after, ran.hits()).unwrap()
            })
            .collect();
        clock.jump(SECOND);
        until("those that are due are queued", || {
            pool.metrics().queued == 20
        });
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (pool, ran, clock) = (&pool, &ran, &clock);
                scope.spawn(move || {
                    let report = match thread {
                        0 => Some(pool.shutdown(Duration::ZERO)),
                        1 => {
                            clock.jump(SECOND);
                            None
                        }
                        _ => None,
                    };
                    let _ = pool.dump().to_string();
                    pool.handed_back().take().into_iter().for_each(Task::run);
                    if let Some(report) = report {
                        let report = report.wait().unwrap();
                        report.handed_back.take().into_iter().for_each(Task::run);
                    }
                    let _ = ran.count();
                });
            }
        });
        until("the rest is taken", || {
            pool.handed_back().take().into_iter().for_each(Task::run);
            completions
                .iter()
                .all(tidegate_promise::Completion::is_done)
        });
        gate.open();
        let ends = completions.into_iter().map(|one| one.wait());
        let good = ends.filter(Result::is_ok).count() as u64;
        assert_eq!(ran.count(), good);
        assert!((20..=40).contains(&good), "{good}");
    }
}

#[test]
fn a_periodic_task_of_a_view_that_is_taken_runs_once_more() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).build().unwrap();
    let view = view_of(&pool);
    let gate = hold_all(&pool);
    let ran = Counter::new();
    let ticks = view.schedule_at_fixed_rate(SECOND, SECOND, ran.hits());
    let ticks = ticks.unwrap();
    clock.jump(SECOND);
    until("it is queued", || view.pending_tasks() == 1);
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    report.handed_back.take().into_iter().for_each(Task::run);
    clock.jump(SECOND * 5);
    until("its completion has ended", || ticks.is_done());
    assert!(ticks.is_cancelled());
    assert_eq!(ran.count(), 1);
    gate.iter().for_each(Gate::open);
}

#[test]
fn a_scheduled_task_may_end_its_pool_and_drop_the_last_handle() {
    for over_a_view in [false, true] {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 2, 8).build().unwrap();
        let view = view_of(&pool);
        let (ended, ran) = (pool.termination(), Counter::new());
        let runs = ran.clone();
        let mine = (pool.clone(), view.clone());
        let ends = move || {
            runs.hit();
            let _ = mine.0.dump().to_string();
            // Later than the test moves the clock.
            let after = mine.0.schedule(Duration::MAX, || ()).unwrap();
            drop(mine.0.shutdown(SECOND * 60));
            assert!(mine.0.schedule(SECOND, || ()).is_err());
            drop(mine);
            after
        };
        let after = match over_a_view {
            true => view.schedule(SECOND, ends).unwrap(),
            false => pool.schedule(SECOND, ends).unwrap(),
        };
        drop((pool, view));
        until("it has run", || {
            clock.jump(SECOND);
            ran.count() == 1
        });
        let after = after.wait().unwrap();
        until("what it scheduled has ended", || after.is_done());
        assert!(after.is_cancelled());
        let report = ended.wait().unwrap();
        assert!(report.stuck.is_empty() && report.handed_back.is_empty());
    }
}
