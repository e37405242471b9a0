//! Long chains: each promise completes the next in its listener, and the stack does not grow.

use std::sync::Arc;

use tidegate_core::Executor;
use tidegate_promise::{Completion, Promise, promise};
use tidegate_testkit::{Counter, Log};

use crate::support::Loop;

const LENGTH: u64 = 100_000;

/// Links `LENGTH` promises so that each completes the next, and returns the first. Each listener
/// increments `notified`.
fn chain(make: impl Fn() -> (Promise<u64>, Completion<u64>), notified: &Counter) -> Promise<u64> {
    let (first, mut answer) = make();
    for _ in 1..LENGTH {
        let (promise, next) = make();
        let notified = notified.clone();
        answer.finally(move |outcome| {
            notified.hit();
            promise.succeed(outcome.success().unwrap() + 1).unwrap();
        });
        answer = next;
    }
    let notified = notified.clone();
    answer.finally(move |outcome| {
        assert_eq!(outcome.success(), Some(&LENGTH));
        notified.hit();
    });
    first
}

#[test]
fn without_a_home_listeners_run_before_the_call_returns() {
    let notified = Counter::new();
    chain(promise, &notified).succeed(1).unwrap();
    assert_eq!(notified.count(), LENGTH);
}

#[test]
fn listeners_run_on_the_home() {
    let home = Loop::new("home");
    let notified = Counter::new();
    let first = chain(|| home.promise(), &notified);
    home.run(move || first.succeed(1).unwrap());
    notified.wait_for(LENGTH);
    home.settle();
    assert_eq!(notified.count(), LENGTH);
}

#[test]
fn from_another_thread_listeners_run_on_the_home() {
    let home = Loop::new("home");
    let notified = Counter::new();
    chain(|| home.promise(), &notified).succeed(1).unwrap();
    notified.wait_for(LENGTH);
    home.settle();
    assert_eq!(notified.count(), LENGTH);
}

#[test]
fn with_a_terminated_home_listeners_run_on_the_completing_thread() {
    let home = Loop::new("home");
    let notified = Counter::new();
    let first = chain(|| home.promise(), &notified);
    home.terminate();
    first.succeed(1).unwrap();
    assert_eq!(notified.count(), LENGTH);
}

#[test]
fn listeners_of_an_abandoned_chain_are_called() {
    let notified = Counter::new();
    let (first, mut answer) = promise::<u64>();
    for _ in 0..LENGTH {
        let (promise, next) = tidegate_promise::promise::<u64>();
        let notified = notified.clone();
        // The listener drops the next promise, which abandons it.
        answer.finally(move |_| {
            notified.hit();
            drop(promise);
        });
        answer = next;
    }
    drop(first);
    assert_eq!(notified.count(), LENGTH);
    assert!(answer.wait().unwrap_err().failure().unwrap().is_abandoned());
}

#[test]
fn a_value_passes_through_a_long_row_of_maps() {
    let (first, mut answer) = promise::<u64>();
    for _ in 0..LENGTH {
        answer = answer.map(|n| n + 1);
    }
    first.succeed(0).unwrap();
    assert_eq!(answer.wait().unwrap(), LENGTH);
}

#[test]
fn a_cancellation_passes_back_through_a_long_row_of_maps() {
    let (first, mut answer) = promise::<u64>();
    let cancelled = Counter::new();
    let count = cancelled.clone();
    first.on_cancel(move || count.note());
    for _ in 0..LENGTH {
        answer = answer.map(|n| n + 1);
    }
    assert!(answer.cancel());
    assert!(first.is_cancelled());
    assert_eq!(cancelled.count(), 1);
}

/// Returns a chain whose listeners log when they start and end, which shows their nesting depth.
fn depths(make: impl Fn() -> (Promise<u64>, Completion<u64>)) -> (Promise<u64>, Log<i64>) {
    let log = Log::new();
    let (first, mut answer) = make();
    for _ in 0..30 {
        let (promise, next) = make();
        let log = log.clone();
        answer.finally(move |_| {
            log.push(1);
            promise.succeed(0).unwrap();
            log.push(-1);
        });
        answer = next;
    }
    (first, log)
}

