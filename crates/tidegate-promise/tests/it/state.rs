//! States and transitions: a promise is decided once, in one of three ways.

use std::cell::Cell;

use tidegate_promise::{
    AbandonedError, AlreadyCancelled, Completion, Failure, FailureKind, Outcome, WaitError,
    promise, promise_with_error,
};
use tidegate_testkit::{Counter, Log};

use crate::support::{Loop, thread};

#[test]
fn an_undecided_promise_is_none_of_the_three() {
    let (promise, answer) = promise::<u32>();
    assert!(!answer.is_done() && !answer.is_cancelled() && !promise.is_cancelled());
    assert!(answer.is_cancellable() && promise.is_observed());
    assert!(answer.peek().is_none());
    drop(promise);
}

#[test]
fn a_success_has_a_value_and_no_cause() {
    let (promise, answer) = promise::<u32>();
    promise.succeed(7).unwrap();
    assert!(answer.is_done() && !answer.is_cancelled() && !answer.is_cancellable());
    let outcome = answer.peek().unwrap();
    assert!(outcome.is_success() && outcome.failure().is_none());
    assert_eq!(answer.peek().unwrap().success(), Some(&7));
}

#[test]
fn a_failure_has_a_cause_and_no_value() {
    let (promise, answer) = promise::<u32>();
    promise.fail(Failure::new("no luck")).unwrap();
    assert!(answer.is_done() && !answer.is_cancelled());
    let outcome = answer.peek().unwrap();
    assert!(!outcome.is_success() && outcome.success().is_none());
    assert_eq!(outcome.failure().unwrap().to_string(), "no luck");
}

#[test]
fn a_cancelled_promise_is_done_and_neither_success_nor_failure() {
    let (promise, answer) = promise::<u32>();
    assert!(answer.cancel());
    assert!(answer.is_done() && answer.is_cancelled() && promise.is_cancelled());
    let outcome = answer.peek().unwrap();
    assert!(outcome.is_cancelled() && !outcome.is_success() && outcome.failure().is_none());
    assert!(matches!(answer.wait(), Err(WaitError::Cancelled)));
}

#[test]
fn completing_after_a_cancellation_gives_the_value_back() {
    let (promise, answer) = promise::<String>();
    assert!(answer.cancel());
    let back = promise.succeed("mine".to_owned()).unwrap_err();
    assert_eq!(back.into_inner(), "mine");
    let (promise, answer) = promise_with_error::<u32, Failure>();
    assert!(answer.cancel());
    let cause = promise.fail(Failure::new("late")).unwrap_err().into_inner();
    assert_eq!(cause.to_string(), "late");
    let (promise, answer) = promise_with_error::<u32, Failure>();
    assert!(answer.cancel());
    assert_eq!(
        promise.complete(Ok(1)).unwrap_err().into_inner().ok(),
        Some(1)
    );
}

/// Compiles only if the error with a value that is `Send` but not `Sync` is both.
#[test]
fn the_value_that_comes_back_may_be_passed_on_as_an_error() {
    fn late() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (promise, answer) = promise::<Cell<u32>>();
        assert!(answer.cancel());
        promise.succeed(Cell::new(1))?;
        Ok(())
    }
    let error = late().unwrap_err();
    assert!(
        error
            .downcast_ref::<AlreadyCancelled<Cell<u32>>>()
            .is_some()
    );
    assert!(
        error
            .to_string()
            .starts_with("the promise was cancelled by its reader")
    );
}

#[test]
fn cancelling_succeeds_only_once_and_only_while_undecided() {
    let (promise, answer) = promise::<u32>();
    assert!(answer.cancel());
    assert!(!answer.cancel(), "it was cancelled before");
    drop(promise);
    assert!(
        answer.is_cancelled(),
        "an abandoned promise stays cancelled"
    );

    let (promise, answer) = tidegate_promise::promise::<u32>();
    promise.succeed(1).unwrap();
    assert!(!answer.cancel(), "it was decided before");
    assert_eq!(answer.wait().unwrap(), 1);
}

