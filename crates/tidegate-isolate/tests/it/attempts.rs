//! Attempts that handlers make themselves: each is an entry, and one deadline covers them all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_isolate::{
    Attempts, Cause, CommandError, Event, Hedge, Interrupt, Rejection, Retry, RetryBudget,
};

use crate::steps::Steps;
use crate::support::{SECOND, alone, counted, waiting, with_handle};

type Retries = Attempts<u32, &'static str>;

const PAUSE: Duration = Duration::from_millis(100);

/// A policy with three attempts and pauses of the same length.
fn three() -> Retry<&'static str> {
    let retry = Retry::attempts(3).backoff(PAUSE, 1.0).jitter(0.0);
    retry.budget(&RetryBudget::new(0, 9))
}

/// Makes an attempt that fails.
fn fail(attempts: &mut Retries) -> CommandError<&'static str> {
    attempts.admit().unwrap().fail(Cause::Failed("busy"))
}

#[test]
fn each_attempt_is_an_entry_of_its_own() {
    let (clock, _isolation, command) = alone(|c| c.permits(3).timeout(SECOND));
    let mut attempts = three().begin(command.call());
    let first = attempts.admit().unwrap();
    assert!(first.verdict(false), "its body still streams");
    assert_eq!(attempts.after_failure(None), Some(PAUSE));
    clock.advance(PAUSE);
    let second = attempts.admit().unwrap();
    assert_eq!(command.snapshot().active, 2);
    drop(first);
    assert!(second.verdict(true));
    let totals = command.snapshot().totals;
    let [failure, success, retried] =
        [Event::Failure, Event::Success, Event::Retried].map(|event| totals[event]);
    assert_eq!((failure, success, retried), (1, 1, 1));
}

#[test]
fn an_attempt_needs_a_decision() {
    let (_clock, _isolation, command) = alone(|c| c);
    let mut attempts = three().begin(command.call());
    for _ in 0..2 {
        let error = fail(&mut attempts);
        let undecided = attempts.admit().unwrap_err();
        assert!(undecided.is_cancelled());
        assert_eq!(attempts.after_error(&error), Some(PAUSE));
    }
    let error = fail(&mut attempts);
    assert_eq!(attempts.after_error(&error), None, "three were made");
    assert_eq!(attempts.after_failure(None), None);
    assert!(!attempts.hedge());
    assert_eq!(command.snapshot().totals[Event::Failure], 3);
}

#[test]
fn the_budget_is_charged_when_an_attempt_is_decided() {
    let (_clock, _isolation, command) = alone(|c| c);
    let budget = RetryBudget::new(0, 2);
    let retry = three().budget(&budget);
    let mut calls = [(); 3].map(|()| retry.begin(command.call()));
    let decided = calls.each_mut().map(|attempts| {
        let error = fail(attempts);
        attempts.after_error(&error).is_some()
    });
    assert_eq!(
        decided,
        [true, true, false],
        "two of them pause and have not begun"
    );
    let [mut begins, dropped, _] = calls;
    drop(dropped);
    assert_eq!(budget.left(), 1, "one that never begins goes back");
    drop(begins.admit().unwrap());
    drop(begins);
    assert_eq!(budget.left(), 1);
}

#[test]
fn one_deadline_covers_all_attempts_and_pauses() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND / 4));
    let budget = RetryBudget::new(0, 9);
    let retry = three().budget(&budget);
    let start = clock.now();
    let mut attempts = retry.begin(command.call().timeout(SECOND / 2));
    assert_eq!(attempts.deadline(), Some(start + SECOND / 2));
    let first = attempts.admit().unwrap();
    assert_eq!(
        first.deadline(),
        Some(start + SECOND / 4),
        "the command's timeout"
    );
    clock.advance(SECOND / 4);
    let error: CommandError<&str> = first.fail(Cause::Failed("busy"));
    assert!(error.is_timed_out());
    assert_eq!(attempts.after_error(&error), Some(PAUSE));
    clock.advance(PAUSE);
    let second = attempts.admit().unwrap();
    assert_eq!(second.deadline(), Some(start + SECOND / 2), "what is left");
    assert!(second.verdict(false));
    clock.advance(Duration::from_millis(50));
    assert_eq!(
        attempts.after_failure(None),
        None,
        "the pause would end too late"
    );
    assert!((0..8).all(|_| budget.try_spend()), "that cost nothing");
    clock.advance(PAUSE);
    assert_eq!(attempts.after_failure(None), None);
}

