//! Blocking waits: their results, and where they are refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::Blocking;
use tidegate_core::{CancelToken, ManualClock};
use tidegate_promise::internal::as_outermost;
use tidegate_promise::{Completion, Failure, WaitError, promise};
use tidegate_testkit::{Gate, Log, block_on, rounds, until_some};

use crate::support::{Loop, thread};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn returns_the_value_that_another_thread_stores() {
    let (promise, answer) = promise::<u32>();
    let waiter = thread(move || answer.wait());
    promise.succeed(7).unwrap();
    assert_eq!(waiter.join().unwrap().unwrap(), 7);
}

#[test]
fn returns_the_failure_as_a_value() {
    let (promise, answer) = promise::<u32>();
    let waiter = thread(move || answer.wait());
    promise.fail(Failure::new("no luck")).unwrap();
    let cause = waiter.join().unwrap().unwrap_err().failure().unwrap();
    assert_eq!(cause.to_string(), "no luck");
}

#[test]
fn a_cancellation_is_distinguished_from_a_failure() {
    let (promise, answer) = promise::<u32>();
    let answer = answer.share().unwrap();
    let waiting = answer.clone();
    let waiter = thread(move || waiting.wait());
    assert!(answer.cancel());
    let error = waiter.join().unwrap().unwrap_err();
    assert!(error.is_cancelled() && error.clone().failure().is_none());
    drop(promise);
}

#[test]
fn an_abandoned_promise_wakes_its_waiters() {
    let (promise, answer) = promise::<u32>();
    let waiter = thread(move || answer.wait());
    drop(promise);
    let cause = waiter.join().unwrap().unwrap_err().failure().unwrap();
    assert!(cause.is_abandoned());
}

#[test]
fn completion_wakes_every_waiter() {
    let (promise, answer) = promise::<u32>();
    let answer = answer.share().unwrap();
    let waiters: Vec<_> = (0..16)
        .map(|_| {
            let answer = answer.clone();
            thread(move || answer.wait().unwrap())
        })
        .collect();
    promise.succeed(3).unwrap();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), 3);
    }
}

#[test]
fn comes_after_the_listeners_that_were_added_before() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let held = home.hold();
    let log = Log::new();
    let received = log.clone();
    answer.on_complete(move |_| received.push("notified"));
    let taken = log.clone();
    let waiter = thread(move || {
        let value = answer.wait();
        taken.push("taken");
        value
    });
    promise.succeed(1).unwrap();
    assert!(log.is_empty());
    held.open();
    assert_eq!(waiter.join().unwrap().unwrap(), 1);
    assert_eq!(log.take(), ["notified", "taken"]);
}

#[test]
fn a_timeout_is_by_the_clock_of_the_home() {
    let clock = ManualClock::new();
    let home = Loop::with_clock("home", &clock);
    let (promise, mut answer) = home.promise::<u32>();
    let waiter = thread(move || {
        let error = answer.wait_timeout(10 * SECOND).unwrap_err();
        (error, answer)
    });
    clock.await_sleepers(1);
    clock.advance(9 * SECOND);
    clock.await_sleepers(1);
    assert!(!waiter.is_finished());
    clock.advance(SECOND);
    let (error, answer) = waiter.join().unwrap();
    assert!(error.is_timeout());
    assert_eq!(
        error.to_string(),
        "the promise was not completed within 10s"
    );
    promise.succeed(4).unwrap();
    assert_eq!(answer.wait().unwrap(), 4, "it can be waited for again");
}