#[test]
fn an_uncancellable_promise_can_be_completed_and_not_cancelled() {
    let (promise, answer) = promise::<u32>();
    assert!(promise.set_uncancellable());
    assert!(!answer.is_cancellable() && !answer.is_done());
    assert!(answer.peek().is_none(), "it has no value while undecided");
    assert!(!answer.cancel());
    promise.succeed(3).unwrap();
    assert_eq!(answer.wait().unwrap(), 3);
}

#[test]
fn set_uncancellable_returns_false_only_when_cancelled() {
    let (promise, answer) = promise::<u32>();
    assert!(promise.set_uncancellable(), "marked now");
    assert!(promise.set_uncancellable(), "marked before");
    let shared = promise.share();
    shared.try_succeed(1).unwrap();
    assert!(shared.set_uncancellable(), "completed");
    drop(answer);

    let (promise, answer) = tidegate_promise::promise::<u32>();
    assert!(answer.cancel());
    assert!(!promise.set_uncancellable(), "cancelled");
}

#[test]
fn a_shared_promise_is_completed_by_the_first_and_refuses_the_others() {
    let (promise, answer) = promise::<u32>();
    let first = promise.share();
    let second = first.clone();
    assert!(!second.is_done());
    assert_eq!(second.try_succeed(2), Ok(()));
    assert_eq!(first.try_succeed(1), Err(1));
    let refused = first.try_fail(Failure::new("late")).unwrap_err();
    assert_eq!(refused.to_string(), "late");
    assert!(first.try_complete(Ok(4)).is_err());
    assert!(first.is_done() && !first.cancel() && !first.is_cancelled());
    assert_eq!(answer.wait().unwrap(), 2);
}

#[test]
fn a_writer_can_cancel_from_its_side() {
    let (promise, answer) = promise::<u32>();
    let shared = promise.share();
    assert!(shared.cancel() && !shared.cancel());
    assert!(shared.is_cancelled() && answer.is_cancelled());
    assert_eq!(shared.try_succeed(1), Err(1));

    let (promise, answer) = tidegate_promise::promise::<u32>();
    promise.cancel();
    assert!(answer.is_cancelled());

    let (promise, answer) = tidegate_promise::promise::<u32>();
    promise.set_uncancellable();
    promise.cancel();
    let cause = answer.wait().unwrap_err().failure().unwrap();
    assert!(cause.is_abandoned(), "its work had begun");
}

#[test]
fn a_dropped_promise_fails_as_abandoned() {
    let (promise, answer) = promise::<u32>();
    drop(promise);
    let cause = answer.wait().unwrap_err().failure().unwrap();
    assert!(cause.is_abandoned());
    assert_eq!(cause.kind(), FailureKind::Abandoned);
}

#[test]
fn the_last_shared_writer_abandons() {
    let (promise, answer) = promise::<u32>();
    let first = promise.share();
    let second = first.clone();
    drop(first);
    assert!(!answer.is_done());
    drop(second);
    let cause = answer.wait().unwrap_err().failure().unwrap();
    assert!(cause.is_abandoned());
}

#[test]
fn a_panic_of_the_worker_abandons() {
    let (promise, answer) = promise::<u32>();
    let worker = thread(move || {
        let _promise = promise;
        panic!("on purpose");
    });
    let cause = answer.wait().unwrap_err().failure().unwrap();
    assert!(cause.is_abandoned());
    assert!(worker.join().is_err());
}

#[test]
fn a_value_without_content_is_still_a_value() {
    let (promise, answer) = promise::<()>();
    assert!(answer.peek().is_none());
    promise.succeed(()).unwrap();
    assert!(answer.peek().unwrap().is_success());
    let (promise, mut answer) = tidegate_promise::promise::<Option<u32>>();
    assert!(answer.take().is_none());
    promise.succeed(None).unwrap();
    assert_eq!(answer.take().unwrap().success(), Some(None));
}

