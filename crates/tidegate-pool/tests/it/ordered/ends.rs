//! A view whose pool ends: it refuses what the pool refuses, and what it has accepted runs or is
//! handed back, once.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::{Executor, ManualClock, RejectReason, Task};
use tidegate_pool::{NotStartedError, OrderedView, WorkerPool};
use tidegate_promise::Outcome;
use tidegate_testkit::{Counter, DropCount, Gate, Log, Stop, model, until};

use crate::SECOND;

fn pool_and_view(threads: usize, clock: &ManualClock) -> (WorkerPool, OrderedView) {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    let pool = pool.queue(64).reserved(0).clock(clock).build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    (pool, view)
}

/// Keeps a thread busy until the returned gate is opened.
fn hold(execute: impl FnOnce(Task)) -> Gate {
    let stop = Stop::new();
    execute(Task::new(stop.closure()));
    stop.reached()
}

pub(super) fn hold_pool(pool: &WorkerPool) -> Gate {
    hold(|task| pool.execute_task(task).unwrap())
}

pub(super) fn hold_view(view: &OrderedView) -> Gate {
    hold(|task| view.execute(|| task.run()).unwrap())
}

fn refusal(view: &OrderedView) -> RejectReason {
    view.execute(|| panic!("never runs")).unwrap_err().why()
}

#[test]
fn a_shutdown_of_the_pool_closes_its_views_at_once() {
    for in_turn in [true, false] {
        let clock = ManualClock::new();
        let (pool, view) = pool_and_view(2, &clock);
        let idle = OrderedView::over(Arc::new(pool.clone())).unwrap();
        let gates = match in_turn {
            true => vec![hold_view(&view)],
            false => vec![hold_pool(&pool), hold_pool(&pool)],
        };
        let log = Log::new();
        for number in 0..3 {
            view.execute(log.pushes(number)).unwrap();
        }
        let ended = pool.shutdown(SECOND * 60);
        for view in [&view, &idle] {
            assert_eq!(refusal(view), RejectReason::Closed);
            assert!(view.schedule(SECOND, || ()).is_err());
        }
        let late = OrderedView::over(Arc::new(pool.clone())).unwrap();
        assert_eq!(refusal(&late), RejectReason::Closed);
        gates.iter().for_each(Gate::open);
        assert!(ended.wait().unwrap().handed_back.is_empty());
        assert_eq!(log.take(), [0, 1, 2], "what was accepted has run");
        assert_eq!(refusal(&view), RejectReason::Closed);
    }
}

#[test]
fn a_view_refuses_while_its_turn_lies_in_the_report() {
    let clock = ManualClock::new();
    let (pool, view) = pool_and_view(2, &clock);
    let gates = [hold_pool(&pool), hold_pool(&pool)];
    let runs = Counter::new();
    view.execute(runs.hits()).unwrap();
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    for _ in 0..3 {
        assert_eq!(refusal(&view), RejectReason::Closed);
    }
    assert_eq!((view.pending_tasks(), report.handed_back.len()), (1, 1));
    report.handed_back.take().into_iter().for_each(Task::run);
    assert_eq!((runs.count(), view.pending_tasks()), (1, 0));
    assert_eq!(refusal(&view), RejectReason::Closed);
    assert!(view.handed_back().is_empty());
    gates.iter().for_each(Gate::open);
}

