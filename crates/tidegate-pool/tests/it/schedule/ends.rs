//! Scheduled tasks at the end of their pool: pending ones are cancelled, due ones run or are handed
//! back.

use std::time::Duration;

use tidegate_core::{ManualClock, RejectReason, Task};
use tidegate_pool::{NotStartedError, PeriodError};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, DropCount, Gate, Log, Stop, until};

use super::{fixed, hold, view_of};
use crate::SECOND;

#[test]
fn a_shutdown_cancels_what_is_not_due_and_refuses_more() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).build().unwrap();
    let view = view_of(&pool);
    let drops = Counter::new();
    let held = [(); 3].map(|()| DropCount::new(&drops));
    let [first, second, third] = held;
    let once = pool.schedule(SECOND, move || drop(first)).unwrap();
    let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, move || {
        let _held = &second;
    });
    let viewed = view.schedule(SECOND, move || drop(third)).unwrap();
    let report = pool.shutdown(SECOND).wait().unwrap();
    assert_eq!((report.cancelled, report.ran), (3, 0));
    assert_eq!(
        report.to_string(),
        "0 jobs ended in the shutdown, 0 handed back, 3 timers cancelled"
    );
    assert!(once.is_cancelled() && ticks.unwrap().is_cancelled() && viewed.is_cancelled());
    drops.wait_for(3);
    let refused = pool.schedule(SECOND, || ()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
    let refused = view.schedule(SECOND, || ()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
    let refused = pool.schedule_at_fixed_rate(SECOND, SECOND, || ());
    assert_eq!(refused.unwrap_err(), PeriodError::Closed);
    let refused = view.schedule_with_fixed_delay(SECOND, SECOND, || ());
    assert_eq!(refused.unwrap_err(), PeriodError::Closed);
    assert_eq!(pool.metrics().scheduled, 0);
}

#[test]
fn waiters_hear_of_the_cancellation_also_without_a_timeout() {
    for held in [false, true] {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 1, 8).build().unwrap();
        let gate = held.then(|| hold(&pool));
        let pending = pool.schedule(SECOND, || 7).unwrap();
        pool.shutdown(Duration::ZERO).wait().unwrap();
        assert!(matches!(pending.wait(), Err(WaitError::Cancelled)));
        gate.iter().for_each(Gate::open);
    }
}

#[test]
fn what_is_due_runs_before_the_deadline_or_is_handed_back() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let gate = hold(&pool);
    let due = pool.schedule(SECOND, || 7).unwrap();
    let given_up = pool.schedule(SECOND, || 8).unwrap();
    let runs = Counter::new();
    let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, runs.hits());
    clock.jump(SECOND);
    until("all are queued", || pool.metrics().queued == 3);
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!((report.handed_back.len(), report.cancelled), (3, 0));
    let cause = given_up.wait().unwrap_err().failure().unwrap();
    assert!(cause.downcast_ref::<NotStartedError>().is_some());
    pool.handed_back().take().into_iter().for_each(Task::run);
    assert!(report.handed_back.is_empty(), "each is taken once");
    assert_eq!(due.wait().unwrap(), 7);
    assert_eq!(runs.count(), 1);
    assert!(ticks.unwrap().is_cancelled(), "there is no next run");
    gate.open();
}

#[test]
fn a_periodic_task_that_runs_when_shutdown_comes_is_not_put_back() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let (stop, runs) = (Stop::new(), Counter::new());
    let (inside, count) = (stop.closure(), runs.clone());
    let ticks = pool.schedule_with_fixed_delay(SECOND, SECOND, move || {
        count.hit();
        inside();
    });
    clock.jump(SECOND);
    stop.reached();
    let ended = pool.shutdown(SECOND * 60);
    stop.go_on();
    let report = ended.wait().unwrap();
    assert_eq!((report.ran, report.cancelled, runs.count()), (1, 0, 1));
    assert!(matches!(ticks.unwrap().wait(), Err(WaitError::Cancelled)));
}

#[test]
fn dropping_the_last_handle_cancels_what_is_pending() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let drops = Counter::new();
    let held = DropCount::new(&drops);
    let pending = pool.schedule(SECOND, move || drop(held)).unwrap();
    let ended = pool.termination();
    drop(pool);
    assert!(matches!(pending.wait(), Err(WaitError::Cancelled)));
    drops.wait_for(1);
    assert_eq!(ended.wait().unwrap().cancelled, 1);
    clock.settle();
    assert_eq!(clock.sleepers(), 0, "no thread is left");
}

/// Blocks in its `Drop` until the gate opens.
struct Stubborn(Gate);

impl Drop for Stubborn {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[test]
fn a_drop_that_blocks_holds_up_neither_the_end_nor_the_others() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let go_on = Gate::new();
    let stubborn = Stubborn(go_on.clone());
    let first = pool.schedule(SECOND, move || drop(stubborn)).unwrap();
    let second = pool.schedule(SECOND * 2, || 7).unwrap();
    let report = pool.shutdown(SECOND).wait().unwrap();
    assert_eq!(report.cancelled, 2);
    assert!(first.is_cancelled() && second.is_cancelled());
    go_on.open();
}

#[test]
fn listeners_of_cancelled_tasks_are_called() {
    for held in [false, true] {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 1, 8).build().unwrap();
        let gate = held.then(|| hold(&pool));
        let log = Log::new();
        for name in ["first", "second"] {
            let log = log.clone();
            let pending = pool.schedule(SECOND, || 7).unwrap();
            pending.on_complete(move |outcome| {
                assert!(outcome.is_cancelled());
                log.push(name);
            });
        }
        let ended = pool.shutdown(SECOND * 60);
        gate.iter().for_each(Gate::open);
        log.wait_for(2);
        ended.wait().unwrap();
        assert_eq!(log.take(), ["first", "second"]);
    }
}
