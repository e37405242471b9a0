//! Tests each step of the producer cell's table, on one thread.

use std::fmt;
use std::sync::Arc;

use super::*;

fn again<T: fmt::Debug>(rest: RestResult<'_, T>) -> ProducerGuard<'_, T> {
    match rest {
        RestResult::Again(held) => held,
        other => panic!("no other round was requested: {other:?}"),
    }
}

#[test]
fn any_number_of_claims_is_one_more_round() {
    let cell = ProducerCell::new(Box::new(0));
    let held = cell.claim().expect("idle");
    for _ in 0..3 {
        assert!(cell.claim().is_none());
    }
    let held = again(held.finish_round());
    assert!(matches!(held.finish_round(), RestResult::Idle) && cell.is_idle());
}

#[test]
fn a_lent_producer_is_taken_by_the_first_thread() {
    let cell = ProducerCell::new(Box::new(0));
    let loan = cell.claim().expect("idle").lend(false);
    assert_eq!((loan.number, loan.bring_helper), (1, false));
    assert_eq!(
        cell.snapshot(),
        CellSnapshot {
            lent: true,
            coming: PendingHelper::None,
            loans: 1
        }
    );
    assert!(cell.take_loan(2).is_none(), "another loan");
    let taken = cell.take_loan(1).expect("it lies there");
    assert!(cell.resume().is_none() && cell.arrive().is_none());
    assert!(matches!(taken.finish_round(), RestResult::Idle));
    assert!(cell.resume().is_none(), "idle, not wanted");
}

#[test]
fn one_helper_is_pending_at_a_time() {
    let cell = ProducerCell::new(Box::new(0));
    assert_eq!(cell.request_round(), HelperRequest::BringHelper);
    assert_eq!(cell.request_round(), HelperRequest::Enough);
    let held = cell.arrive().expect("it was requested");
    assert!(!cell.is_helper_pending());
    assert!(held.lend(true).bring_helper);
    let held = cell.resume().expect("the helper has not come");
    assert!(!held.lend(true).bring_helper, "one is on its way");
    assert!(cell.arrive().is_some());
}

#[test]
fn a_helper_that_may_wait_in_a_queue_is_not_counted_on() {
    let cell = ProducerCell::new(Box::new(0));
    assert_eq!(cell.request_round(), HelperRequest::BringHelper);
    assert_eq!(cell.snapshot().coming, PendingHelper::Queued);
    let held = cell.claim().expect("it lies there");
    assert!(held.lend(true).bring_helper, "the first may never come");
    assert_eq!(cell.snapshot().coming, PendingHelper::Given);
    let held = cell.resume().expect("no thread has taken it");
    assert!(!held.lend(true).bring_helper, "this one will");
    assert!(cell.arrive().is_some());
    assert_eq!(cell.snapshot().coming, PendingHelper::None);
    drop(cell.claim());
    let held = cell.resume().expect("it lies there");
    assert!(held.lend_to_queue().bring_helper);
    assert_eq!(cell.snapshot().coming, PendingHelper::Queued);
    cell.no_helper();
    assert_eq!(cell.snapshot().coming, PendingHelper::None);
}

#[test]
fn demand_from_inside_a_task_reports_when_no_thread_produces() {
    let cell = ProducerCell::new(Box::new(0));
    assert!(
        cell.request_from_task(),
        "it is idle: a thread has to be requested"
    );
    assert!(!cell.request_from_task(), "it is wanted already");
    let held = cell.resume().expect("it is wanted");
    assert!(!cell.request_from_task(), "a thread produces");
    drop(again(held.finish_round()).lend(false));
    assert!(!cell.request_from_task(), "it is lent");
    assert_eq!(cell.close(), CloseResult::Home(Box::new(0)));
    assert!(!cell.request_from_task(), "it is over");
}

#[test]
fn a_round_requested_during_a_loan_is_not_lost() {
    let cell = ProducerCell::new(Box::new(0));
    let _ = cell.claim().expect("idle").lend(false);
    let taken = cell.resume().expect("lent");
    assert!(matches!(taken.finish_round(), RestResult::Idle));
    cell.request_from_task();
    assert!(cell.resume().is_some());
}

#[test]
fn a_dropped_holder_leaves_it_wanted() {
    let cell = ProducerCell::new(Box::new(0));
    drop(cell.claim());
    assert!(!cell.is_idle());
    assert!(cell.arrive().is_some());
}

#[test]
fn closing_takes_a_free_producer_and_requests_a_held_one() {
    let value = Arc::new(());
    let cell = ProducerCell::new(Box::new(Arc::clone(&value)));
    let held = cell.claim().expect("idle");
    assert_eq!(cell.close(), CloseResult::Out);
    assert!(cell.is_closed() && !cell.is_over());
    assert!(
        cell.reopen(Box::new(Arc::new(()))).is_err(),
        "a holder is out"
    );
    assert!(held.is_closed());
    assert!(held.lend(true).given_up.is_some());
    assert!(
        cell.is_over() && cell.claim().is_none() && cell.request_round() == HelperRequest::Closed
    );
    assert!(cell.resume().is_none() && cell.arrive().is_none());
    assert_eq!(Arc::strong_count(&value), 1);
    cell.reopen(Box::new(Arc::clone(&value)))
        .expect("it is over");
    assert!(cell.is_idle());
    assert!(matches!(cell.close(), CloseResult::Home(_)));
    assert_eq!(cell.close(), CloseResult::Already);
    assert!(cell.is_over());
}

#[test]
fn a_holder_that_rests_or_is_dropped_in_a_closed_cell_gives_up() {
    for rests in [true, false] {
        let value = Arc::new(());
        let cell = ProducerCell::new(Box::new(Arc::clone(&value)));
        let held = cell.claim().expect("idle");
        assert_eq!(cell.close(), CloseResult::Out);
        if rests {
            assert!(matches!(held.finish_round(), RestResult::GivenUp(_)));
        } else {
            drop(held);
        }
        assert!(cell.is_over());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
