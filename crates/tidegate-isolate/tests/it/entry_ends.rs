//! Entries that are ended by value, and entries that a future holds while it waits.

use std::task::{Context, Waker};

use tidegate_core::Parker;
use tidegate_isolate::internal::{CallTerms, UntypedCommand};
use tidegate_isolate::{Cause, CommandError, Entry, Event, Rejection, RequestContext, Verdict};

use crate::support::{Numbers, SECOND, alone, counted, events};

type Ended = Result<(), CommandError<&'static str>>;

#[test]
fn an_entry_that_is_ended_reports_its_verdict_and_gives_the_permit_back() {
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    for verdict in [Verdict::Success, Verdict::Failure, Verdict::Ignored] {
        let ended: Ended = command.admit().unwrap().end(verdict);
        assert_eq!(ended, Ok(()));
        assert_eq!(command.snapshot().active, 0);
    }
    let totals = command.snapshot().totals;
    for event in [Event::Success, Event::Failure, Event::BadRequest] {
        assert_eq!(totals[event], 1, "{event:?}");
    }
}

#[test]
fn an_entry_that_is_ended_too_late_is_an_error() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let entry = command.admit().unwrap();
    clock.advance(SECOND);
    let error = Ended::unwrap_err(entry.end(true));
    assert_eq!(error.cause(), &Cause::TimedOut(SECOND));
    let thrown = [Event::Timeout, Event::ExceptionThrown];
    assert_eq!(error.events(), events(&thrown));
    assert_eq!(counted(&command), thrown.map(|event| (event, 1)));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn an_entry_with_a_verdict_is_only_dropped() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let entry = command.admit().unwrap();
    assert!(entry.verdict(true));
    clock.advance(SECOND);
    assert_eq!(Ended::Ok(()), entry.end(false));
    let entry = command.admit().unwrap();
    assert!(entry.verdict(true));
    let error = entry.fail(Cause::Failed("down"));
    assert_eq!(
        (error.failure(), error.events()),
        (Some(&"down"), events(&[]))
    );
    assert_eq!(counted(&command), [(Event::Success, 2)]);
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn an_entry_that_fails_is_counted_as_its_cause() {
    let (_clock, _isolation, command) = alone(|c| c);
    for (cause, event) in [
        (Cause::Failed("down"), Event::Failure),
        (Cause::Panicked("out of ink".into()), Event::Failure),
        (Cause::BadRequest("no article"), Event::BadRequest),
    ] {
        let error = command.admit().unwrap().fail(cause.clone());
        assert_eq!(error.cause(), &cause);
        assert!(error.events().contains(event), "{error:?}");
    }
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Failure], totals[Event::BadRequest]), (2, 1));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn the_timer_wakes_a_future_that_holds_an_entry() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let mut entry = command.admit().unwrap();
    let parker = Parker::new();
    waits(&mut entry, &parker);
    clock.advance(SECOND);
    assert!(parker.park(None), "the timer has woken it");
    let mut context = Context::from_waker(Waker::noop());
    assert!(entry.poll_expired(&mut context).is_ready() && entry.is_expired());
    assert_eq!(command.snapshot().active, 1, "the holder ends the call");
    let error = entry.fail(Cause::Failed("down"));
    assert!(error.is_timed_out(), "the timer was first");
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_stop_wakes_a_future_that_holds_an_entry_without_a_timeout() {
    let (_clock, isolation, command) = alone(|c| c.no_timeout());
    let mut entry = command.admit().unwrap();
    let parker = Parker::new();
    waits(&mut entry, &parker);
    isolation.shutdown_now();
    assert!(parker.park(None), "the stop has woken it");
    assert!(Ended::unwrap_err(entry.end(true)).is_cancelled());
}

#[test]
fn an_entry_that_has_ended_wakes_nobody() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let parker = Parker::new();
    let mut first = command.admit().unwrap();
    waits(&mut first, &parker);
    assert_eq!(Ended::Ok(()), first.end(true));
    // The next call uses the same slot of the timer. Its timeout concerns only itself.
    let mut second = command.admit().unwrap();
    let other = Parker::new();
    waits(&mut second, &other);
    clock.advance(SECOND);
    assert!(other.park(None));
    assert!(
        !parker.park(Some(std::time::Duration::ZERO)),
        "it was not woken"
    );
}

/// Polls the entry, whose time has not come, as a future that holds it does.
fn waits(entry: &mut Entry, parker: &Parker) {
    let polled = entry.poll_expired(&mut Context::from_waker(&Waker::from(parker)));
    assert!(polled.is_pending() && !entry.is_expired());
}

/// Returns a handle without types.
fn untyped(command: &Numbers) -> UntypedCommand {
    UntypedCommand::of(command)
}

#[test]
fn a_handle_without_types_makes_calls_of_the_same_command() {
    let (clock, _isolation, command) = alone(|c| c.permits(1).timeout(SECOND));
    let short = CallTerms {
        at_most: Some(SECOND / 4),
        ..CallTerms::default()
    };
    let entry = untyped(&command).admit::<String>(short).unwrap();
    assert!(
        command.admit().unwrap_err().is_rejected(),
        "the permit is taken"
    );
    clock.advance(SECOND / 4);
    let late: Result<(), CommandError<String>> = entry.end(true);
    assert_eq!(late.unwrap_err().cause(), &Cause::TimedOut(SECOND / 4));
    let context = RequestContext::new();
    let long = CallTerms {
        at_most: Some(SECOND * 9),
        context: Some(context.clone()),
        ..CallTerms::default()
    };
    let entry = untyped(&command).admit::<String>(long).unwrap();
    clock.advance(SECOND);
    let late: Result<(), CommandError<String>> = entry.end(true);
    assert_eq!(late.unwrap_err().cause(), &Cause::TimedOut(SECOND));
    assert_eq!(context.log().len(), 1);
    assert_eq!(untyped(&command).key(), command.key());
}

#[test]
fn a_handle_without_types_makes_no_calls_after_the_end() {
    let (_clock, isolation, command) = alone(|c| c);
    isolation.shutdown_now();
    let refused = untyped(&command).admit::<String>(CallTerms::default());
    let error = refused.unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Closed));
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 1);
}
