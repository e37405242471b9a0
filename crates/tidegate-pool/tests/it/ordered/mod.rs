//! The ordered view runs one task at a time, in order, on any thread, and strands no task.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::internal::{Deliver, Delivery, SignalBlock};
use tidegate_core::{Executor, RejectReason, Task, ThreadBuilder};
use tidegate_pool::{ImmediateExecutor, OrderedView, OrderedViewError, WorkerPool};
use tidegate_testkit::{Counter, Gate, Log, Stop, has, model, until};

use self::pool::Pool;

mod chaos;
mod displaced;
mod ends;
mod pool;
mod refusals;

struct LogSignal(Log<u32>, u32);

impl Deliver for LogSignal {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        let orphaned = if how == Delivery::Orphaned { 1000 } else { 0 };
        block.0.push(block.1 + orphaned);
    }
}

/// Blocks the view until the returned gate is opened.
fn hold(view: &OrderedView) -> Gate {
    let stop = Stop::new();
    view.execute(stop.closure()).expect("the view has room");
    stop.reached()
}

#[test]
fn a_submitted_task_has_a_completion() {
    let pool = Pool::new(2);
    let view = OrderedView::over(pool.executor()).unwrap();
    let stop = hold(&view);
    let first = view.submit(|| 42).unwrap();
    let left = view.submit(|| -> u32 { panic!("it was cancelled") });
    assert!(left.unwrap().cancel());
    let panics = view.submit(|| -> u32 { panic!("on purpose") }).unwrap();
    stop.open();
    assert_eq!(first.wait().unwrap(), 42);
    assert!(panics.wait().unwrap_err().failure().unwrap().is_panic());
}

#[test]
fn runs_one_at_a_time_and_in_order_on_any_thread() {
    let pool = Pool::new(3);
    let executor = pool.executor();
    let view = OrderedView::builder(executor)
        .max_tasks_per_turn(2)
        .build()
        .unwrap();
    let (log, busy) = (Log::new(), Arc::new(AtomicBool::new(false)));
    for number in 0..2_000 {
        let (log, busy) = (log.clone(), Arc::clone(&busy));
        view.execute(move || {
            assert!(!busy.swap(true, Ordering::SeqCst), "two at once");
            log.push((number, thread::current().id()));
            busy.store(false, Ordering::SeqCst);
        })
        .unwrap();
    }
    log.wait_for(2_000);
    let ran = log.take();
    assert!(ran.iter().map(|(number, _)| *number).eq(0..2_000));
    let threads: HashSet<_> = ran.into_iter().map(|(_, thread)| thread).collect();
    assert!(!threads.contains(&thread::current().id()));
    assert_eq!(view.panics(), 0);
}

#[test]
fn two_views_do_not_wait_for_each_other() {
    let pool = Pool::new(2);
    let (one, two) = (pool.view(), pool.view());
    let go_on = hold(&one);
    let (ran, open) = Gate::pair();
    two.execute(move || open.open()).unwrap();
    ran.wait();
    go_on.open();
}

#[test]
fn refuses_an_executor_that_is_ordered() {
    let pool = Pool::new(2);
    let view = pool.view();
    assert!(
        OrderedView::over(Arc::new(view)).is_err(),
        "a view is ordered"
    );
}

#[test]
fn refuses_a_turn_of_no_tasks() {
    let pool = Pool::new(2);
    let empty = OrderedView::builder(pool.executor()).max_tasks_per_turn(0);
    assert_eq!(empty.build().unwrap_err(), OrderedViewError::EmptyTurn);
    has(OrderedViewError::EmptyTurn.to_string(), ["at least 1"]);
}

#[test]
fn lets_others_run_after_its_share() {
    let pool = Pool::new(2);
    let blocker = hold(&pool.view()); // one thread is left
    let view = OrderedView::builder(pool.executor())
        .max_tasks_per_turn(2)
        .build()
        .unwrap();
    let log = Log::new();
    let go_on = hold(&view);
    for number in 1..=3 {
        view.execute(log.pushes(number)).unwrap();
    }
    pool.core.execute(Task::new(log.pushes(100))).unwrap();
    go_on.open();
    log.wait_for(4);
    assert_eq!(
        log.take(),
        [1, 100, 2, 3],
        "two tasks to a turn, the held one included"
    );
    blocker.open();
}

#[test]
fn runs_a_thousand_tasks_to_a_turn_by_default() {
    let pool = Pool::new(2);
    let view = pool.view();
    let go_on = hold(&view);
    let before = pool.accepted();
    let ran = Counter::new();
    for _ in 0..OrderedView::DEFAULT_TASKS_PER_TURN {
        view.execute(ran.hits()).unwrap();
    }
    go_on.open();
    ran.wait_for(OrderedView::DEFAULT_TASKS_PER_TURN as u64);
    assert_eq!(
        pool.accepted() - before,
        1,
        "the held task was the first of 1024"
    );
}

