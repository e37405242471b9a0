//! Memory: what is freed and when, and the sizes of the types.

use std::sync::Arc;

use tidegate_promise::{Completion, Promise, SharedCompletion, SharedPromise, promise};
use tidegate_testkit::{Counter, DropCount};

use crate::support::Loop;

#[test]
fn handles_are_small() {
    assert_eq!(size_of::<Promise<u64>>(), size_of::<usize>());
    assert_eq!(size_of::<SharedPromise<u64>>(), size_of::<usize>());
    assert!(size_of::<Completion<u64>>() <= 6 * size_of::<usize>());
    assert!(size_of::<SharedCompletion<u64>>() <= 5 * size_of::<usize>());
    assert_eq!(size_of::<Promise<u64>>(), size_of::<Option<Promise<u64>>>());
}

#[test]
fn every_way_to_end_drops_the_value_once() {
    let drops = Counter::new();
    let value = || DropCount::new(&drops);
    let made = promise::<DropCount>;

    let (promise, answer) = made();
    promise.succeed(value()).ok().unwrap();
    drop(answer);
    assert_eq!(drops.count(), 1, "the reader goes last");

    let (promise, answer) = made();
    drop(answer);
    promise.succeed(value()).ok().unwrap();
    assert_eq!(drops.count(), 2, "the writer goes last");

    let (promise, mut answer) = made();
    promise.succeed(value()).ok().unwrap();
    drop(answer.take());
    assert_eq!(drops.count(), 3, "taken");
    drop(answer);
    assert_eq!(drops.count(), 3);

    let (promise, answer) = made();
    answer.cancel();
    drop(promise.succeed(value()));
    assert_eq!(drops.count(), 4, "given back");
    drop(answer);
    assert_eq!(drops.count(), 4);

    let (promise, answer) = made();
    answer.finally(|_| ());
    promise.succeed(value()).ok().unwrap();
    assert_eq!(drops.count(), 5, "the notifier goes last");

    let (promise, answer) = made();
    let shared = promise.share();
    shared.try_succeed(value()).ok().unwrap();
    drop(shared.try_succeed(value()));
    assert_eq!(drops.count(), 6, "the second was given back");
    drop((shared, answer));
    assert_eq!(drops.count(), 7);
}

#[test]
fn the_captures_of_a_listener_are_dropped_after_its_call() {
    let drops = Counter::new();
    let (promise, answer) = promise::<u32>();
    for _ in 0..3 {
        let captured = DropCount::new(&drops);
        answer.on_complete(move |_| {
            let _captured = &captured;
        });
    }
    promise.succeed(1).unwrap();
    assert_eq!(drops.count(), 3, "though the completion lives");
    drop(answer);
}

#[test]
fn what_a_hook_captured_is_freed_when_the_outcome_is_decided() {
    let drops = Counter::new();
    let hook = || {
        let captured = DropCount::new(&drops);
        move || drop(captured)
    };
    let (promise, answer) = promise::<u32>();
    promise.on_cancel(hook());
    promise.succeed(1).unwrap();
    assert_eq!(drops.count(), 1, "completed, and the reader lives");
    drop(answer);

    let (promise, answer) = tidegate_promise::promise::<u32>();
    promise.on_cancel(hook());
    let shared = promise.share();
    shared.try_succeed(1).unwrap();
    assert_eq!(drops.count(), 2, "completed by a shared writer");
    shared.on_cancel(hook());
    assert_eq!(drops.count(), 3, "a hook that comes too late is not kept");
    drop(answer);

    let (promise, answer) = tidegate_promise::promise::<u32>();
    promise.on_cancel(hook());
    answer.cancel();
    assert_eq!(drops.count(), 4, "cancelled");
    drop((promise, answer));

    let (promise, answer) = tidegate_promise::promise::<u32>();
    promise.on_cancel(hook());
    promise.on_cancel(hook());
    assert_eq!(drops.count(), 5, "replaced");
    drop(promise);
    assert_eq!(drops.count(), 6, "abandoned");
    drop(answer);
}

#[test]
fn the_home_is_released_with_the_promise() {
    let home = Loop::new("home");
    let executor = home.executor();
    home.settle();
    let before = Arc::strong_count(&executor);
    let (promise, answer) = home.promise::<u32>();
    answer.on_complete(|_| ());
    promise.succeed(1).unwrap();
    assert_eq!(answer.wait().unwrap(), 1);
    home.settle();
    assert_eq!(Arc::strong_count(&executor), before);
}

#[test]
fn values_of_any_size_and_alignment() {
    #[derive(Debug, PartialEq, Clone, Copy)]
    #[repr(align(64))]
    struct Aligned(u8);
    let (promise, answer) = promise::<Aligned>();
    answer.on_complete(|outcome| {
        let value: *const Aligned = outcome.success().unwrap();
        assert!(value.is_aligned());
    });
    promise.succeed(Aligned(1)).unwrap();
    assert_eq!(answer.wait().unwrap(), Aligned(1));
    let (promise, answer) = tidegate_promise::promise::<[u64; 512]>();
    promise.succeed([9; 512]).unwrap();
    assert_eq!(answer.wait().unwrap()[511], 9);
    let (promise, answer) = tidegate_promise::promise::<()>();
    promise.succeed(()).unwrap();
    answer.wait().unwrap();
}

#[test]
fn very_many_outstanding_promises_are_fine() {
    let count = if cfg!(tidegate_sanitize) {
        20_000
    } else {
        200_000
    };
    let notified = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let promises: Vec<_> = (0..count)
        .map(|_| {
            let (promise, answer) = promise::<u64>();
            let notified = Arc::clone(&notified);
            answer.finally(move |outcome| {
                let value = *outcome.success().unwrap();
                notified.fetch_add(value, std::sync::atomic::Ordering::Relaxed);
            });
            promise
        })
        .collect();
    for promise in promises {
        promise.succeed(1).unwrap();
    }
    assert_eq!(notified.load(std::sync::atomic::Ordering::Relaxed), count);
}
