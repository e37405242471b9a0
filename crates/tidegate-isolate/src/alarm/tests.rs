//! Calls expire at their deadline and not before, and call slots are reused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{Clock, ManualClock, OnUnhandled, Task, ThreadBuilder};
use tidegate_testkit::{Counter, Gate};

use super::*;
use crate::in_flight::Flight;

const MS: u64 = 1_000_000;

fn timer() -> (ManualClock, CallTimer) {
    let manual = ManualClock::new();
    let alarms = CallTimer::new(&Clock::from(&manual), &OnUnhandled::default());
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
    let alarms = CallTimer::new(&clock, &OnUnhandled::default());
    for _ in 0..2_000 {
        let flight = Flight::default();
        flight.prepare(&clock, 0, 0, true);
        flight.word().begin();
        let finished = std::thread::scope(|scope| {
            let timer = scope.spawn(|| flight.expire_if_due(1, &*alarms.shared));
            let finished = flight.finish();
            timer.join().expect("it does not panic");
            finished
        });
        assert_ne!(finished, flight.is_expired());
        assert_eq!(flight.token().is_cancelled(), !finished);
    }
}

#[test]
fn closing_cancels_running_calls() {
    let (_manual, alarms) = timer();
    let flight = alarms.take_flight();
    alarms.arm(&flight, u64::MAX - 1, 0, false);
    assert_eq!(alarms.in_flight(), 1);
    alarms.close(true);
    assert!(flight.is_expired() && flight.token().is_cancelled());
}

/// Returns a thread builder whose threads the system refuses until the flag is cleared, with a
/// count of the attempts.
fn refused_threads() -> (ThreadBuilder, Arc<AtomicBool>, Counter) {
    let (refuses, asked) = (Arc::new(AtomicBool::new(true)), Counter::new());
    let (refused, count) = (Arc::clone(&refuses), asked.clone());
    let threads = ThreadBuilder::new("starved").spawner(move |job| {
        count.hit();
        if refused.load(Ordering::SeqCst) {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        let thread = ThreadBuilder::new("fed").detached();
        thread.spawn(move || job.run()).map(drop)
    });
    (threads, refuses, asked)
}

/// Creates the callback threads of a command from this thread builder.
fn starved(alarms: &CallTimer, threads: ThreadBuilder) -> CallbackThreadsHandle {
    alarms.add_aside(alarms.shared.new_aside(7, &"starved".into(), threads))
}

/// Opens a gate when it is dropped.
struct OpensOnDrop(Gate);

impl Drop for OpensOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn what_the_system_has_no_thread_for_runs_once_it_has_one() {
    let (manual, alarms) = timer();
    let (threads, refuses, asked) = refused_threads();
    let aside = starved(&alarms, threads);
    let ran = Gate::new();
    let run = ran.clone();
    alarms.run_at(10 * MS, &aside, Task::new(move || run.open()));
    manual.advance(Duration::from_millis(10));
    assert!(!ran.is_open() && asked.count() > 0);
    let before = asked.count();
    manual.advance(Duration::from_millis(9));
    assert_eq!(asked.count(), before, "it is not called in a loop");
    refuses.store(false, Ordering::SeqCst);
    manual.advance(Duration::from_millis(1));
    ran.wait();
    alarms.close(false);
}

#[test]
fn closing_loses_nothing_that_the_system_has_no_thread_for() {
    let (manual, alarms) = timer();
    let (threads, refuses, _) = refused_threads();
    let aside = starved(&alarms, threads);
    let (dropped, notified) = (Gate::new(), Gate::new());
    let opens = OpensOnDrop(dropped.clone());
    alarms.run_at(10 * MS, &aside, Task::new(move || drop(opens)));
    let flight = alarms.take_flight();
    alarms.arm(&flight, u64::MAX - 1, aside.id(), true);
    let tell = notified.clone();
    flight.token().on_cancel(move || tell.open()).forget();
    alarms.close(true);
    assert!(!dropped.is_open() && !notified.is_open());
    refuses.store(false, Ordering::SeqCst);
    manual.advance(Duration::from_millis(10));
    dropped.wait();
    notified.wait();
}

#[test]
fn a_task_that_relied_on_the_thread_of_another_is_not_lost_with_it() {
    let (manual, alarms) = timer();
    let (dropped, ran) = (Gate::new(), Gate::new());
    let (opens, run) = (OpensOnDrop(dropped.clone()), ran.clone());
    let second = Task::new(move || {
        let _opens = opens;
        run.open();
    });
    // While the system is asked for the thread of one task, another is queued for that thread.
    let queued = Arc::new(Mutex::new(None::<(CallTimer, Arc<CallbackThreads>, Task)>));
    let (refuses, next) = (Arc::new(AtomicBool::new(true)), Arc::clone(&queued));
    let refused = Arc::clone(&refuses);
    let threads = ThreadBuilder::new("starved").spawner(move |job| {
        let next = next.lock().unwrap().take();
        if let Some((alarms, aside, task)) = next {
            std::thread::scope(|scope| scope.spawn(|| alarms.run_aside(&aside, task)).join())
                .expect("it does not panic");
        }
        if refused.load(Ordering::SeqCst) {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        let thread = ThreadBuilder::new("fed").detached();
        thread.spawn(move || job.run()).map(drop)
    });
    let aside = starved(&alarms, threads);
    *queued.lock().unwrap() = Some((alarms.clone(), Arc::clone(&aside), second));
    let first = Gate::new();
    let run = first.clone();
    alarms.run_aside(&aside, Task::new(move || run.open()));
    assert!(!dropped.is_open() && !first.is_open());
    refuses.store(false, Ordering::SeqCst);
    manual.advance(Duration::from_millis(10));
    first.wait();
    ran.wait();
    alarms.close(false);
}

#[test]
fn a_timer_whose_thread_was_refused_is_started_by_the_next_call() {
    let manual = ManualClock::new();
    let (threads, refuses, _) = refused_threads();
    let hook = OnUnhandled::default();
    let alarms = CallTimer::with_threads(&Clock::from(&manual), &hook, threads);
    let (early, late) = (alarms.take_flight(), alarms.take_flight());
    alarms.arm(&early, 10 * MS, 0, true);
    refuses.store(false, Ordering::SeqCst);
    alarms.arm(&late, 20 * MS, 0, true);
    manual.advance(Duration::from_millis(10));
    assert!(early.is_expired() && !late.is_expired());
    alarms.close(false);
}
