//! Bad input returns an error with a sentence that says what to do. It never panics and never
//! hangs.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Blocking;
use tidegate_core::{ManualClock, RejectReason, WaitRefusedError};
use tidegate_loop::{
    EventLoop, EventLoopGroup, PeriodError, Quiet, RoamingConfig, ShutdownError, SleepError,
    TimeoutError,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::{Completion, WaitError};
use tidegate_testkit::{Gate, has};

use crate::{SECOND, end, hold, home, on};

/// Returns the refusal of a wait that was refused.
fn refusal<T>(waited: Result<T, WaitError<tidegate_promise::Failure>>) -> WaitRefusedError {
    match waited {
        Err(WaitError::Refused(why)) => why,
        Err(other) => panic!("failed otherwise: {other}"),
        Ok(_) => panic!("was not refused"),
    }
}

#[test]
fn a_quiet_period_longer_than_the_timeout() {
    let (home, _clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let quiet = Quiet {
        period: SECOND * 3,
        timeout: SECOND,
    };
    let why = home.shutdown(quiet).wait().unwrap_err();
    let why = why.failure().unwrap();
    assert_eq!(why, ShutdownError::BadQuiet(quiet));
    has(why.to_string(), ["raise the timeout or lower the period"]);
    assert!(!home.is_shutting_down());
    end(&home);
}

#[test]
fn a_period_of_zero() {
    let (home, _clock) = home();
    for bad in [
        home.schedule_at_fixed_rate(SECOND, Duration::ZERO, || ()),
        home.schedule_with_fixed_delay(SECOND, Duration::ZERO, || ()),
    ] {
        assert_eq!(bad.unwrap_err(), PeriodError::Zero);
    }
}

#[test]
fn delays_and_timeouts_that_overflow() {
    let (home, clock) = home();
    clock.advance(SECOND);
    let never = home.schedule(Duration::MAX, || ()).unwrap();
    let mut answer = home.promise::<u32>().1;
    assert!(answer.wait_timeout(Duration::ZERO).is_err());
    let quiet = Quiet {
        period: Duration::MAX,
        timeout: Duration::MAX,
    };
    let ended = home.shutdown(quiet);
    home.settle();
    assert!(!ended.is_done());
    end(&home);
    assert!(never.is_cancelled());
}

/// Each link of the chain is a sentence of its own: no text is repeated by the next one.
#[test]
fn an_error_names_its_cause() {
    let bad_tick = EventLoop::builder("home").coarse_tick(Duration::ZERO);
    let bad_tick = bad_tick.build().unwrap_err();
    let pool = Arc::new(WorkerPool::builder("workers").max(1).build().unwrap());
    let loops = EventLoopGroup::builder("io").loops(1);
    let too_small = loops.build_roaming(&RoamingConfig::new(pool)).unwrap_err();
    for error in [bad_tick, too_small] {
        let cause = error.source().expect("it has a cause").to_string();
        assert!(!error.to_string().contains(&cause), "{error}");
    }
    let ended: &dyn Error = &TimeoutError::LoopEnded(SleepError);
    assert_eq!(ended.to_string(), SleepError.to_string());
    assert!(ended.source().is_none(), "the same text is not repeated");
}

#[test]
fn a_duplicate_hook() {
    let (home, _clock) = home();
    home.add_shutdown_hook("flush", || ()).unwrap();
    let error = home.add_shutdown_hook("flush", || ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is a shutdown hook called `flush` already; remove it first or choose another name"
    );
    assert!(home.remove_shutdown_hook("flush"));
    home.add_shutdown_hook("flush", || ()).unwrap();
    assert_eq!(end(&home).hooks, 1);
}

#[test]
fn a_task_after_shutdown() {
    let (home, _clock) = home();
    end(&home);
    let refused = home.execute(|| ()).unwrap_err();
    assert!(refused.to_string().contains("submit to another one"));
    assert!(home.submit(|| ()).is_err());
    assert_eq!(
        home.spawn(async {}).unwrap_err().why(),
        RejectReason::Closed
    );
    assert!(home.schedule(SECOND, || ()).is_err());
    assert!(!home.try_suspend() && home.thread_info().is_none());
    assert!(home.shutdown(Quiet::default()).is_done());
    home.settle();
}

#[test]
fn a_wait_on_the_own_loop() {
    let (home, _clock) = home();
    let handle = home.clone();
    let waited = home.submit(move || handle.submit(|| ()).unwrap().wait());
    let why = refusal(waited.unwrap().wait().unwrap());
    assert_eq!(why.names(), ["home", "home"]);
    let sentence = why.to_string();
    has(&sentence, ["home, an event loop, must not block"]);
    assert!(sentence.contains("listen to the completion or await it instead"));
    let handle = home.clone();
    let allowed = home.submit(move || Blocking::allow(|| handle.submit(|| ()).unwrap().wait()));
    let why = refusal(allowed.unwrap().wait().unwrap());
    assert!(why.is_deadlock() && why.names() == ["home"]);
}

#[test]
fn a_wait_for_another_loop_from_a_loop() {
    let (home, clock) = home();
    let other = on(&clock, "other");
    // Otherwise the task might be done before the wait, and then the wait is not refused.
    let gate = hold(&other);
    let waited = home.submit(move || other.submit(|| ()).unwrap().wait_timeout(SECOND));
    let why = refusal(waited.unwrap().wait().unwrap());
    gate.open();
    assert_eq!(why.names(), ["home", "other"]);
    assert!(why.to_string().contains("to wait for a promise of other"));
}

#[test]
fn a_decided_outcome_is_never_refused() {
    let (home, clock) = home();
    let other = on(&clock, "other");
    let seven = other.submit(|| 7).unwrap();
    other.settle();
    let waited = home.submit(move || seven.wait());
    assert_eq!(waited.unwrap().wait().unwrap().unwrap(), 7);
}

#[test]
fn a_wait_that_is_allowed_and_harmless() {
    let (home, clock) = home();
    let other = on(&clock, "other");
    let waited = home.submit(move || Blocking::allow(|| other.submit(|| 7).unwrap().wait()));
    assert_eq!(waited.unwrap().wait().unwrap().unwrap(), 7);
}

/// Makes each event loop wait for the next one's promise. The wait of the last one would close a
/// cycle and is refused.
fn circle(names: &[&str]) -> WaitRefusedError {
    let clock = ManualClock::new();
    let loops: Vec<EventLoop> = names.iter().map(|name| on(&clock, name)).collect();
    // Promises that belong to each event loop. They are completed only after the cycle was refused.
    let (promises, mut answers): (Vec<_>, Vec<_>) =
        loops.iter().map(|one| one.promise::<u32>()).unzip();
    let last = answers.remove(0);
    let mut waits: Vec<Completion<_>> = Vec::new();
    for (at, answer) in answers.into_iter().enumerate() {
        let arrived = Arc::new(Gate::new());
        let here = Arc::clone(&arrived);
        let waiting = loops[at].submit(move || {
            here.open();
            Blocking::allow(|| answer.wait())
        });
        waits.push(waiting.unwrap());
        arrived.wait();
        // The thread records its wait before it sleeps on the clock.
        clock.await_sleepers(at + 1);
    }
    let closing = loops[names.len() - 1].submit(move || Blocking::allow(|| last.wait()));
    let why = refusal(closing.unwrap().wait().unwrap());
    for promise in promises {
        let _ = promise.succeed(7);
    }
    for wait in waits {
        assert_eq!(wait.wait().unwrap().unwrap(), 7);
    }
    why
}

#[test]
fn a_circle_of_two_waiting_loops() {
    let why = circle(&["a", "b"]);
    assert!(why.is_deadlock());
    assert_eq!(
        why.to_string(),
        "this wait would be a deadlock: b waits for a, a waits for b; await or listen instead"
    );
}

#[test]
fn a_circle_of_three_waiting_loops() {
    let why = circle(&["a", "b", "c"]);
    assert_eq!(
        why.to_string(),
        "this wait would be a deadlock: c waits for a, a waits for b, b waits for c; await or listen instead"
    );
}

#[test]
fn waiting_for_the_end_of_the_own_loop() {
    let (home, _clock) = home();
    let handle = home.clone();
    let waited = home.submit(move || handle.termination().wait().map(drop));
    let waited = waited.unwrap().wait().unwrap();
    assert!(waited.is_err_and(|error| error.is_refused()));
}

#[test]
fn a_hook_after_the_end_is_refused() {
    let home = EventLoop::builder("x").build().unwrap();
    let quiet = Quiet::none(Duration::from_secs(1));
    home.shutdown(quiet).wait().unwrap();
    let refused = home.add_shutdown_hook("late", || ()).unwrap_err();
    assert_eq!(refused, tidegate_loop::ShutdownHookError::Closed);
    assert!(refused.to_string().contains("runs no more hooks"));
}
