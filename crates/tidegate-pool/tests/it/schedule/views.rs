//! Scheduled tasks of ordered views: in the order of the view, with the timer of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::thread::ThreadPerTask;
use tidegate_core::{ManualClock, ThreadBuilder};
use tidegate_pool::OrderedView;
use tidegate_testkit::{Counter, Log, Stop, until};

use super::{fixed, view_of};
use crate::SECOND;

#[test]
fn due_tasks_run_in_the_order_of_the_view_and_one_at_a_time() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 4, 64).build().unwrap();
    let view = view_of(&pool);
    let (log, busy) = (Log::new(), Arc::new(AtomicBool::new(false)));
    for number in 0..50 {
        let (log, busy) = (log.clone(), Arc::clone(&busy));
        let run = move || {
            assert!(!busy.swap(true, Ordering::SeqCst), "two at once");
            log.push(number);
            busy.store(false, Ordering::SeqCst);
        };
        view.schedule(SECOND, run).unwrap();
    }
    clock.advance(SECOND);
    assert!(log.take().into_iter().eq(0..50));
    assert_eq!(view.panics(), 0);
}

#[test]
fn a_due_task_waits_for_the_view_and_not_for_its_pool() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 64).build().unwrap();
    let (view, other) = (view_of(&pool), view_of(&pool));
    let (stop, log) = (Stop::new(), Log::new());
    let (inside, first) = (stop.closure(), log.clone());
    view.execute(move || {
        inside();
        first.push("held");
    })
    .unwrap();
    stop.reached();
    let (second, third) = (log.clone(), log.clone());
    let due = view.schedule(SECOND, move || second.push("due")).unwrap();
    let elsewhere = other.schedule(SECOND, move || third.push("elsewhere"));
    clock.jump(SECOND);
    elsewhere.unwrap().wait().unwrap();
    assert!(!due.is_done());
    stop.go_on();
    due.wait().unwrap();
    assert_eq!(log.take(), ["elsewhere", "held", "due"]);
}

#[test]
fn listeners_of_a_due_task_run_in_the_view() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 64).build().unwrap();
    let view = view_of(&pool);
    let (here, log) = (view.clone(), Log::new());
    let noted = log.clone();
    let due = view.schedule(SECOND, || 7).unwrap();
    due.finally(move |outcome| noted.push((outcome.is_success(), here.is_current())));
    clock.advance(SECOND);
    assert_eq!(log.take(), [(true, true)]);
}

#[test]
fn all_views_of_a_pool_share_one_timer() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 64).build().unwrap();
    let views = [(); 20].map(|()| view_of(&pool));
    let pending: Vec<_> = views
        .iter()
        .map(|view| view.schedule(SECOND, || ()).unwrap())
        .collect();
    clock.settle();
    assert_eq!((clock.sleepers(), pool.metrics().scheduled), (1, 20));
    clock.advance(SECOND);
    for due in pending {
        due.wait().unwrap();
    }
}

#[test]
fn a_view_over_any_executor_has_a_timer_of_its_own() {
    let threads = ThreadPerTask::new(ThreadBuilder::new("job"));
    let view = OrderedView::over(Arc::new(threads)).unwrap();
    let runs = Counter::new();
    let tick = Duration::from_nanos(1);
    let ticks = view.schedule_with_fixed_delay(Duration::ZERO, tick, runs.hits());
    let once = view.schedule(tick, || 7).unwrap();
    assert_eq!(once.wait().unwrap(), 7);
    runs.wait_for(3);
    assert!(ticks.unwrap().cancel());
}

#[test]
fn a_pending_task_keeps_its_view_and_goes_with_it() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 64).build().unwrap();
    let view = view_of(&pool);
    let ended = pool.termination();
    let due = view.schedule(SECOND, || 7).unwrap();
    drop((view, pool));
    clock.advance(SECOND);
    assert_eq!(due.wait().unwrap(), 7);
    until("the pool has ended", || ended.is_done());
}