#[test]
fn taking_moves_the_value_out_once() {
    let (promise, mut answer) = promise::<String>();
    assert!(answer.take().is_none());
    promise.succeed("mine".to_owned()).unwrap();
    let Some(Outcome::Success(value)) = answer.take() else {
        panic!("it succeeded");
    };
    assert_eq!(value, "mine");
    assert!(answer.take().is_none() && answer.peek().is_none() && answer.is_done());
    assert!(matches!(answer.wait(), Err(WaitError::Taken)));
}

#[test]
fn a_cancelled_outcome_is_taken_once_too() {
    let (_promise, mut answer) = promise::<u32>();
    answer.cancel();
    assert!(answer.take().unwrap().is_cancelled());
    assert!(answer.take().is_none() && answer.peek().is_none());
}

#[test]
fn a_completion_can_be_born_decided() {
    let done: Completion<u32> = Completion::succeeded(1);
    assert!(done.is_done() && !done.is_cancelled() && !done.is_cancellable() && !done.cancel());
    assert_eq!(done.peek().unwrap().success(), Some(&1));
    let failed: Completion<u32> = Completion::failed(Failure::new("no luck"));
    assert!(failed.is_done() && !failed.is_cancelled() && !failed.cancel());
    let cause = failed.wait().unwrap_err().failure().unwrap();
    assert_eq!(cause.to_string(), "no luck");
}

#[test]
fn a_completion_created_decided_calls_its_listeners_at_once() {
    let log = Log::new();
    let done: Completion<u32> = Completion::succeeded(1);
    let received = log.clone();
    let listener = done.on_complete(move |outcome| received.push(outcome.success().copied()));
    assert_eq!(log.take(), [Some(1)]);
    assert!(!done.remove_listener(&listener), "it was called");
}

#[test]
fn failures_of_ones_own_type_need_only_know_abandonment() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Gone,
        Broken(u32),
    }
    impl From<AbandonedError> for Mine {
        fn from(_: AbandonedError) -> Self {
            Self::Gone
        }
    }
    let (promise, answer) = promise_with_error::<u32, Mine>();
    promise.fail(Mine::Broken(3)).unwrap();
    assert_eq!(answer.wait().unwrap_err().failure(), Some(Mine::Broken(3)));
    let (promise, answer) = promise_with_error::<u32, Mine>();
    drop(promise);
    assert_eq!(answer.wait().unwrap_err().failure(), Some(Mine::Gone));
}

#[test]
fn the_writer_sees_whether_it_is_observed() {
    let (promise, answer) = promise::<u32>();
    assert!(promise.is_observed());
    drop(answer);
    assert!(!promise.is_observed());

    let (promise, answer) = tidegate_promise::promise::<u32>();
    answer.finally(|_| ());
    assert!(promise.is_observed(), "a listener is left");

    let (promise, answer) = tidegate_promise::promise::<u32>();
    let listener = answer.on_complete(|_| ());
    assert!(answer.remove_listener(&listener));
    drop(answer);
    assert!(!promise.is_observed(), "the listener was removed");

    let (promise, mut answer) = tidegate_promise::promise::<u32>();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(
        std::pin::Pin::new(&mut answer)
            .poll(&mut context)
            .is_pending()
    );
    drop(answer);
    assert!(!promise.is_observed(), "it is no longer polled");
}

#[test]
fn the_hook_runs_once_on_the_thread_that_cancels() {
    let (promise, answer) = promise::<u32>();
    let (replaced, ran) = (Counter::new(), Log::new());
    let count = replaced.clone();
    promise.on_cancel(move || count.note());
    let log = ran.clone();
    promise.on_cancel(move || log.push(std::thread::current().id()));
    let id = thread(move || {
        assert!(answer.cancel() && !answer.cancel());
        std::thread::current().id()
    });
    let id = id.join().unwrap();
    assert_eq!(ran.take(), [id]);
    assert_eq!(replaced.count(), 0, "a later hook replaces an earlier one");
}

#[test]
fn a_hook_on_a_cancelled_promise_runs_at_once() {
    let (promise, answer) = promise::<u32>();
    answer.cancel();
    let ran = Counter::new();
    let count = ran.clone();
    promise.on_cancel(move || count.note());
    assert_eq!(ran.count(), 1);
}