#[test]
fn a_completion_in_time_ends_a_timed_wait() {
    let clock = ManualClock::new();
    let home = Loop::with_clock("home", &clock);
    let (promise, mut answer) = home.promise::<u32>();
    let waiter = thread(move || answer.wait_timeout(10 * SECOND));
    clock.await_sleepers(1);
    promise.succeed(4).unwrap();
    assert_eq!(waiter.join().unwrap().unwrap(), 4);
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn a_timeout_without_end_is_no_timeout() {
    let (promise, mut answer) = promise::<u32>();
    let waiter = thread(move || answer.wait_timeout(Duration::MAX));
    promise.succeed(1).unwrap();
    assert_eq!(waiter.join().unwrap().unwrap(), 1);
}

#[test]
fn a_wait_of_no_time_only_looks_even_on_a_loop() {
    let clock = ManualClock::new();
    let home = Loop::with_clock("home", &clock);
    let (promise, mut answer) = home.promise::<u32>();
    let (mut answer, error) = home.run(move || {
        let zero = answer.wait_timeout(Duration::ZERO).unwrap_err();
        (answer, zero)
    });
    assert!(error.is_timeout());
    promise.succeed(1).unwrap();
    assert_eq!(answer.wait_timeout(Duration::ZERO).unwrap(), 1);
}

#[test]
fn a_look_leaves_nothing_behind() {
    let (promise, mut answer) = promise::<u32>();
    for _ in 0..3 {
        assert!(
            answer
                .wait_timeout(Duration::ZERO)
                .unwrap_err()
                .is_timeout()
        );
    }
    drop(answer);
    assert!(!promise.is_observed());
}

#[test]
fn neither_a_look_nor_a_refusal_loses_the_waker_of_a_poll() {
    let (promise, mut answer) = promise::<u32>();
    let (waker, woken) = crate::support::counting_waker();
    let mut context = std::task::Context::from_waker(&waker);
    let pinned = std::pin::Pin::new(&mut answer);
    assert!(pinned.poll(&mut context).is_pending());
    let looked = answer.wait_timeout(Duration::ZERO);
    assert!(looked.unwrap_err().is_timeout());
    let refused = Blocking::forbid(|| answer.wait_timeout(SECOND));
    assert!(refused.unwrap_err().is_refused());
    promise.succeed(1).unwrap();
    assert_eq!(woken.count(), 1);
}

#[test]
fn a_token_interrupts_a_wait() {
    let (promise, mut answer) = promise::<u32>();
    let token = CancelToken::new();
    let tripped = token.clone();
    let started = Gate::new();
    let here = started.clone();
    let waiter = thread(move || {
        here.open();
        let error = answer.wait_with_cancel(&tripped).unwrap_err();
        (error, answer)
    });
    started.wait();
    assert!(token.cancel());
    let (error, mut answer) = waiter.join().unwrap();
    assert!(matches!(error, WaitError::Interrupted));
    assert!(
        !promise.is_cancelled(),
        "the wait was interrupted, not the work"
    );
    promise.succeed(1).unwrap();
    let again = answer.wait_with_cancel(&token).unwrap_err();
    // A tripped token takes precedence over a decided outcome.
    assert!(matches!(again, WaitError::Interrupted));
    assert_eq!(answer.wait_with_cancel(&CancelToken::new()).unwrap(), 1);
}

#[test]
fn a_token_that_is_not_tripped_changes_nothing() {
    let (promise, answer) = promise::<u32>();
    let shared = answer.share().unwrap();
    let waiter = thread(move || shared.wait_with_cancel(&CancelToken::new()));
    promise.succeed(2).unwrap();
    assert_eq!(waiter.join().unwrap().unwrap(), 2);
}

#[test]
fn on_the_own_loop_it_is_refused_naming_it() {
    let home = Loop::new("home");
    let (_promise, answer) = home.promise::<u32>();
    let error = home.run(move || answer.wait().unwrap_err());
    assert!(error.is_refused());
    let WaitError::Refused(why) = &error else {
        panic!("refused");
    };
    assert_eq!(why.names(), ["home", "home"]);
    assert!(error.to_string().contains("must not block"), "{error}");
}

#[test]
fn on_another_loop_it_is_refused_too_naming_both() {
    let (home, other) = (Loop::new("home"), Loop::new("other"));
    let (_promise, mut answer) = home.promise::<u32>();
    let error = other.run(move || answer.wait_timeout(SECOND).unwrap_err());
    let WaitError::Refused(why) = error else {
        panic!("refused");
    };
    assert_eq!(why.names(), ["other", "home"]);
    let (_promise, answer) = promise::<u32>();
    assert!(other.run(move || answer.wait().unwrap_err()).is_refused());
}

#[test]
fn on_a_thread_tagged_non_blocking_it_is_refused() {
    let home = Loop::new("home");
    let (_promise, answer) = home.promise::<u32>();
    let error = Blocking::forbid(|| answer.wait()).unwrap_err();
    let WaitError::Refused(why) = error else {
        panic!("refused");
    };
    assert!(why.names().contains(&"home"));
    let (_promise, answer) = promise::<u32>();
    let refused = Blocking::forbid(|| answer.wait()).unwrap_err();
    assert!(refused.is_refused());
}

#[test]
fn a_refused_wait_leaves_the_completion_as_it_was() {
    let home = Loop::new("home");
    let (promise, mut answer) = home.promise::<u32>();
    let (answer, error) = home.run(move || {
        let error = answer.wait_timeout(SECOND).unwrap_err();
        (answer, error)
    });
    assert!(error.is_refused());
    promise.succeed(1).unwrap();
    assert_eq!(answer.wait().unwrap(), 1);
}

#[test]
fn a_completed_promise_is_never_refused() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    promise.succeed(1).unwrap();
    assert_eq!(home.run(move || answer.wait().unwrap()), 1);
    let (promise, mut answer) = home.promise::<u32>();
    promise.succeed(2).unwrap();
    assert_eq!(Blocking::forbid(|| answer.wait_timeout(SECOND)).unwrap(), 2);
    let (promise, answer) = home.promise::<u32>();
    drop(promise);
    let error = home.run(move || answer.wait().unwrap_err());
    assert!(error.failure().unwrap().is_abandoned());
}

