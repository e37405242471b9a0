//! Progress: which reports are accepted, and where and when the listeners run.

use std::sync::{Arc, Mutex};

use tidegate_promise::progress::{Progress, ProgressCompletion, ProgressError, ProgressPromise};
use tidegate_promise::{Promise, promise};
use tidegate_testkit::{Bomb, Counter, DropCount, Log, Stop, explode};

use crate::support::{Loop, thread};

fn pair(home: Option<&Loop>) -> (ProgressPromise<u32>, ProgressCompletion<u32>) {
    Promise::with_progress(home.map_or_else(promise, Loop::promise))
}

#[test]
fn more_than_the_total_is_refused() {
    let (promise, answer) = pair(None);
    let log = Log::new();
    let received = log.clone();
    answer.on_progress(move |progress| received.push(progress));
    let refused = promise.progress(4, 3).unwrap_err();
    assert_eq!(refused, ProgressError::TooMuch { done: 4, total: 3 });
    assert_eq!(
        refused.to_string(),
        "a progress of 4 is more than the total of 3; report at most the total"
    );
    assert!(log.is_empty());
    promise.progress(3, 3).unwrap();
    promise.progress(0, 0).unwrap();
    promise.progress(u64::MAX, None).unwrap();
    let totals: Vec<_> = log.take().iter().map(|progress| progress.total).collect();
    assert_eq!(totals, [Some(3), Some(0), None]);
    assert_eq!(Progress::new(1, 2).unwrap().done, 1);
}

#[test]
fn is_refused_after_a_cancellation() {
    let (promise, answer) = pair(None);
    answer.on_progress(|_| panic!("no listener may be called"));
    assert!(answer.cancel());
    assert_eq!(promise.progress(1, 2), Err(ProgressError::Cancelled));
    assert!(promise.succeed(1).is_err());
}

#[test]
fn only_progress_listeners_receive_it_and_all_receive_the_outcome() {
    let (promise, answer) = pair(None);
    let log = Log::new();
    let received = log.clone();
    answer.on_progress(move |progress| received.push(format!("progress {}", progress.done)));
    let received = log.clone();
    answer
        .on_complete(move |outcome| received.push(format!("done {}", outcome.success().unwrap())));
    promise.progress(1, 2).unwrap();
    promise.succeed(2).unwrap();
    assert_eq!(log.take(), ["progress 1", "done 2"]);
    assert_eq!(answer.into_inner().wait().unwrap(), 2);
}

#[test]
fn a_listener_receives_later_reports_in_order() {
    let (promise, answer) = pair(None);
    let log = Log::new();
    for name in ["a", "b"] {
        let log = log.clone();
        answer.on_progress(move |progress| log.push((name, progress.done)));
        promise.progress(progress_of(name), 10).unwrap();
    }
    assert_eq!(log.take(), [("a", 1), ("a", 2), ("b", 2)]);
}

fn progress_of(name: &str) -> u64 {
    if name == "a" { 1 } else { 2 }
}

#[test]
fn is_delivered_on_the_home_and_before_the_outcome() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    let log = Log::new();
    let (received, executor) = (log.clone(), home.executor());
    answer.on_progress(move |progress| received.push((progress.done, executor.is_current())));
    let (received, executor) = (log.clone(), home.executor());
    answer.on_complete(move |_| received.push((99, executor.is_current())));
    promise.progress(1, 2).unwrap();
    promise.succeed(1).unwrap();
    log.wait_for(2);
    assert_eq!(log.take(), [(1, true), (99, true)]);
}

#[test]
fn a_report_on_its_way_comes_before_the_outcome_and_never_after_a_later_one() {
    for (last, expected) in [(None, [1, 99]), (Some(2), [2, 99])] {
        let home = Loop::new("home");
        let (promise, answer) = pair(Some(&home));
        let log = Log::new();
        let (received, outcome) = (log.clone(), log.pushes(99));
        answer.on_progress(move |progress| received.push(progress.done));
        answer.on_complete(move |_| outcome());
        let (stop, promise) = (Stop::new(), Arc::new(Mutex::new(Some(promise))));
        let (stops, taken) = (stop.closure(), Arc::clone(&promise));
        home.spawn(move || {
            stops();
            let promise = taken.lock().unwrap().take().unwrap();
            if let Some(done) = last {
                promise.progress(done, 2).unwrap();
            }
            promise.succeed(1).unwrap();
        });
        stop.reached();
        promise
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .progress(1, 2)
            .unwrap();
        stop.go_on();
        home.settle();
        assert_eq!(log.take(), expected);
    }
}

#[test]
fn a_report_on_its_way_is_not_delivered_once_the_reader_has_cancelled() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    let log = Log::new();
    let (received, outcome) = (log.clone(), log.pushes(99));
    answer.on_progress(move |progress| received.push(progress.done));
    answer.on_complete(move |_| outcome());
    let held = home.hold();
    promise.progress(1, 2).unwrap();
    assert!(answer.cancel());
    drop(promise);
    held.open();
    home.settle();
    assert_eq!(log.take(), [99]);
}

