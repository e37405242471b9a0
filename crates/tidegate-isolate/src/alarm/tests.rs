//! Calls expire at their time and not before, and flights serve again.

use super::*;
use std::time::Duration;
use tidegate_sync::ManualClock;

const MS: u64 = 1_000_000;

fn timer() -> (ManualClock, Alarms) {
    let manual = ManualClock::new();
    let alarms = Alarms::new(&Clock::from(&manual));
    (manual, alarms)
}

#[test]
fn a_call_expires_at_its_deadline_and_its_token_is_tripped() {
    let (manual, alarms) = timer();
    let flight = alarms.take_flight();
    alarms.arm(&flight, 10 * MS, 0, true);
    manual.advance(Duration::from_millis(9));
    assert!(!flight.is_expired() && !flight.token().is_cancelled());
    manual.advance(Duration::from_millis(1));
    assert!(flight.is_expired() && flight.token().is_cancelled());
    assert!(!flight.finish());
    alarms.close(false);
}

#[test]
fn an_earlier_deadline_wakes_the_timer() {
    let (manual, alarms) = timer();
    let (late, early) = (alarms.take_flight(), alarms.take_flight());
    alarms.arm(&late, 50 * MS, 0, true);
    manual.settle();
    alarms.arm(&early, 10 * MS, 0, false);
    manual.advance(Duration::from_millis(10));
    assert!(early.is_expired() && !late.is_expired());
    assert!(
        !early.token().is_cancelled(),
        "it was not to be interrupted"
    );
    assert!(late.finish());
    alarms.close(false);
}

#[test]
fn a_flight_serves_again_unless_its_token_was_kept() {
    let (_manual, alarms) = timer();
    let flight = alarms.take_flight();
    let first = Arc::as_ptr(&flight);
    alarms.arm(&flight, u64::MAX, 0, true);
    assert!(flight.finish());
    alarms.keep_flight(flight);
    let flight = alarms.take_flight();
    assert_eq!(Arc::as_ptr(&flight), first);
    alarms.arm(&flight, u64::MAX, 0, true);
    let kept = flight.token().clone();
    assert!(flight.finish());
    alarms.keep_flight(flight);
    assert_ne!(Arc::as_ptr(&alarms.take_flight()), first);
    drop(kept);
}

#[test]
fn tasks_run_in_order_at_their_time_and_can_be_taken_back() {
    let (manual, alarms) = timer();
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |n: u32| {
        let log = Arc::clone(&log);
        Task::new(move || log.lock().unwrap().push(n))
    };
    alarms.call_at(20 * MS, note(2));
    alarms.call_at(10 * MS, note(1));
    let third = alarms.call_at(30 * MS, note(3));
    alarms.call_at(15 * MS, Task::new(|| panic!("on purpose")));
    manual.advance(Duration::from_millis(20));
    assert_eq!(*log.lock().unwrap(), [1, 2]);
    assert!(alarms.cancel(third) && !alarms.cancel(third));
    manual.advance(Duration::from_millis(20));
    assert_eq!(*log.lock().unwrap(), [1, 2]);
    alarms.close(false);
}

#[test]
fn the_end_of_the_work_and_of_its_time_exclude_each_other() {
    let clock = Clock::system();
    let alarms = Alarms::new(&clock);
    for _ in 0..2_000 {
        let flight = Flight::default();
        flight.prepare(&clock, 0, 0, true);
        flight.word().begin();
        let finished = std::thread::scope(|scope| {
            let timer = scope.spawn(|| flight.expire_if_due(1, &alarms.shared));
            let finished = flight.finish();
            timer.join().expect("it does not panic");
            finished
        });
        assert_ne!(finished, flight.is_expired());
        assert_eq!(flight.token().is_cancelled(), !finished);
    }
}

#[test]
fn closing_tells_running_calls_to_stop() {
    let (_manual, alarms) = timer();
    let flight = alarms.take_flight();
    alarms.arm(&flight, u64::MAX - 1, 0, false);
    assert_eq!(alarms.in_flight(), 1);
    alarms.close(true);
    assert!(flight.is_expired() && flight.token().is_cancelled());
}