#[test]
fn inside_blocking_allowed_a_loop_may_wait() {
    let (home, other) = (Loop::new("home"), Loop::new("other"));
    let (promise, answer) = home.promise::<u32>();
    let entered = Gate::new();
    let here = entered.clone();
    let waiter = thread(move || {
        other.run(move || {
            here.open();
            Blocking::allow(|| answer.wait())
        })
    });
    entered.wait();
    promise.succeed(1).unwrap();
    assert_eq!(waiter.join().unwrap().unwrap(), 1);
}

#[test]
fn a_loop_that_waits_for_itself_is_a_circle() {
    let home = Loop::new("home");
    let (_promise, answer) = home.promise::<u32>();
    let error = home.run(move || Blocking::allow(|| answer.wait()).unwrap_err());
    let WaitError::Refused(why) = error else {
        panic!("refused");
    };
    assert!(why.is_deadlock());
    assert_eq!(why.names(), ["home"]);
}

/// Makes each of `loops` but the last wait for the next, then the last for the first. Returns the
/// error of the last wait.
fn close_circle(loops: &[Loop]) -> WaitError<Failure> {
    let mut promises = Vec::new();
    for pair in loops.windows(2) {
        let (promise, answer) = pair[1].promise::<u32>();
        let answer = answer.share().unwrap();
        pair[0].spawn(move || {
            // A wait with a limit, as the last one is, closes no circle for others.
            let _ = Blocking::allow(|| answer.wait());
        });
        promises.push(promise);
    }
    let (_promise, answer) = loops[0].promise::<u32>();
    let answer = answer.share().unwrap();
    // The other loops may not be waiting yet; retry until all their waits are recorded.
    let last = &loops[loops.len() - 1];
    until_some("the last wait is refused", || {
        let answer = answer.clone();
        let error = last.run(move || {
            let moment = Duration::from_nanos(1);
            Blocking::allow(|| answer.wait_timeout(moment)).unwrap_err()
        });
        assert!(error.is_refused() || error.is_timeout());
        error.is_refused().then_some(error)
    })
}

#[test]
fn two_loops_that_wait_for_each_other_are_a_circle() {
    let loops = [Loop::new("one"), Loop::new("two")];
    let error = close_circle(&loops);
    let WaitError::Refused(why) = &error else {
        panic!("refused");
    };
    assert!(why.is_deadlock());
    assert_eq!(why.names(), ["two", "one"]);
    assert!(
        error
            .to_string()
            .contains("two waits for one, one waits for two")
    );
}

#[test]
fn three_loops_that_wait_for_each_other_are_a_circle() {
    let loops = [Loop::new("one"), Loop::new("two"), Loop::new("three")];
    let WaitError::Refused(why) = close_circle(&loops) else {
        panic!("refused");
    };
    assert!(why.is_deadlock());
    assert_eq!(why.names(), ["three", "one", "two"]);
}

#[test]
fn a_pool_of_one_thread_cannot_wait_for_itself() {
    let pool = Loop::pool("pool", 1);
    let (_promise, answer) = pool.promise::<u32>();
    let WaitError::Refused(why) = pool.run(move || answer.wait().unwrap_err()) else {
        panic!("refused");
    };
    assert!(why.is_deadlock());
    assert_eq!(why.names(), ["pool"]);
}

#[test]
fn a_pool_of_two_threads_can_wait_for_itself_once() {
    let pool = Loop::pool("pool", 2);
    let (promise, answer) = pool.promise::<u32>();
    let (entered, go_on) = (Gate::new(), Gate::new());
    let (arrived, gate) = (entered.clone(), go_on.clone());
    pool.spawn(move || {
        gate.wait();
        promise.succeed(2).unwrap();
    });
    let waiter = thread(move || {
        pool.run(move || {
            arrived.open();
            answer.wait().unwrap()
        })
    });
    entered.wait();
    go_on.open();
    assert_eq!(waiter.join().unwrap(), 2);
}

#[test]
fn a_thread_that_completes_a_promise_may_wait_for_the_thread_that_it_wakes() {
    let (one, two) = (Loop::pool("one", 1), Loop::pool("two", 1));
    for _ in 0..rounds(1_000) {
        let (promise, answer) = two.promise::<u32>();
        let (reply, replied) = one.promise::<u32>();
        one.spawn(move || reply.succeed(answer.wait().unwrap() + 1).unwrap());
        let got = two.run(move || {
            promise.succeed(1).unwrap();
            replied.wait()
        });
        assert_eq!(got.unwrap(), 2);
    }
}

