//! The rules of the global event loop, tested on a private one with a manual clock.

use std::time::Duration;

use tidegate_core::thread::ThreadState;
use tidegate_core::{Clock, ManualClock, ThreadBuilder};
use tidegate_pool::{Quiet, ShutdownError};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, Log, Stop};

use super::default_loop::*;
use crate::{EventLoop, InactivityError, Lifecycle};

const SECOND: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_nanos(1);

/// Returns an event loop like the global one, and its clock.
fn global() -> (EventLoop, ManualClock) {
    let clock = ManualClock::new();
    (never_ends(Clock::from(&clock), 1), clock)
}

/// Runs a task, so that there is a thread; returns that thread's name.
fn touch(home: &EventLoop) -> String {
    let name = home.submit(|| {
        let thread = std::thread::current();
        thread.name().unwrap_or_default().to_owned()
    });
    name.unwrap().wait().unwrap()
}

#[test]
fn starts_a_thread_on_demand() {
    let (home, clock) = global();
    assert_eq!(home.lifecycle(), Lifecycle::NotStarted);
    assert!(touch(&home).starts_with("tidegate-global-"));
    assert_eq!(home.lifecycle(), Lifecycle::Started);
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn the_thread_ends_after_an_idle_second() {
    let (home, clock) = global();
    let first = touch(&home);
    clock.advance(SECOND - MOMENT);
    assert_eq!(home.lifecycle(), Lifecycle::Started);
    clock.advance(MOMENT);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
    assert_eq!(home.lifecycle(), Lifecycle::Suspended);
    assert_ne!(touch(&home), first, "work brings another thread");
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn work_re_arms_the_idle_second() {
    let (home, clock) = global();
    let first = touch(&home);
    for _ in 0..5 {
        clock.advance(SECOND - MOMENT);
        assert_eq!(touch(&home), first, "the same thread all along");
    }
    // However long the thread was gone, the first task does not trigger the check that ends it
    // again.
    clock.advance(SECOND * 3600);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
    let second = touch(&home);
    clock.settle();
    assert_eq!(home.lifecycle(), Lifecycle::Started);
    assert_eq!(touch(&home), second);
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn a_pending_timer_keeps_the_thread() {
    let (home, clock) = global();
    let first = touch(&home);
    let timer = home.schedule(SECOND * 10, || ()).unwrap();
    clock.advance(SECOND * 9);
    assert_eq!(home.lifecycle(), Lifecycle::Started);
    assert_eq!(touch(&home), first);
    clock.advance(SECOND);
    assert!(timer.is_done());
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
    assert_eq!(home.lifecycle(), Lifecycle::Suspended);
}

#[test]
fn a_timer_set_while_it_has_no_thread_fires() {
    let (home, clock) = global();
    touch(&home);
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
    let timer = home.schedule(SECOND * 5, || 7).unwrap();
    clock.advance(SECOND * 5);
    assert_eq!(timer.wait().unwrap(), 7);
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn work_that_comes_as_the_thread_leaves_is_run() {
    // Real threads submit while the thread leaves: each round ends with the event loop suspended.
    let (home, clock) = global();
    let ran = Counter::new();
    for round in 1..=200 {
        let (ours, hit) = (home.clone(), ran.clone());
        let other = ThreadBuilder::new("other").spawn(move || {
            let task = move || hit.note();
            ours.execute(task).unwrap();
        });
        clock.advance(SECOND);
        assert!(other.unwrap().join().unwrap());
        ran.wait_for(round);
    }
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn a_task_sees_that_it_runs_on_the_loop() {
    let (home, clock) = global();
    let inner = home.clone();
    let seen = home.submit(move || (inner.is_current(), EventLoop::current() == Some(inner)));
    assert_eq!(seen.unwrap().wait().unwrap(), (true, true));
    assert!(!home.is_current());
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn shutdown_is_refused() {
    let (home, clock) = global();
    for started in [false, true] {
        if started {
            touch(&home);
        }
        let asked = home.shutdown(Quiet::default());
        for end in [asked, home.termination()] {
            match end.wait() {
                Err(WaitError::Failed(ShutdownError::Unsupported)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(!home.is_shutting_down() && !home.is_shutdown() && !home.is_terminated());
        assert!(!home.await_termination(SECOND * 3600).unwrap());
    }
    touch(&home);
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn dropping_handles_does_not_shut_it_down() {
    let (home, clock) = global();
    let executor = home.executor();
    drop(home);
    let (ran, open) = Gate::pair();
    executor
        .execute(tidegate_core::Task::new(move || open.open()))
        .unwrap();
    ran.wait();
    clock.advance(SECOND);
}

#[test]
fn inactivity_of_a_loop_that_never_ran_is_an_error() {
    let (home, _clock) = global();
    let error = home.await_inactivity(SECOND).unwrap_err();
    assert_eq!(error, InactivityError::NeverStarted);
    assert!(error.to_string().contains("give it a task"));
}

#[test]
fn inactivity_does_not_come_while_there_is_work() {
    let (home, clock) = global();
    let stop = Stop::new();
    home.execute(stop.closure()).unwrap();
    stop.reached();
    assert_eq!(home.await_inactivity(Duration::ZERO), Ok(false));
    stop.go_on();
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn inactivity_is_not_waited_for_on_the_loop() {
    let (home, clock) = global();
    let inner = home.clone();
    let refused = home.submit(move || inner.await_inactivity(SECOND)).unwrap();
    let refused = refused.wait().unwrap().unwrap_err();
    assert!(matches!(refused, InactivityError::Refused(_)));
    assert!(std::error::Error::source(&refused).is_some());
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn cancelling_the_last_timer_from_outside_lets_the_thread_go() {
    let (home, clock) = global();
    let timer = home.schedule(SECOND * 3600, || ()).unwrap();
    touch(&home);
    clock.advance(SECOND * 2);
    assert_eq!(home.await_inactivity(Duration::ZERO), Ok(false));
    assert!(timer.cancel());
    clock.settle();
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND * 60), Ok(true));
}

#[test]
fn a_panic_does_not_hurt_the_thread() {
    let (home, clock) = global();
    let first = touch(&home);
    home.execute(|| panic!("on purpose")).unwrap();
    assert_eq!(touch(&home), first);
    assert_eq!(home.metrics().panics, 1);
    clock.advance(SECOND);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
}

#[test]
fn a_loop_that_ends_is_inactive_too() {
    let home = EventLoop::builder("home").build().unwrap();
    let log = Log::new();
    home.submit(log.pushes(1)).unwrap().wait().unwrap();
    home.shutdown(Quiet::none(SECOND)).wait().unwrap();
    assert_eq!(home.await_inactivity(SECOND * 60), Ok(true));
}

#[test]
fn a_thread_that_cannot_start_never_was() {
    let threads = ThreadBuilder::new("none").spawner(|_| Err(std::io::Error::other("full")));
    let home = EventLoop::builder("home").threads(threads).build().unwrap();
    assert!(home.execute(|| ()).is_err());
    let error = home.await_inactivity(SECOND).unwrap_err();
    assert_eq!(error, InactivityError::NeverStarted);
}

#[test]
fn the_quiet_second_can_be_changed() {
    assert_eq!(quiet_seconds(None), EventLoop::DEFAULT_GLOBAL_QUIET_SECONDS);
    assert_eq!(quiet_seconds(Some("5")), 5);
    assert_eq!(quiet_seconds(Some(" 30 ")), 30);
    for bad in ["0", "-3", "soon", "", "1.5", "99999999999999999999999"] {
        assert_eq!(
            quiet_seconds(Some(bad)),
            EventLoop::DEFAULT_GLOBAL_QUIET_SECONDS,
            "{bad}"
        );
    }
    let clock = ManualClock::new();
    let home = never_ends(Clock::from(&clock), 5);
    touch(&home);
    clock.advance(SECOND * 5 - MOMENT);
    let info = home.thread_info().unwrap();
    assert_ne!(info.state(), ThreadState::Ended);
    clock.advance(MOMENT);
    assert_eq!(home.await_inactivity(SECOND), Ok(true));
    let ages = never_ends(Clock::from(&clock), u64::MAX);
    touch(&ages);
    clock.advance(SECOND * 3600 * 24 * 365);
    assert_eq!(
        ages.lifecycle(),
        Lifecycle::Started,
        "too long to be counted"
    );
    assert!(ages.try_suspend());
    assert_eq!(ages.await_inactivity(SECOND), Ok(true));
}