#[test]
fn a_turn_that_runs_when_the_pool_ends_hands_the_rest_back() {
    let clock = ManualClock::new();
    let (pool, view) = pool_and_view(2, &clock);
    let gate = hold_view(&view);
    let log = Log::new();
    for number in 0..3 {
        view.execute(log.pushes(number)).unwrap();
    }
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!((report.stuck.len(), report.handed_back.len()), (1, 0));
    gate.open();
    let left = view.handed_back();
    until("the view has the rest", || left.len() == 3);
    until("its pool has it, too", || report.handed_back.len() == 3);
    assert!(log.is_empty(), "nothing begins after the end");
    report.handed_back.take().into_iter().for_each(Task::run);
    assert_eq!(log.take(), [0, 1, 2]);
    assert!(left.is_empty() && pool.handed_back().is_empty());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A view with a scheduled task that is due and waits, behind a running one of the view or of the
/// pool.
fn with_due_task(
    in_turn: bool,
) -> (
    WorkerPool,
    OrderedView,
    Vec<Gate>,
    tidegate_promise::Completion<u32>,
) {
    let clock = ManualClock::new();
    let (pool, view) = pool_and_view(2, &clock);
    let gates = match in_turn {
        true => vec![hold_view(&view)],
        false => vec![hold_pool(&pool), hold_pool(&pool)],
    };
    let due = view.schedule(SECOND, || 7).unwrap();
    clock.jump(SECOND);
    until("it is queued", || view.pending_tasks() == 1);
    (pool, view, gates, due)
}

#[test]
fn a_future_that_waits_for_a_task_of_the_view_is_woken_by_the_end() {
    for in_turn in [true, false] {
        let (pool, view, gates, due) = with_due_task(in_turn);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let (mut due, mut context) = (pin!(due.into_future()), Context::from_waker(&waker));
        assert!(due.as_mut().poll(&mut context).is_pending());
        let report = pool.shutdown(Duration::ZERO).wait().unwrap();
        until("it is woken", || wakes.0.load(Ordering::SeqCst) > 0);
        let Poll::Ready(Err(why)) = due.as_mut().poll(&mut context) else {
            panic!("the end of the pool did not fail it");
        };
        let why = why.failure().unwrap();
        assert!(why.downcast_ref::<NotStartedError>().is_some(), "{why}");
        drop((report, view));
        gates.iter().for_each(Gate::open);
    }
}

#[test]
fn a_thread_that_waits_for_a_task_of_the_view_hears_of_the_end() {
    for in_turn in [true, false] {
        for _ in 0..20 {
            let (pool, view, gates, due) = with_due_task(in_turn);
            let why = std::thread::scope(|scope| {
                let waiter = scope.spawn(move || due.wait().unwrap_err().failure().unwrap());
                pool.shutdown(Duration::ZERO);
                waiter.join().unwrap()
            });
            assert!(why.downcast_ref::<NotStartedError>().is_some(), "{why}");
            drop(view);
            gates.iter().for_each(Gate::open);
        }
    }
}

#[test]
fn tasks_of_a_dropped_turn_fail_their_waiters_until_they_are_taken() {
    let (pool, view, gates, due) = with_due_task(false);
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    let turn = report.handed_back.take();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let (mut due, mut context) = (pin!(due.into_future()), Context::from_waker(&waker));
    assert!(
        due.as_mut().poll(&mut context).is_pending(),
        "it may still run"
    );
    drop(turn);
    until("it is woken", || wakes.0.load(Ordering::SeqCst) > 0);
    let Poll::Ready(Err(why)) = due.as_mut().poll(&mut context) else {
        panic!("the drop of the turn did not fail it");
    };
    assert!(
        why.failure()
            .unwrap()
            .downcast_ref::<NotStartedError>()
            .is_some()
    );
    assert_eq!(view.handed_back().take().len(), 1);
    gates.iter().for_each(Gate::open);
}

#[test]
fn a_turn_that_nobody_takes_ends_with_the_last_handle() {
    for keeps_report in [true, false] {
        let clock = ManualClock::new();
        let (pool, view) = pool_and_view(2, &clock);
        let gates = [hold_pool(&pool), hold_pool(&pool)];
        let (drops, log) = (Counter::new(), Log::new());
        let held = [(); 2].map(|()| DropCount::new(&drops));
        let [first, second] = held;
        view.execute(move || drop(first)).unwrap();
        let due = view.schedule(SECOND, move || drop(second)).unwrap();
        clock.jump(SECOND);
        until("it is queued", || view.pending_tasks() == 2);
        let heard = log.clone();
        due.finally(move |outcome| match outcome {
            Outcome::Failure(why) => {
                heard.push(why.downcast_ref::<NotStartedError>().is_some());
            }
            _ => heard.push(false),
        });
        let report = pool.shutdown(Duration::ZERO).wait().unwrap();
        let report = keeps_report.then_some(report);
        drop((pool, view));
        assert!(!keeps_report || drops.count() == 0, "a report keeps them");
        drop(report);
        drops.wait_for(2);
        log.wait_for(1);
        assert_eq!(log.take(), [true]);
        gates.iter().for_each(Gate::open);
    }
}

#[test]
fn a_task_that_holds_its_view_ends_with_the_pool_and_the_report() {
    for (in_turn, keeps_view) in [(false, true), (false, false), (true, true), (true, false)] {
        let clock = ManualClock::new();
        let (pool, view) = pool_and_view(2, &clock);
        let gates = match in_turn {
            true => vec![hold_view(&view)],
            false => vec![hold_pool(&pool), hold_pool(&pool)],
        };
        let (drops, own) = (Counter::new(), view.clone());
        let held = DropCount::new(&drops);
        view.execute(move || drop((own, held))).unwrap();
        let view = keeps_view.then_some(view);
        let report = pool.shutdown(Duration::ZERO).wait().unwrap();
        gates.iter().for_each(Gate::open);
        until("it is handed back", || report.handed_back.len() == 1);
        drop(pool);
        assert_eq!(drops.count(), 0, "the report keeps it");
        drop(report);
        drops.wait_for(1);
        assert!(view.is_none_or(|view| view.handed_back().is_empty()));
    }
}

#[test]
fn what_a_view_accepts_while_its_pool_ends_runs_or_is_handed_back_once() {
    model(0..24, |rng| {
        let clock = ManualClock::new();
        let (pool, view) = pool_and_view(2, &clock);
        let (held, patient) = (rng.chance(0.5), rng.chance(0.3));
        let gates: Vec<_> = (0..2).filter(|_| held).map(|_| hold_pool(&pool)).collect();
        let (ran, go) = (Log::new(), Gate::new());
        let accepted: Vec<_> = std::thread::scope(|scope| {
            let producers = [0, 1].map(|producer| {
                let (view, ran, go) = (&view, &ran, &go);
                scope.spawn(move || {
                    go.wait();
                    let mut accepted = 0;
                    for _ in 0..400 {
                        let run = ran.pushes((producer, accepted));
                        match view.execute(run) {
                            Ok(()) => accepted += 1,
                            Err(refused) if refused.is_shutdown() => break,
                            Err(_) => {}
                        }
                    }
                    accepted
                })
            });
            go.open();
            let timeout = if patient { SECOND * 60 } else { Duration::ZERO };
            let ended = pool.shutdown(timeout);
            assert_eq!(refusal(&view), RejectReason::Closed);
            gates.iter().for_each(Gate::open);
            ended.wait().unwrap();
            producers.map(|producer| producer.join().unwrap()).into()
        });
        let total = accepted.iter().sum::<usize>();
        until("each has run once", || {
            pool.handed_back().take().into_iter().for_each(Task::run);
            view.handed_back().take().into_iter().for_each(Task::run);
            ran.len() == total
        });
        let ran = ran.take();
        for (producer, accepted) in accepted.into_iter().enumerate() {
            let of_one = ran.iter().filter(|(one, _)| *one == producer);
            assert!(of_one.map(|(_, number)| *number).eq(0..accepted));
        }
        assert_eq!(view.pending_tasks(), 0);
    });
}

/// The last thread of a pool that ended while a job was stuck reports once more.
#[test]
fn a_late_end_of_the_last_thread_does_not_fail_the_tasks_of_a_turn_that_was_taken() {
    let clock = ManualClock::new();
    let (pool, view) = pool_and_view(2, &clock);
    let gates = [hold_pool(&pool), hold_pool(&pool)];
    let stop = Stop::new();
    let first = stop.closure();
    view.execute(first).unwrap();
    let due = view.schedule(SECOND, || 7).unwrap();
    clock.jump(SECOND);
    until("it is queued", || view.pending_tasks() == 2);
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!(report.stuck.len(), 2);
    std::thread::scope(|scope| {
        scope.spawn(|| report.handed_back.take().into_iter().for_each(Task::run));
        stop.reached();
        gates.iter().for_each(Gate::open);
        until("the threads have ended", || pool.metrics().threads == 0);
        assert!(!view.has_abandoned_tasks(), "its tasks will run");
        let waiter = scope.spawn(move || due.wait());
        stop.go_on();
        assert_eq!(waiter.join().unwrap().unwrap(), 7);
    });
    assert!(view.handed_back().is_empty());
}

/// The end of the pool comes between two turns, while the next turn is refused.
#[test]
fn a_view_that_goes_on_in_a_closed_pool_stops_at_the_end() {
    let clock = ManualClock::new();
    let pool = WorkerPool::builder("workers").core(2).max(2).queue(64);
    let pool = pool.reserved(0).clock(&clock).build().unwrap();
    let view = OrderedView::builder(Arc::new(pool.clone()));
    let view = view.max_tasks_per_turn(1).build().unwrap();
    let go_on = hold_view(&view);
    let ran = Counter::new();
    let (gate, ends) = (Gate::new(), pool.clone());
    let (here, stop) = (gate.clone(), ran.clone());
    view.execute(move || {
        stop.hit();
        drop(ends.shutdown(Duration::ZERO));
        here.open();
    })
    .unwrap();
    for _ in 0..3 {
        view.execute(ran.hits()).unwrap();
    }
    drop(pool.shutdown(SECOND * 60)); // from now on, each further turn is refused
    go_on.open();
    gate.wait();
    until("the rest is handed back", || view.handed_back().len() == 3);
    assert_eq!((ran.count(), view.pending_tasks()), (1, 0));
    pool.termination().wait().unwrap();
}

/// The turn that runs at the end may stop before the timer has cancelled what was not due.
#[test]
fn waiters_for_tasks_that_were_not_due_hear_of_the_cancellation() {
    for _ in 0..100 {
        let clock = ManualClock::new();
        let (pool, view) = pool_and_view(2, &clock);
        let go_on = hold_view(&view);
        let behind = view.schedule(Duration::ZERO, || ()).unwrap();
        until("it is queued", || view.pending_tasks() == 1);
        let pending: Vec<_> = (0..20)
            .map(|_| view.schedule(SECOND, || ()).unwrap())
            .collect();
        std::thread::scope(|scope| {
            scope.spawn(|| go_on.open());
            drop(pool.shutdown(Duration::ZERO));
            for waits in pending {
                let why = waits.wait().unwrap_err();
                assert!(why.is_cancelled(), "{why}");
            }
        });
        // It ran if the gate was opened before the end.
        if let Err(why) = behind.wait() {
            let why = why.failure().unwrap();
            assert!(why.downcast_ref::<NotStartedError>().is_some(), "{why}");
        }
    }
}

/// A thread of the pool may have taken the turn from the queue just before the end.
#[test]
fn a_turn_that_begins_on_a_thread_of_the_ended_pool_runs_no_task() {
    let clock = ManualClock::new();
    let (pool, view) = pool_and_view(2, &clock);
    let gate = hold_pool(&pool);
    let left = pool.handed_back();
    let (stop, done) = (Stop::new(), Gate::new());
    let (inside, over) = (stop.closure(), done.clone());
    pool.execute(move || {
        inside();
        left.take().into_iter().for_each(Task::run);
        over.open();
    })
    .unwrap();
    stop.reached();
    let runs = Counter::new();
    view.execute(runs.hits()).unwrap();
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!(report.handed_back.len(), 1);
    stop.go_on();
    done.wait();
    assert_eq!((runs.count(), view.handed_back().len()), (0, 1));
    view.handed_back().take().into_iter().for_each(Task::run);
    assert_eq!(runs.count(), 1);
    gate.open();
}