#[test]
fn a_decided_completion_is_waited_for_without_sleeping() {
    assert_eq!(Completion::<u32>::succeeded(1).wait().unwrap(), 1);
    let failed = Completion::<u32>::failed(Failure::new("no luck"));
    assert!(failed.wait().unwrap_err().failure().is_some());
    let mut done = Completion::<u32>::succeeded(1);
    let token = CancelToken::new();
    token.cancel();
    let interrupted = done.wait_with_cancel(&token);
    assert!(matches!(interrupted, Err(WaitError::Interrupted)));
}

#[test]
fn errors_chain_to_the_cause_behind_the_failure() {
    use std::error::Error;
    #[derive(Debug)]
    struct Outer(std::io::Error);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("could not save")
        }
    }
    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    let cause = Failure::new(Outer(std::io::Error::other("disk full")));
    let error = Completion::<u32>::failed(cause).wait().unwrap_err();
    assert_eq!(error.to_string(), "could not save");
    assert_eq!(error.source().unwrap().to_string(), "disk full");
}

/// Holds the completion that a listener takes and waits for.
type Slot = Arc<Mutex<Option<Completion<u32>>>>;

fn wait_for(slot: &Slot) -> Result<u32, WaitError<Failure>> {
    let answer = slot.lock().unwrap().take();
    answer.expect("it was left here").wait()
}

#[test]
fn a_wait_in_its_own_listener_is_refused() {
    let ((promise, answer), log) = (promise::<u32>(), Log::new());
    let (slot, received) = (Slot::default(), log.clone());
    let inside = Arc::clone(&slot);
    answer.on_complete(move |_| received.push(wait_for(&inside).unwrap_err()));
    *slot.lock().unwrap() = Some(answer);
    promise.succeed(7).unwrap();
    let error = log.take().remove(0);
    assert!(error.is_refused());
    assert!(
        error
            .to_string()
            .contains("use the outcome that the listener was given")
    );
}

#[test]
fn a_wait_in_a_listener_inside_its_own_listener_is_refused() {
    let ((outer, answer), log) = (promise::<u32>(), Log::new());
    let (inner, notified) = promise::<u32>();
    let (slot, received) = (Slot::default(), log.clone());
    let inside = Arc::clone(&slot);
    answer.on_complete(move |_| inner.succeed(1).unwrap());
    notified.on_complete(move |_| received.push(wait_for(&inside).unwrap_err().is_refused()));
    *slot.lock().unwrap() = Some(answer);
    outer.succeed(7).unwrap();
    assert_eq!(log.take(), [true]);
}

/// How the innermost of nested listeners gets an outcome.
type Get = fn(Completion<u32>) -> Result<u32, WaitError<Failure>>;

/// Completes promises in nested listeners, each on the stack of the one before. The innermost gets
/// the outcome of the last one.
fn nest(depth: u32, get: Get, log: Log<u32>) {
    let (promise, answer) = promise::<u32>();
    if depth == 0 {
        let mapped = answer.map(|value| value + 1);
        promise.succeed(7).unwrap();
        return log.push(get(mapped).unwrap());
    }
    answer.on_complete(move |_| nest(depth - 1, get, log));
    promise.succeed(0).unwrap();
}

#[test]
fn a_wait_first_runs_what_this_thread_has_put_off() {
    let ways: [Get; 4] = [
        Completion::wait,
        |answer| answer.share().unwrap().wait(),
        |answer| block_on("it is ready", answer),
        |answer| block_on("it is ready", answer.share().unwrap()),
    ];
    for get in ways {
        let log = Log::new();
        nest(8, get, log.clone());
        assert_eq!(log.take(), [8]);
    }
}

#[test]
fn what_blocks_a_listener_may_nest_listeners_of_its_own() {
    fn drives(answer: Completion<u32>) -> Result<u32, WaitError<Failure>> {
        as_outermost(|| {
            let (promise, other) = promise::<u32>();
            let other = other.map(|value| value + 1);
            promise.succeed(7).unwrap();
            assert!(other.is_done(), "it was not put off");
            answer.wait()
        })
    }
    let log = Log::new();
    nest(8, drives, log.clone());
    assert_eq!(log.take(), [8]);
}

#[test]
fn a_listener_may_wait_for_another_promise() {
    let ((promise, answer), log) = (promise::<u32>(), Log::new());
    let (other, later) = tidegate_promise::promise::<u32>();
    let received = log.clone();
    answer.on_complete(move |_| {
        later.on_complete(|_| ());
        other.succeed(2).unwrap();
        received.push(later.wait().unwrap());
    });
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), [2]);
}
