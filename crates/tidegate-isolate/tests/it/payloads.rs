//! Work, fallbacks and hooks that panic with a payload whose drop panics in turn: the caller
//! receives an outcome, and there is no other damage.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{CallStage, Cause, FallbackError, Key};
use tidegate_testkit::{Counter, explode};

use crate::support::{SECOND, alone, builder, failed, isolated, poll_once, pool_of, touchy};

#[test]
fn of_work_and_fallbacks_in_place() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| explode()));
    let error = command.run(|_| explode()).unwrap_err();
    assert!(matches!(error.cause(), Cause::Panicked(_)));
    assert!(matches!(error.fallback(), Some(FallbackError::Panicked(_))));
    assert_eq!(command.snapshot().active, 0, "the permit is back");
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

#[test]
fn of_work_on_threads() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(1, 4)));
    let error = command.run(|_| explode()).unwrap_err();
    assert!(matches!(error.cause(), Cause::Panicked(_)));
    assert!(command.queue(|_| explode()).wait().is_err());
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    assert_eq!(isolation.pool_snapshots()[0].largest, 1, "the same thread");
}

#[test]
fn of_futures() {
    let (_clock, _isolation, command) = alone(|c| c);
    let mut future = pin!(command.run_async(|_| async { explode() }));
    let error = failed(poll_once(future.as_mut()), "it has ended");
    assert!(matches!(error.cause(), Cause::Panicked(_)));
    let mut unmade =
        pin!(command.run_async(|_| -> std::future::Ready<Result<u32, &str>> { explode() }));
    assert!(matches!(poll_once(unmade.as_mut()), Poll::Ready(Err(_))));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn of_hooks_and_listeners() {
    let isolation = isolated(|i| {
        i.on_event(|_, _| explode())
            .hook(|stage: CallStage, _: &Key| -> Result<(), String> {
                match stage {
                    CallStage::Success => explode(),
                    _ => Ok(()),
                }
            })
    });
    let command = builder("a").build(&isolation).unwrap();
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    assert_eq!(command.run(|_| Ok(2)), Ok(2));
}

#[test]
fn of_listeners_of_a_breaker() {
    let notified = Counter::new();
    let (clock, count) = (ManualClock::new(), notified.clone());
    let isolation = isolated(|i| {
        i.clock(&clock).on_transition(move |_| {
            count.hit();
            explode();
        })
    });
    let command = builder("a").breaker(touchy()).build(&isolation).unwrap();
    let _ = command.run(|_| Err("down"));
    clock.advance(5 * SECOND + Duration::from_millis(1));
    assert_eq!(command.run(|_| Ok(1)), Ok(1), "the probe closes it");
    assert_eq!(command.run(|_| Ok(2)), Ok(2));
    notified.wait_for(3);
}