fn deepest(log: &Log<i64>) -> i64 {
    let mut depth = 0;
    let depths = log.take().into_iter().map(|step| {
        depth += step;
        depth
    });
    depths.max().unwrap()
}

const VARIABLE: &str = "TIDEGATE_MAX_LISTENER_DEPTH";

#[test]
fn nesting_is_inline_to_a_depth_of_eight_and_then_queued() {
    // The next test runs this one in a separate process, with another limit.
    let limit = std::env::var(VARIABLE).map_or(8, |limit| limit.parse().unwrap());
    let limit = i64::clamp(limit, 1, 8);
    let (first, log) = depths(promise);
    first.succeed(0).unwrap();
    assert_eq!(log.len(), 60);
    assert_eq!(deepest(&log), limit);

    let home = Loop::new("home");
    let (first, log) = depths(|| home.promise());
    home.run(move || first.succeed(0).unwrap());
    home.settle();
    assert_eq!(log.len(), 60);
    assert_eq!(deepest(&log), limit);
}

#[test]
fn the_depth_can_be_lowered_by_the_environment_and_not_raised() {
    let test = "chains::nesting_is_inline_to_a_depth_of_eight_and_then_queued";
    for limit in ["3", "0", "100"] {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        let output = process
            .args([test, "--exact"])
            .env(VARIABLE, limit)
            .output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
    }
}

#[test]
fn the_depth_is_the_threads_and_shared_by_all_promises() {
    // Eight nested listeners of promises without a home use up the depth, so that the listener of
    // a promise whose home is this loop is deferred.
    let home = Loop::new("home");
    let executor: Arc<dyn Executor> = home.executor();
    let log = home.run(move || {
        let log = Log::new();
        let (first, mut answer) = promise::<u64>();
        for _ in 0..7 {
            let (promise, next) = tidegate_promise::promise::<u64>();
            answer.finally(move |_| promise.succeed(0).unwrap());
            answer = next;
        }
        let (last, at_home) =
            tidegate_promise::promise_on::<u64, tidegate_promise::Failure>(executor);
        let inner = log.clone();
        at_home.finally(move |_| inner.push("notified"));
        let outer = log.clone();
        answer.finally(move |_| {
            last.succeed(0).unwrap();
            outer.push("left");
        });
        first.succeed(0).unwrap();
        log
    });
    log.wait_for(2);
    assert_eq!(log.take(), ["left", "notified"]);
}

#[test]
fn a_panic_at_any_depth_leaves_the_count_as_it_was() {
    for _ in 0..20 {
        let (first, mut answer) = promise::<u64>();
        for _ in 0..20 {
            let (promise, next) = tidegate_promise::promise::<u64>();
            answer.finally(move |_| {
                promise.succeed(0).unwrap();
                panic!("on purpose");
            });
            answer = next;
        }
        first.succeed(0).unwrap();
        assert_eq!(answer.wait().unwrap(), 0);
    }
    let (first, log) = depths(promise);
    first.succeed(0).unwrap();
    assert_eq!(deepest(&log), 8);
}

#[test]
fn a_promise_dropped_by_its_ending_thread_still_notifies() {
    thread_local! {
        static KEPT: std::cell::RefCell<Vec<Promise<u64>>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let notified = Counter::new();
    // The order in which the thread-local values are destroyed depends on whether the thread used
    // listeners before or after it stored a promise.
    for before in [false, true] {
        let notified = notified.clone();
        let worker = crate::support::thread(move || {
            let warm_up = || Completion::<u64>::succeeded(1).finally(|_| ());
            if before {
                warm_up();
            }
            let (first, answer) = promise::<u64>();
            let (second, last) = tidegate_promise::promise::<u64>();
            answer.finally(move |_| drop(second));
            last.finally(move |outcome| {
                assert!(outcome.failure().unwrap().is_abandoned());
                notified.hit();
            });
            KEPT.with_borrow_mut(|kept| kept.push(first));
            if !before {
                warm_up();
            }
        });
        worker.join().unwrap();
    }
    assert_eq!(notified.count(), 2);
}
