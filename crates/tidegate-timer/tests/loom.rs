//! Models of the timeout cell: every interleaving of a cancellation, an expiry and a reset (`cargo
//! xtask loom`). Three threads at most; loom checks the accesses to the value.
//!
//! Each of these changes fails a model: `swap` without Acquire, `swap` without Release, `word`
//! without Acquire; no fence in `reset`, or none in `arm`.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::thread;
use tidegate_timer::internal::{Reset, StillPending, TimeoutCell, TimeoutOutcome};

#[path = "../../tidegate-testkit/shared/race_cell.rs"]
mod race_cell;

#[path = "../../tidegate-testkit/shared/loom_log.rs"]
mod loom_log;

use loom_log::Log;
use race_cell::RaceCell;

/// Two cancellations and an expiry: exactly one gets the value, and the outcome says which.
#[test]
fn one_of_two_cancellations_and_an_expiry_gets_the_value() {
    loom::model(|| {
        let cell = StdArc::new(TimeoutCell::new(5, Arc::new(())));
        let cancels: Vec<_> = (0..2)
            .map(|_| {
                let cell = StdArc::clone(&cell);
                thread::spawn(move || usize::from(cell.decide(TimeoutOutcome::Cancelled).is_some()))
            })
            .collect();
        let expired = cell.expire(5).is_ok();
        let cancelled: usize = cancels
            .into_iter()
            .map(|cancel| cancel.join().expect("it does not panic"))
            .sum();
        assert_eq!(cancelled + usize::from(expired), 1);
        let outcome = if expired {
            TimeoutOutcome::Expired
        } else {
            TimeoutOutcome::Cancelled
        };
        assert_eq!(cell.outcome(), Some(outcome));
    });
}

/// A reset against an expiry: a granted reset is never overtaken by the old deadline, and writes
/// before the reset are visible to the thread that takes the value.
#[test]
fn a_granted_reset_comes_before_the_expiry() {
    loom::model(|| {
        let place = Arc::new(RaceCell::default());
        let cell = StdArc::new(TimeoutCell::new(5, ()));
        let resets = {
            let (cell, place) = (StdArc::clone(&cell), Arc::clone(&place));
            thread::spawn(move || {
                place.set(1);
                cell.reset(9).is_granted()
            })
        };
        let early = cell.expire(5);
        if cell.deadline() == Some(9) && cell.expire(9).is_ok() {
            assert_eq!(place.get(), 1);
        }
        let granted = resets.join().expect("it does not panic");
        assert_eq!(early.is_ok(), !granted);
    });
}

/// A thread that sees the cell cancelled also sees what the cancelling thread did before.
#[test]
fn an_observer_of_the_end_sees_the_writes_before_it() {
    loom::model(|| {
        let place = Arc::new(RaceCell::default());
        let cell = StdArc::new(TimeoutCell::new(5, ()));
        let cancels = {
            let (cell, place) = (StdArc::clone(&cell), Arc::clone(&place));
            thread::spawn(move || {
                place.set(1);
                assert_eq!(cell.decide(TimeoutOutcome::Cancelled), Some(()));
            })
        };
        while cell.outcome().is_none() {
            thread::yield_now();
        }
        assert_eq!(place.get(), 1);
        cancels.join().expect("it does not panic");
    });
}

/// A reset to an earlier time against a timer that arms for a later one: at least one of them sees
/// the other, so the timer does not sleep past the deadline.
#[test]
fn an_earlier_deadline_never_falls_between_a_reset_and_an_arming() {
    loom::model(|| {
        let cell = StdArc::new(TimeoutCell::new(5, ()));
        assert_eq!(cell.reset(50), Reset::Later);
        let resets = {
            let cell = StdArc::clone(&cell);
            thread::spawn(move || cell.reset(20))
        };
        // The timer checks at 5, finds the value not due, and arms for the deadline that it saw.
        let Err(StillPending::Until(seen)) = cell.expire(5) else {
            panic!("it is not due")
        };
        let received = cell.arm(seen);
        let notified = resets.join().expect("it does not panic");
        assert!(
            seen == 20 || received == Some(20) || notified == Reset::Sooner,
            "armed for {seen}, saw {received:?}, then {notified:?}"
        );
    });
}

/// Three threads, one timeout: a cancel, an expiry and a reset. One of the first two gets the
/// value, and a reset that succeeded is not overtaken by the old deadline.
/// Fails when: `expire` does not compare the deadline.
#[test]
fn one_fate_and_one_taker() {
    loom::model(|| {
        let log = Arc::new(Log::default());
        let cell = StdArc::new(TimeoutCell::new(5, Arc::clone(&log)));
        let canceller = {
            let cell = StdArc::clone(&cell);
            thread::spawn(move || {
                cell.decide(TimeoutOutcome::Cancelled)
                    .map(|log| log.note(1))
                    .is_some()
            })
        };
        let resetter = {
            let cell = StdArc::clone(&cell);
            thread::spawn(move || cell.reset(9).is_granted())
        };
        let expired = cell.expire(5).map(|log| log.note(2)).is_ok();
        let cancelled = canceller.join().expect("it does not panic");
        let reset = resetter.join().expect("it does not panic");
        assert!(!(expired && cancelled));
        assert!(
            !(expired && reset),
            "the old deadline came after the new one"
        );
        assert!(expired || cancelled || cell.deadline() == Some(9));
        assert_eq!(
            log.get().len(),
            usize::from(expired) + usize::from(cancelled)
        );
    });
}
