//! Each timeout has one outcome, its value has one taker, and no change is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use tidegate_testkit::{rounds, until};

use super::cell::LATEST;
use super::*;
use crate::TimerKey;

#[test]
fn exactly_one_of_cancel_and_expire_gets_the_value() {
    let (cancelled, expired) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cells: Vec<_> = (0..rounds(5_000))
        .map(|number| TimeoutNode::new(5, number))
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
    let cell = TimeoutNode::new(5, "value");
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
    let cell = TimeoutNode::new(u64::MAX, ());
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
    let pending = TimeoutNode::new(1, Arc::clone(&value));
    let taken = TimeoutNode::new(1, Arc::clone(&value));
    drop(taken.decide(TimeoutOutcome::Cancelled));
    assert_eq!(Arc::strong_count(&value), 2);
    drop((pending, taken));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_cell_hangs_once_and_can_be_pushed_again() {
    let (lane, cell) = (TimeoutLane::new(), TimeoutNode::new(1, ()));
    for _ in 0..3 {
        assert!(lane.push(&cell) && lane.push(&cell));
        assert!(!lane.is_empty());
        let mut batch = lane.take();
        assert!(batch.next().is_some_and(|taken| Arc::ptr_eq(&taken, &cell)));
        assert!(batch.next().is_none() && lane.is_empty());
    }
    assert!(lane.push(&cell));
    assert_eq!(lane.close().count(), 1);
    assert!(!lane.push(&cell) && lane.is_closed());
    assert_eq!(Arc::strong_count(&cell), 1);
}

#[test]
fn pending_entries_of_a_dropped_lane_are_dropped() {
    let (lane, cell) = (TimeoutLane::new(), TimeoutNode::new(1, ()));
    assert!(lane.push(&cell));
    drop(lane);
    assert_eq!(Arc::strong_count(&cell), 1);
}

#[test]
fn the_owner_sees_every_cells_last_news() {
    let lane = TimeoutLane::new();
    let cells: Vec<_> = (0..rounds(2_000))
        .map(|_| TimeoutNode::new(0, ()))
        .collect();
    let key = TimerKey::from_bits(1 << 32).expect("a generation is not zero");
    let mut seen = 0;
    thread::scope(|scope| {
        for half in 0..2 {
            let (lane, cells) = (&lane, &cells);
            scope.spawn(move || {
                for cell in cells.iter().skip(half).step_by(2) {
                    for deadline in 1..4 {
                        assert!(cell.reset(deadline).is_granted());
                        assert!(lane.push(cell));
                    }
                    assert!(cell.decide(TimeoutOutcome::Cancelled).is_some());
                    assert!(lane.push(cell));
                }
            });
        }
        until("every cell was seen with its fate", || {
            for cell in lane.take() {
                if cell.outcome().is_some() && cell.key().get().is_none() {
                    cell.key().set(key);
                    seen += 1;
                }
            }
            seen == cells.len()
        });
    });
    assert!(cells.iter().all(|cell| cell.key().get() == Some(key)));
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