#[test]
fn no_attempt_begins_after_the_deadline() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let mut attempts = three().begin(command.call());
    let error = fail(&mut attempts);
    assert!(attempts.after_error(&error).is_some());
    clock.advance(SECOND);
    let error = attempts.admit().unwrap_err();
    assert_eq!(error.cause(), &Cause::TimedOut(SECOND));
    assert_eq!(command.snapshot().totals[Event::Timeout], 1);
}

#[test]
fn no_attempt_begins_after_the_caller_has_left() {
    let (_clock, _isolation, command) = alone(|c| c);
    let (call, handle) = with_handle(command.call());
    let mut attempts = three().begin(call);
    let error = fail(&mut attempts);
    assert!(attempts.after_error(&error).is_some());
    handle.cancel(Interrupt::No);
    assert!(attempts.admit().unwrap_err().is_cancelled());
    assert_eq!(attempts.after_error(&error), None);
    assert!(!attempts.hedge());
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn no_retry_begins_after_the_isolation_was_stopped() {
    let (_clock, isolation, command) = alone(|c| c);
    let mut attempts = three().begin(command.call());
    let error = fail(&mut attempts);
    assert!(attempts.after_error(&error).is_some());
    isolation.shutdown_now();
    let closed = attempts.admit().unwrap_err();
    assert_eq!(closed.cause(), &Cause::Rejected(Rejection::Closed));
    assert_eq!(attempts.after_error(&error), None);
}

#[test]
fn a_second_attempt_next_to_a_slow_one_is_taken_from_the_budget() {
    let (clock, _isolation, command) = alone(|c| c.permits(3).timeout(SECOND));
    let hedge = Hedge {
        percentile: 100.0,
        min_samples: 4,
        at_least: Duration::ZERO,
        ..Hedge::default()
    };
    let budget = RetryBudget::new(0, 1);
    let retry = three().budget(&budget);
    let attempts: Retries = retry.begin(command.call());
    assert_eq!(attempts.hedge_pause(&hedge), None, "nothing is known yet");
    for _ in 0..4 {
        let entry = command.admit().unwrap();
        clock.advance(Duration::from_millis(40));
        assert!(entry.verdict(true));
    }
    let mut attempts = retry.begin(command.call());
    let slow = attempts.admit().unwrap();
    let pause = attempts.hedge_pause(&hedge).unwrap();
    assert!((38..=42).contains(&pause.as_millis()), "{pause:?}");
    clock.advance(pause);
    assert!(attempts.hedge() && !attempts.hedge(), "the budget had one");
    let second = attempts.admit().unwrap();
    assert!(second.verdict(true));
    assert!(
        slow.cancel(),
        "the loser is cancelled, and holds its permit"
    );
    drop(second);
    let snapshot = command.snapshot();
    assert_eq!((snapshot.active, snapshot.overstaying), (1, 1));
    assert_eq!(snapshot.totals[Event::Hedged], 1);
    drop(slow);
    let close_to_the_end = retry.begin(command.call().timeout(Duration::from_millis(10)));
    assert_eq!(close_to_the_end.hedge_pause(&hedge), None);
}

#[test]
fn an_attempt_may_wait_for_its_permit() {
    let (clock, _isolation, command) = alone(|c| c.permits(waiting(1, SECOND)));
    let home = Steps::new();
    let received = Arc::new(Mutex::new(Vec::new()));
    let closure = || {
        let received = Arc::clone(&received);
        move |admitted: Result<_, CommandError<&'static str>>| {
            received
                .lock()
                .unwrap()
                .push(admitted.map_err(CommandError::into_cause));
        }
    };
    let mut attempts = three().begin(command.call().timeout(SECOND / 2));
    let held = command.admit().unwrap();
    let pending = attempts.admit_or_wait(&home.home(), closure());
    drop(held);
    assert_eq!((home.run(), pending.is_pending()), (1, false));
    let entry = received.lock().unwrap().remove(0).unwrap();
    assert!(entry.verdict(false));
    drop(entry);
    assert!(attempts.after_failure(None).is_some());
    clock.advance(SECOND / 2);
    let late = attempts.admit_or_wait(&home.home(), closure());
    assert_eq!(home.run(), 1);
    let cause = received.lock().unwrap().remove(0).unwrap_err();
    assert_eq!(cause, Cause::TimedOut(SECOND / 2));
    drop(late);
    assert_eq!(command.snapshot().active, 0);
    assert!(counted(&command).contains(&(Event::Timeout, 1)));
}