#[test]
fn a_hook_does_not_run_when_the_promise_completes() {
    let (promise, answer) = promise::<u32>();
    promise.on_cancel(|| panic!("it was not cancelled"));
    promise.succeed(1).unwrap();
    assert!(!answer.cancel());
    assert_eq!(answer.wait().unwrap(), 1);
}

#[test]
fn a_panicking_hook_is_reported_and_listeners_still_run() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    promise.on_cancel(|| panic!("on purpose"));
    let log = Log::new();
    let received = log.clone();
    answer.on_complete(move |outcome| received.push(outcome.is_cancelled()));
    assert!(answer.cancel());
    log.wait_for(1);
    assert_eq!(log.take(), [true]);
    assert_eq!(home.unhandled(), ["a listener panicked: on purpose"]);
}

#[test]
fn a_guard_cancels_when_it_is_dropped_undecided() {
    let (promise, answer) = promise::<u32>();
    let guard = answer.cancel_on_drop();
    assert!(!guard.is_done());
    drop(guard);
    assert!(promise.is_cancelled());

    let (promise, answer) = tidegate_promise::promise::<u32>();
    let guard = answer.cancel_on_drop();
    promise.succeed(1).unwrap();
    assert_eq!(guard.disarm().wait().unwrap(), 1);

    let (promise, answer) = tidegate_promise::promise::<u32>();
    let answer = answer.cancel_on_drop().disarm();
    drop(answer);
    assert!(!promise.is_cancelled(), "a disarmed guard detaches");
}

#[test]
fn a_listener_detaches_the_guard_to_which_it_is_added() {
    let log = Log::new();
    for by_value in [false, true] {
        let (promise, answer) = promise::<u32>();
        let own = log.clone();
        let listen = move |outcome: Outcome<&u32, &Failure>| own.push(outcome.success().copied());
        match by_value {
            true => answer.cancel_on_drop().finally(listen),
            false => drop(answer.cancel_on_drop().on_complete(listen)),
        }
        assert!(!promise.is_cancelled());
        promise.succeed(42).unwrap();
    }
    assert_eq!(log.take(), [Some(42), Some(42)]);

    let (promise, answer) = promise::<u32>();
    let answer = answer.cancel_on_drop().on_complete(|_| {});
    assert!(answer.cancel() && promise.is_cancelled());
}

#[test]
fn dropping_the_read_end_detaches() {
    let (promise, answer) = promise::<u32>();
    drop(answer);
    assert!(!promise.is_cancelled());
    promise.succeed(1).unwrap();
}

#[test]
fn a_cancellation_needs_no_cause_object() {
    // A cancellation is a bare enum variant: no cause object is created.
    assert_eq!(size_of::<Outcome<(), ()>>(), 1);
    let (_promise, answer) = promise::<u32>();
    answer.cancel();
    assert_eq!(
        answer.wait().unwrap_err().to_string(),
        "the promise was cancelled"
    );
}

#[test]
fn failures_say_what_they_are() {
    let caught = std::panic::catch_unwind(|| panic!("out of ink")).unwrap_err();
    let failure = Failure::from_panic(caught);
    assert!(failure.is_panic());
    assert!(
        failure
            .to_string()
            .ends_with("promise panicked: out of ink")
    );
    let cancelled = Failure::cancelled();
    assert_eq!(cancelled.kind(), FailureKind::Cancelled);
    let io = Failure::new(std::io::Error::other("disk full"));
    assert!(io.downcast_ref::<std::io::Error>().is_some());
    assert!(cancelled.downcast_ref::<std::io::Error>().is_none());
    assert_eq!(format!("{io:?}"), "disk full");
}

#[test]
fn a_shared_promise_of_what_cannot_be_cloned_can_be_cloned() {
    struct Unique;
    let (promise, answer) = promise::<Unique>();
    let (one, two) = {
        let one = promise.share();
        (one.clone(), one)
    };
    assert!(one.try_succeed(Unique).is_ok());
    assert!(two.try_succeed(Unique).is_err());
    assert!(answer.wait().is_ok());
}
