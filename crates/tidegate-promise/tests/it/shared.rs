//! The read end that can be cloned.

use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_promise::{Completion, Failure, SharedCompletion, promise};
use tidegate_testkit::{Counter, DropCount, Log};

use crate::support::{Loop, thread};

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}

#[test]
fn handles_may_cross_threads() {
    is_send::<Completion<std::cell::Cell<u32>>>();
    is_send::<tidegate_promise::Promise<std::cell::Cell<u32>>>();
    is_sync::<tidegate_promise::Promise<std::cell::Cell<u32>>>();
    is_send::<SharedCompletion<u32>>();
    is_sync::<SharedCompletion<u32>>();
    is_sync::<tidegate_promise::SharedPromise<u32>>();
    is_send::<tidegate_promise::ListenerId<u32, Failure>>();
}

#[test]
fn every_clone_sees_the_same_outcome() {
    let (promise, answer) = promise::<String>();
    let first = answer.share().unwrap();
    let second = first.clone();
    assert!(first.peek().is_none() && first.is_cancellable());
    promise.succeed("one".to_owned()).unwrap();
    assert_eq!(
        first.peek().unwrap().success(),
        second.peek().unwrap().success()
    );
    assert_eq!(first.wait().unwrap(), "one");
    assert_eq!(first.wait().unwrap(), "one", "any number of times");
    assert!(second.is_done() && !second.cancel());
}

#[test]
fn a_taken_outcome_cannot_be_shared() {
    let mut answer: Completion<u32> = Completion::succeeded(1);
    answer.take().unwrap();
    let back = answer.share().unwrap_err();
    assert!(back.is_done());
}

#[test]
fn listeners_from_before_sharing_stay_and_come_first() {
    let (promise, answer) = promise::<u32>();
    let log = Log::new();
    for n in 0..2 {
        let log = log.clone();
        answer.on_complete(move |_| log.push(n));
    }
    let answer = answer.share().unwrap();
    for n in 2..4 {
        let log = log.clone();
        answer.on_complete(move |_| log.push(n));
    }
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), [0, 1, 2, 3]);
}

#[test]
fn a_waker_from_before_sharing_is_dropped() {
    let (promise, mut answer) = promise::<u32>();
    let (waker, woken) = crate::support::counting_waker();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(
        std::pin::Pin::new(&mut answer)
            .poll(&mut context)
            .is_pending()
    );
    let answer = answer.share().unwrap();
    promise.succeed(1).unwrap();
    assert_eq!(woken.count(), 0);
    assert_eq!(answer.wait().unwrap(), 1);
}

#[test]
fn dropping_the_guard_removes_the_listener() {
    let (promise, answer) = promise::<u32>();
    let answer = answer.share().unwrap();
    let log = Log::new();
    let listen = |n: u32| {
        let log = log.clone();
        answer.listen(move |_| log.push(n))
    };
    let kept = listen(1);
    drop(listen(2));
    listen(3).forget();
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), [1, 3]);
    drop(kept);
}

#[test]
fn a_dropped_guard_frees_what_the_listener_captured_at_once() {
    let (_promise, answer) = promise::<u32>();
    let answer = answer.share().unwrap();
    let drops = Counter::new();
    let captured = DropCount::new(&drops);
    let guard = answer.listen(move |_| drop(captured));
    assert_eq!(drops.count(), 0);
    drop(guard);
    assert_eq!(drops.count(), 1);
}

#[test]
fn any_clone_can_cancel() {
    let (promise, answer) = promise::<u32>();
    let first = answer.share().unwrap();
    let second = first.clone();
    drop(first);
    assert!(second.cancel());
    assert!(promise.is_cancelled());
}

#[test]
fn waits_by_the_clock_of_the_home_and_can_be_refused() {
    let clock = ManualClock::new();
    let home = Loop::with_clock("home", &clock);
    let (promise, answer) = home.promise::<u32>();
    let answer = answer.share().unwrap();
    let waiters = [answer.clone(), answer.clone()]
        .map(|answer| thread(move || answer.wait_timeout(Duration::from_secs(2))));
    clock.await_sleepers(2);
    clock.advance(Duration::from_secs(2));
    for waiter in waiters {
        assert!(waiter.join().unwrap().unwrap_err().is_timeout());
    }
    let on_loop = answer.clone();
    assert!(home.run(move || on_loop.wait()).unwrap_err().is_refused());
    promise.succeed(1).unwrap();
    let on_loop = answer.clone();
    assert_eq!(home.run(move || on_loop.wait()).unwrap(), 1);
    assert_eq!(answer.wait().unwrap(), 1);
    assert_eq!(answer.home().unwrap().name(), "home");
}

#[test]
fn a_decided_outcome_is_seen_on_the_home_before_its_listeners_ran() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let answer = answer.share().unwrap();
    answer.on_complete(|_| ());
    let (held, late) = (home.hold(), answer.clone());
    promise.succeed(1).unwrap();
    home.spawn(move || assert_eq!(late.wait().unwrap(), 1));
    held.open();
    home.settle();
}

#[test]
fn the_value_goes_with_the_last_handle() {
    let drops = Counter::new();
    let (promise, answer) = promise::<std::sync::Arc<DropCount>>();
    let first = answer.share().unwrap();
    let second = first.clone();
    promise
        .succeed(std::sync::Arc::new(DropCount::new(&drops)))
        .ok()
        .unwrap();
    drop(first);
    assert_eq!(drops.count(), 0);
    drop(second);
    assert_eq!(drops.count(), 1);
}