#[test]
fn goes_on_when_its_next_turn_is_refused() {
    let pool = Pool::new(2);
    let view = OrderedView::builder(pool.executor())
        .max_tasks_per_turn(1)
        .build()
        .unwrap();
    let go_on = hold(&view);
    let log = Log::new();
    for number in 0..10 {
        let log = log.clone();
        view.execute(move || log.push((number, thread::current().id())))
            .unwrap();
    }
    pool.set(|queue| queue.bound = Some(0));
    go_on.open();
    log.wait_for(10);
    let ran = log.take();
    assert!(ran.iter().map(|(number, _)| *number).eq(0..10));
    assert!(ran.iter().all(|(_, thread)| *thread == ran[0].1));
}

#[test]
fn pending_tasks_are_those_that_have_not_started() {
    let pool = Pool::new(2);
    let view = pool.view();
    let stops = [(); 3].map(|()| Stop::new());
    for stop in &stops {
        view.execute(stop.closure()).unwrap();
    }
    for (waiting, stop) in [2, 1, 0].into_iter().zip(&stops) {
        let go_on = stop.reached();
        assert_eq!(view.pending_tasks(), waiting);
        go_on.open();
    }
}

#[test]
fn a_full_pool_gives_the_task_back_and_strands_nothing() {
    let pool = Pool::new(2);
    let view = pool.view();
    pool.set(|queue| queue.bound = Some(0));
    let refused = view.execute(|| panic!("never runs")).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Full);
    drop(refused);
    assert_eq!(view.pending_tasks(), 0);
    pool.set(|queue| queue.bound = None);
    let (ran, open) = Gate::pair();
    view.execute(move || open.open()).unwrap();
    ran.wait();
}

#[test]
fn a_task_that_comes_as_the_view_goes_idle_is_never_stranded() {
    let pool = Pool::new(3);
    let view = pool.view();
    model(0..4, |rng| {
        let (ran, producers) = (Counter::new(), 1 + rng.below(3));
        let threads: Vec<_> = (0..producers)
            .map(|_| {
                let (view, ran) = (view.clone(), ran.clone());
                ThreadBuilder::new("producer").spawn(move || {
                    for number in 1..=500 {
                        view.execute(ran.hits()).unwrap();
                        // Waits until the view has no task, so that the next one arrives just as it
                        // becomes idle.
                        ran.wait_for(number);
                    }
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.unwrap().join().unwrap());
        }
        ran.wait_for(500 * producers);
    });
}

#[test]
fn is_current_only_on_the_thread_that_drains_it() {
    let pool = Pool::new(2);
    let (view, other) = (pool.view(), pool.view());
    let go_on = hold(&other);
    let log = Log::new();
    let (mine, others, seen) = (view.clone(), other.clone(), log.clone());
    view.execute(move || seen.push((mine.is_current(), others.is_current())))
        .unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), [(true, false)]);
    assert!(!view.is_current());
    let (mine, seen) = (view.clone(), log.clone());
    pool.core
        .execute(Task::new(move || seen.push((mine.is_current(), false))))
        .unwrap();
    log.wait_for(1);
    assert_eq!(
        log.take(),
        [(false, false)],
        "a thread of the pool, but not draining"
    );
    go_on.open();
}

#[test]
fn a_full_view_gives_the_task_back() {
    let pool = Pool::new(2);
    let view = OrderedView::builder(pool.executor())
        .bound(16)
        .build()
        .unwrap();
    let go_on = hold(&view);
    let ran = Counter::new();
    let mut accepted = 0;
    let refused = loop {
        match view.execute(ran.hits()) {
            Ok(()) => accepted += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.why(), RejectReason::Full);
    assert!(
        (15..=16).contains(&accepted),
        "early by the running task at most"
    );
    refused.into_inner().run();
    go_on.open();
    ran.wait_for(accepted + 1);
}

#[test]
fn a_panic_is_reported_and_does_no_harm() {
    let pool = Pool::new(2);
    let view = pool.view();
    view.execute(|| panic!("on purpose")).unwrap();
    let (ran, open) = Gate::pair();
    Executor::execute(&view, Task::named("next", move || open.open())).unwrap();
    ran.wait();
    assert_eq!(view.panics(), 1);
    let notified = pool.core.unhandled.take();
    assert!(notified.len() == 1 && notified[0].ends_with("panicked: on purpose"));
}

#[test]
fn signals_take_their_turn_too() {
    let pool = Pool::new(2);
    let view = pool.view();
    let log = Log::new();
    let tell = SignalBlock::new(LogSignal(log.clone(), 1));
    view.signal(tell.raise().unwrap()).unwrap();
    log.wait_for(1);
    let go_on = hold(&view);
    view.signal(tell.raise().unwrap()).unwrap();
    assert_eq!(log.take(), [1], "not while a task runs");
    go_on.open();
    log.wait_for(1);
}

#[test]
fn signals_find_their_way_through_a_full_pool() {
    let pool = Pool::new(2);
    let view = pool.view();
    pool.set(|queue| queue.bound = Some(0));
    let log = Log::new();
    let (promise, answer) = view.promise::<u32>();
    let (mine, seen) = (view.clone(), log.clone());
    answer.on_complete(move |_| seen.push(mine.is_current()));
    promise.succeed(1).unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), [true]);
}