#[test]
fn a_report_inside_a_listener_follows_the_one_that_it_received() {
    let (promise, answer) = pair(None);
    let (log, promise) = (Log::new(), Arc::new(promise));
    let (received, nested) = (log.clone(), Arc::downgrade(&promise));
    answer.on_progress(move |progress| {
        received.push(("first", progress.done));
        if progress.done == 1 {
            nested.upgrade().unwrap().progress(2, 2).unwrap();
        }
    });
    let received = log.clone();
    answer.on_progress(move |progress| received.push(("second", progress.done)));
    promise.progress(1, 2).unwrap();
    let expected = [("first", 1), ("second", 1), ("first", 2), ("second", 2)];
    assert_eq!(log.take(), expected);
}

#[test]
fn is_delivered_at_once_on_the_home() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    let log = Log::new();
    let received = log.clone();
    answer.on_progress(move |progress| received.push(progress.done));
    let seen = home.run(move || {
        promise.progress(1, 2).unwrap();
        promise.progress(2, 2).unwrap();
        log.take()
    });
    assert_eq!(seen, [1, 2]);
}

#[test]
fn a_busy_home_receives_the_latest_report() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    let log = Log::new();
    let received = log.clone();
    answer.on_progress(move |progress| received.push(progress.done));
    let held = home.hold();
    for done in 0..1_000 {
        promise.progress(done, 1_000).unwrap();
    }
    held.open();
    log.wait_for(1);
    home.settle();
    assert_eq!(log.take(), [999]);
}

#[test]
fn a_terminated_home_does_not_swallow_it() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    let log = Log::new();
    let received = log.clone();
    answer.on_progress(move |progress| received.push(progress.done));
    home.terminate();
    promise.progress(1, 2).unwrap();
    assert_eq!(log.take(), [1]);
}

#[test]
fn a_panicking_listener_is_reported_and_the_others_are_called() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    answer.on_progress(|_| panic!("on purpose"));
    let notified = Counter::new();
    let count = notified.clone();
    answer.on_progress(move |_| count.note());
    promise.progress(1, 2).unwrap();
    notified.wait_for(1);
    home.settle();
    assert_eq!(home.unhandled(), ["a listener panicked: on purpose"]);
    let (promise, answer) = pair(None);
    answer.on_progress(|_| panic!("on purpose"));
    promise.progress(1, 2).unwrap();
}

#[test]
fn a_listener_may_add_a_listener() {
    let (promise, answer) = pair(None);
    let answer = Arc::new(Mutex::new(answer));
    let notified = Counter::new();
    let (inside, count) = (Arc::downgrade(&answer), notified.clone());
    answer.lock().unwrap().on_progress(move |_| {
        let count = count.clone();
        let answer = inside.upgrade().unwrap();
        answer.lock().unwrap().on_progress(move |_| count.note());
    });
    promise.progress(1, 9).unwrap();
    promise.progress(2, 9).unwrap();
    assert!(notified.count() >= 1);
}

#[test]
fn the_promise_can_go_on_without_progress() {
    let (promise, answer) = pair(None);
    let inner = promise.into_inner();
    inner.succeed(1).unwrap();
    assert_eq!(answer.into_inner().wait().unwrap(), 1);
    let (promise, mut answer) = pair(None);
    promise
        .fail(tidegate_promise::Failure::new("no luck"))
        .unwrap();
    assert!(answer.take().unwrap().failure().is_some());
}

#[test]
fn reports_from_many_threads_reach_the_home() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    let log = Log::new();
    let received = log.clone();
    answer.on_progress(move |progress| received.push(progress.done));
    let promise = Arc::new(promise);
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let promise = Arc::clone(&promise);
            thread(move || (0..500).for_each(|done| promise.progress(done, 500).unwrap()))
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    promise.progress(500, 500).unwrap();
    home.settle();
    assert_eq!(
        log.take().last(),
        Some(&500),
        "the last report is delivered last"
    );
}

#[test]
fn very_many_listeners_are_dropped_one_by_one() {
    // The default drop of the list would be recursive.
    let drops = Counter::new();
    let worker = std::thread::Builder::new().stack_size(64 * 1024);
    let count = drops.clone();
    let worker = worker.spawn(move || {
        let (_promise, answer) = pair(None);
        for _ in 0..2_000 {
            let captured = DropCount::new(&count);
            answer.on_progress(move |_| {
                let _captured = &captured;
            });
        }
    });
    worker.unwrap().join().unwrap();
    assert_eq!(drops.count(), 2_000);
}

#[test]
fn a_payload_or_a_listener_whose_drop_panics_kills_no_home() {
    let home = Loop::new("home");
    let (promise, answer) = pair(Some(&home));
    let notified = Counter::new();
    answer.on_progress(|_| explode());
    for _ in 0..2 {
        let (bomb, count) = (Bomb::new(), notified.clone());
        answer.on_progress(move |_| {
            let _held = &bomb;
            count.hit();
        });
    }
    promise.progress(1, 2).unwrap();
    notified.wait_for(2);
    drop(answer);
    promise.succeed(1).unwrap();
    home.settle();
    let (next, answer) = home.promise::<u32>();
    answer.on_complete(|_| explode());
    next.succeed(1).unwrap();
    let (cancelled, answer) = home.promise::<u32>();
    cancelled.on_cancel(|| explode());
    assert!(answer.cancel());
    home.settle();
}
