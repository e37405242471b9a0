//! Timeouts of calls with permits: the token is tripped, and the permit is kept until the work
//! ends.

use std::time::Duration;

use tidegate_isolate::{Cause, Event};
use tidegate_testkit::Gate;

use crate::support::{alone, builder, counted, made, still};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_work_that_passes_its_deadline_has_its_token_tripped() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND).fallback(|_| Ok(0)));
    let turn = clock.clone();
    let answer = command.run(move |cancel| {
        assert_eq!(cancel.deadline(), Some(turn.now() + SECOND));
        turn.advance(SECOND - Duration::from_nanos(1));
        assert!(!cancel.is_cancelled());
        turn.advance(Duration::from_nanos(1));
        assert!(cancel.is_cancelled());
        Ok(1)
    });
    assert_eq!(answer, Ok(0), "its result comes too late");
    assert_eq!(
        counted(&command),
        [(Event::Timeout, 1), (Event::FallbackSuccess, 1)]
    );
    let snapshot = command.snapshot();
    assert_eq!(snapshot.window.health_errors(), 1);
    assert!(snapshot.latencies.run.max() >= Duration::from_millis(970));
}

#[test]
fn without_interrupts_the_token_stays_and_the_call_still_times_out() {
    let (clock, _isolation, command) = alone(|c| {
        c.timeout(SECOND)
            .configure(|c| c.interrupt_on_timeout = false)
    });
    let error = command.run(move |cancel| {
        clock.advance(SECOND);
        assert!(!cancel.is_cancelled());
        Ok(1)
    });
    assert_eq!(error.unwrap_err().cause(), &Cause::TimedOut(SECOND));
}

#[test]
fn hooks_of_the_token_run_when_the_time_is_over() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let (tripped, seen) = (Gate::new(), Gate::new());
    let open = tripped.clone();
    let error = command.run(move |cancel| {
        let _hook = cancel.on_cancel(move || open.open());
        clock.advance(SECOND);
        tripped.wait();
        seen.open();
        Ok(1)
    });
    assert!(error.unwrap_err().is_timed_out());
}

#[test]
fn the_permit_is_held_until_the_work_has_ended() {
    let (clock, _isolation, command) = alone(|c| c.permits(1).timeout(SECOND));
    let inner = command.clone();
    let error = command.run(move |_| {
        clock.advance(SECOND * 2);
        assert_eq!(inner.snapshot().active, 1);
        assert!(inner.run(|_| Ok(1)).unwrap_err().is_rejected());
        Ok(1)
    });
    assert!(error.unwrap_err().is_timed_out());
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

#[test]
fn a_call_has_its_own_timeout() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND * 10));
    let turn = clock.clone();
    let error = command.call().timeout(SECOND).run(move |cancel| {
        turn.advance(SECOND);
        assert!(cancel.is_cancelled());
        Ok(1)
    });
    assert_eq!(error.unwrap_err().cause(), &Cause::TimedOut(SECOND));
    let turn = clock.clone();
    let answer = command.run(move |_| {
        turn.advance(SECOND);
        Ok(1)
    });
    assert_eq!(answer, Ok(1));
}

#[test]
fn no_timeout_means_none() {
    let (clock, _isolation, command) = alone(|c| c.no_timeout());
    let answer = command.run(move |cancel| {
        assert_eq!(cancel.deadline(), None);
        clock.advance(SECOND * 1_000_000);
        Ok(1)
    });
    assert_eq!(answer, Ok(1));
}

#[test]
fn a_kept_token_is_never_tripped_by_a_later_call() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let (sender, receiver) = std::sync::mpsc::channel();
    command
        .run(move |cancel| {
            sender.send(cancel.clone()).unwrap();
            Ok(1)
        })
        .unwrap();
    let kept = receiver.recv().unwrap();
    let error = command.run(move |cancel| {
        clock.advance(SECOND);
        assert!(cancel.is_cancelled());
        Ok(1)
    });
    assert!(error.is_err());
    assert!(!kept.is_cancelled(), "cancellation belongs to the call");
}

#[test]
fn nested_calls_have_deadlines_of_their_own() {
    let (clock, isolation) = still();
    let outer = made(builder("outer").timeout(SECOND * 5), &isolation);
    let inner = builder("inner").timeout(SECOND).build(&isolation).unwrap();
    let answer = outer.run(move |outer_token| {
        let error = inner.run(move |inner_token| {
            clock.advance(SECOND);
            assert!(inner_token.is_cancelled());
            Ok(1)
        });
        assert!(error.unwrap_err().is_timed_out());
        assert!(!outer_token.is_cancelled());
        Ok(2)
    });
    assert_eq!(answer, Ok(2));
}

#[test]
fn stopping_cancels_running_calls() {
    let (_clock, isolation, command) = alone(|c| c);
    let stop = isolation.clone();
    let error = command.run(move |cancel| {
        stop.shutdown_now();
        assert!(cancel.is_cancelled());
        Ok(1)
    });
    assert!(error.is_err());
}

#[test]
fn timeouts_outlive_the_isolation_that_made_them() {
    let (clock, isolation, command) = alone(|c| c.timeout(SECOND));
    drop(isolation);
    let error = command.run(move |cancel| {
        clock.advance(SECOND);
        assert!(cancel.is_cancelled());
        Ok(1)
    });
    assert!(error.unwrap_err().is_timed_out());
}

#[test]
fn an_entry_that_is_dropped_late_counts_as_timed_out_even_if_no_timer_looked() {
    let (clock, isolation, command) = alone(|c| c.timeout(SECOND));
    isolation.shutdown_now();
    let entry = command.admit().unwrap();
    let token = entry.token().clone();
    clock.jump(SECOND);
    assert!(!token.is_cancelled(), "no timer is left");
    drop(entry);
    assert!(token.is_cancelled());
    assert_eq!(counted(&command), [(Event::Timeout, 1)]);
    assert_eq!(command.snapshot().active, 0);
}