#[test]
fn a_promise_of_the_view_calls_its_listeners_there() {
    let pool = Pool::new(2);
    let view = pool.view();
    let (promise, answer) = view.promise::<u32>();
    let log = Log::new();
    let (mine, seen) = (view.clone(), log.clone());
    answer.on_complete(move |_| seen.push(mine.is_current()));
    promise.succeed(1).unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), [true]);
}

#[test]
fn a_wait_for_its_own_promise_is_refused_as_a_circle() {
    let pool = Pool::new(2);
    let view = pool.view();
    let (_promise, answer) = view.promise::<u32>();
    let (log, seen) = Log::pair();
    view.execute(move || seen.push(answer.wait().unwrap_err().to_string()))
        .unwrap();
    log.wait_for(1);
    let refused = log.take().remove(0);
    assert!(refused.contains("deadlock"), "{refused}");
}

#[test]
fn what_was_accepted_runs_when_the_last_handle_is_gone() {
    let pool = Pool::new(2);
    let view = pool.view();
    let go_on = hold(&view);
    let (ran, open) = Gate::pair();
    view.execute(move || open.open()).unwrap();
    drop(view);
    go_on.open();
    ran.wait();
}

#[test]
fn a_closed_pool_refuses_and_gives_the_task_back() {
    let mut pool = Pool::new(2);
    let view = pool.view();
    pool.end();
    let refused = view.execute(|| ()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
    let log = Log::new();
    let tell = SignalBlock::new(LogSignal(log.clone(), 1));
    let _ = view.signal(tell.raise().unwrap());
    assert_eq!(log.take(), [1001], "delivered as an orphan, not lost");
    assert!(view.execute(|| ()).is_err() && view.handed_back().is_empty());
}

#[test]
fn a_pool_that_drops_the_turn_closes_the_view() {
    let pool = Pool::new(2);
    let view = pool.view();
    pool.set(|queue| queue.held = true);
    let ran = Counter::new();
    for _ in 0..3 {
        view.execute(ran.hits()).unwrap();
    }
    let mut dropped = VecDeque::new();
    pool.set(|queue| dropped = std::mem::take(&mut queue.work));
    drop(dropped);
    let back = view.handed_back().take();
    assert_eq!((back.len(), ran.count()), (3, 0));
    back.into_iter().for_each(Task::run);
    assert_eq!(ran.count(), 3);
    assert_eq!(view.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
}

#[test]
fn works_over_an_executor_that_runs_at_once() {
    let view = OrderedView::over(Arc::new(ImmediateExecutor::new())).unwrap();
    let log = Log::new();
    let (inner, seen) = (view.clone(), log.clone());
    view.execute(move || {
        inner.execute(seen.pushes(2)).unwrap();
        seen.push(1);
    })
    .unwrap();
    assert_eq!(log.take(), [1, 2]);
}

#[test]
fn has_the_name_and_clock_of_what_lies_below() {
    let pool = Pool::new(2);
    let view = pool.view();
    assert_eq!((view.name(), view.width()), ("pool", 1));
    assert!(!view.clock().is_manual());
    assert_ne!(view.id(), pool.core.id());
    let builder = OrderedView::builder(pool.executor()).name("orders");
    assert!(format!("{builder:?}").contains("orders"));
    assert!(format!("{:?}", builder.build().unwrap()).contains("orders"));
}

#[test]
fn every_thread_of_an_unordered_pool_is_its_own() {
    let pool = Pool::new(2);
    let log = Log::new();
    let (core, seen) = (Arc::clone(&pool.core), log.clone());
    let stop = Stop::new();
    let inside = stop.closure();
    pool.core
        .execute(Task::new(move || {
            seen.push(core.is_current());
            inside();
        }))
        .unwrap();
    stop.reached();
    let (core, seen) = (Arc::clone(&pool.core), log.clone());
    pool.core
        .execute(Task::new(move || seen.push(core.is_current())))
        .unwrap();
    log.wait_for(2);
    assert_eq!(log.take(), [true, true]);
    assert!(!pool.core.is_current());
    stop.go_on();
}

#[test]
fn a_view_says_that_the_executor_below_has_left_its_tasks() {
    let pool = WorkerPool::builder("workers").max(2).build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    assert!(!view.has_abandoned_tasks());
    pool.shutdown(Duration::ZERO).wait().unwrap();
    until("the pool has reported its end", || {
        view.has_abandoned_tasks()
    });
}
