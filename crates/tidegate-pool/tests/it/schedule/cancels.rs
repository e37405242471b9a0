//! Cancelling scheduled and periodic tasks.

use tidegate_core::ManualClock;
use tidegate_testkit::{Counter, DropCount, Log, Stop, rounds, spin_times, until};

use super::{fixed, for_both, hold};
use crate::SECOND;

#[test]
fn cancelling_frees_the_closure_and_the_place_at_once() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let drops = Counter::new();
    let (once, often) = (DropCount::new(&drops), DropCount::new(&drops));
    let first = pool.schedule(SECOND, move || drop(once)).unwrap();
    let second = pool.schedule_at_fixed_rate(SECOND, SECOND, move || {
        let _held = &often;
    });
    assert_eq!(pool.metrics().scheduled, 2);
    assert!(first.cancel() && second.unwrap().cancel());
    assert_eq!((drops.count(), pool.metrics().scheduled), (2, 0));
    assert!(first.is_cancelled());
}

#[test]
fn a_periodic_completion_never_succeeds() {
    for_both(|target, clock| {
        let ticks = target.at_fixed_rate(SECOND, SECOND, || ()).unwrap();
        clock.advance(SECOND * 100);
        assert!(!ticks.is_done() && ticks.cancel() && ticks.is_cancelled());
    });
}

#[test]
fn a_task_that_is_queued_can_still_be_cancelled_and_a_running_one_cannot() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let gate = hold(&pool);
    let (ran, count) = Counter::pair();
    let queued = pool.schedule(SECOND, move || count.hit()).unwrap();
    clock.jump(SECOND);
    until("the task is queued", || pool.metrics().queued == 1);
    assert!(queued.cancel());
    gate.open();
    clock.settle();
    assert_eq!(ran.count(), 0);
    let stop = Stop::new();
    let inside = stop.closure();
    let running = pool.schedule(SECOND, move || {
        inside();
        7
    });
    clock.jump(SECOND);
    stop.reached();
    let running = running.unwrap();
    assert!(!running.cancel());
    stop.go_on();
    assert_eq!(running.wait().unwrap(), 7);
}

#[test]
fn a_cancel_during_a_run_prevents_the_next_one() {
    for_both(|target, clock| {
        let (stop, runs) = (Stop::new(), Counter::new());
        let (inside, count) = (stop.closure(), runs.clone());
        let drops = Counter::new();
        let held = DropCount::new(&drops);
        let ticks = target.at_fixed_rate(SECOND, SECOND, move || {
            let _held = &held;
            count.hit();
            inside();
        });
        clock.jump(SECOND);
        stop.reached();
        assert!(ticks.unwrap().cancel());
        assert_eq!(drops.count(), 0, "it runs");
        stop.go_on();
        drops.wait_for(1);
        clock.settle();
        clock.advance(SECOND * 10);
        assert_eq!(runs.count(), 1);
    });
}

#[test]
fn a_drop_that_uses_the_pool_and_panics_does_no_harm() {
    struct Nasty(super::Target, Log<&'static str>);
    impl Drop for Nasty {
        fn drop(&mut self) {
            let again = self.0.schedule(SECOND, self.1.pushes("from a drop"));
            drop(again);
            panic!("on purpose");
        }
    }
    for_both(|target, clock| {
        let log = Log::new();
        let nasty = Nasty(target.clone(), log.clone());
        let cancelled = target.schedule(SECOND, move || drop(nasty)).unwrap();
        assert!(cancelled.cancel());
        let nasty = Nasty(target.clone(), log.clone());
        let ticks = target.at_fixed_rate(SECOND, SECOND, move || {
            let _nasty = &nasty;
        });
        assert!(ticks.unwrap().cancel());
        clock.advance(SECOND * 2);
        assert_eq!(log.take(), ["from a drop", "from a drop"]);
    });
}

#[test]
fn cancels_against_runs_never_let_one_run_too_many() {
    for round in 0..rounds(200) as u64 {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 2, 64).build().unwrap();
        let runs = Counter::new();
        let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, runs.hits());
        let ticks = ticks.unwrap();
        clock.jump(SECOND);
        spin_times(round * 7 % 301);
        assert!(ticks.cancel());
        clock.settle();
        let ran = runs.count();
        assert!(ran <= 1);
        clock.advance(SECOND * 5);
        assert_eq!(runs.count(), ran, "round {round}");
        assert_eq!(pool.metrics().scheduled, 0);
    }
}
