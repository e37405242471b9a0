//! Each timeout has one outcome, and its value has one taker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use tidegate_testkit::rounds;

use super::cell::LATEST;
use super::*;

#[test]
fn exactly_one_of_cancel_and_expire_gets_the_value() {
    let (cancelled, expired) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cells: Vec<_> = (0..rounds(5_000))
        .map(|number| TimeoutCell::new(5, number))
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let won = cells
                .iter()
                .filter_map(|cell| cell.decide(TimeoutOutcome::Cancelled));
            cancelled.store(won.count(), Relaxed);
        });
        let won = cells.iter().filter_map(|cell| cell.expire(5).ok());
        expired.store(won.count(), Relaxed);
    });
    assert_eq!(cancelled.load(Relaxed) + expired.load(Relaxed), cells.len());
    let fates = |outcome| {
        cells
            .iter()
            .filter(|cell| cell.outcome() == Some(outcome))
            .count()
    };
    assert_eq!(fates(TimeoutOutcome::Cancelled), cancelled.load(Relaxed));
    assert_eq!(fates(TimeoutOutcome::Expired), expired.load(Relaxed));
}

#[test]
fn a_reset_that_succeeds_is_not_overtaken() {
    let cell = TimeoutCell::new(5, "value");
    assert!(cell.reset(9).is_granted());
    assert_eq!(cell.expire(8), Err(StillPending::Until(9)));
    assert_eq!(cell.expire(9), Ok("value"));
    assert_eq!(
        cell.expire(9),
        Err(StillPending::No(TimeoutOutcome::Expired))
    );
    assert_eq!(cell.reset(20), Reset::No(TimeoutOutcome::Expired));
    assert_eq!(cell.deadline(), None);
}

#[test]
fn the_latest_deadline_is_not_taken_for_a_fate() {
    let cell = TimeoutCell::new(u64::MAX, ());
    assert_eq!((cell.outcome(), cell.deadline()), (None, Some(LATEST)));
    assert_eq!(cell.reset(1), Reset::Sooner);
    assert_eq!(cell.reset(u64::MAX), Reset::Later);
    assert_eq!(cell.deadline(), Some(LATEST));
    assert_eq!(cell.decide(TimeoutOutcome::Stopped), Some(()));
    assert_eq!(cell.outcome(), Some(TimeoutOutcome::Stopped));
}

#[test]
fn a_value_is_dropped_once_by_whichever_owner() {
    let value = Arc::new(());
    let pending = TimeoutCell::new(1, Arc::clone(&value));
    let taken = TimeoutCell::new(1, Arc::clone(&value));
    drop(taken.decide(TimeoutOutcome::Cancelled));
    assert_eq!(Arc::strong_count(&value), 2);
    drop((pending, taken));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn an_earlier_deadline_is_seen_by_the_reset_or_by_the_arming() {
    let cell = TimeoutCell::new(10, ());
    assert_eq!(cell.reset(30), Reset::Later);
    assert_eq!(cell.reset(20), Reset::Later, "the timer looks at 10");
    assert_eq!(cell.expire(10), Err(StillPending::Until(20)));
    assert_eq!(cell.arm(30), Some(20));
    assert_eq!(cell.arm(20), None);
    assert_eq!(cell.reset(19), Reset::Sooner);
    assert_eq!(cell.reset(20), Reset::Later);
}
