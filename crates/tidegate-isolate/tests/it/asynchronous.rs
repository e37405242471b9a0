//! Futures behind permits: admitted at the first poll, cancelled by dropping.

use std::future::pending;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{CancelToken, Parker};
use tidegate_isolate::{BreakerConfig, BreakerWindow, Cause, Event, Isolation, PermitConfig};

use crate::support::{Numbers, builder, counted, poll_once, still};

#[test]
fn an_answer_that_is_ready() {
    let (_clock, isolation) = still();
    let command = builder("a").build(&isolation).unwrap();
    let mut future = pin!(command.run_async(|_| async { Ok(3) }));
    assert_eq!(poll_once(future.as_mut()), Poll::Ready(Ok(3)));
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn a_permit_is_taken_at_the_first_poll_and_kept_until_the_end() {
    let (_clock, isolation) = still();
    let command = builder("a").permits(1).build(&isolation).unwrap();
    let waiting = command.run_async(|_| pending());
    assert_eq!(command.snapshot().active, 0, "not begun yet");
    let mut waiting = Box::pin(waiting);
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(command.snapshot().active, 1);
    let mut second = pin!(command.run_async(|_| async { Ok(1) }));
    let Poll::Ready(Err(error)) = poll_once(second.as_mut()) else {
        panic!("there is no permit left");
    };
    assert!(error.is_rejected());
    drop(waiting);
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn dropping_cancels_and_is_counted() {
    let (_clock, isolation) = still();
    let command = builder("a").build(&isolation).unwrap();
    let (tell, told) = std::sync::mpsc::channel::<CancelToken>();
    let mut future = Box::pin(command.run_async(move |token| {
        tell.send(token).unwrap();
        pending()
    }));
    assert!(poll_once(future.as_mut()).is_pending());
    let token = told.recv().unwrap();
    assert!(!token.is_cancelled());
    drop(future);
    assert!(token.is_cancelled());
    assert_eq!(counted(&command), [(Event::Cancelled, 1)]);
    let snapshot = command.snapshot();
    assert_eq!(
        (
            snapshot.window.health_total(),
            snapshot.latencies.run.count()
        ),
        (0, 1)
    );
}

#[test]
fn the_time_wakes_the_future_and_drops_the_work() {
    let (clock, isolation) = still();
    let command = builder("a")
        .timeout(Duration::from_millis(50))
        .fallback(|why| {
            assert!(why.is_timed_out());
            Ok(8)
        })
        .build(&isolation)
        .unwrap();
    let parker = Parker::new();
    let waker = Waker::from(&parker);
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(command.run_async(|_| pending()));
    assert!(future.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(50));
    assert!(parker.park(None), "the timer has woken it");
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(Ok(8)));
    assert_eq!(command.snapshot().active, 0);
    assert_eq!(
        counted(&command),
        [(Event::Timeout, 1), (Event::FallbackSuccess, 1)]
    );
}

#[test]
fn a_panic_in_the_future_is_contained() {
    let (_clock, isolation) = still();
    let command = builder("a").build(&isolation).unwrap();
    let mut future = pin!(command.run_async(|_| async { panic!("out of ink") }));
    let Poll::Ready(Err(error)) = poll_once(future.as_mut()) else {
        panic!("it has ended");
    };
    assert_eq!(error.cause(), &Cause::Panicked("out of ink".into()));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_dropped_probe_opens_the_breaker_again() {
    let (clock, isolation) = still();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let command = builder("a").breaker(breaker).build(&isolation).unwrap();
    let _ = command.run(|_| Err("down"));
    clock.advance(Duration::from_millis(5_001));
    let mut probe = Box::pin(command.run_async(|_| pending()));
    assert!(poll_once(probe.as_mut()).is_pending());
    assert!(
        command.run(|_| Ok(1)).unwrap_err().is_short_circuited(),
        "one probe is out"
    );
    drop(probe);
    assert!(command.run(|_| Ok(1)).unwrap_err().is_short_circuited());
    clock.advance(Duration::from_millis(5_001));
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

/// A command with one permit, whose callers wait for it for up to ten milliseconds.
fn patient(isolation: &Isolation) -> Numbers {
    let permits = PermitConfig {
        max_wait: Duration::from_millis(10),
        ..PermitConfig::of(1)
    };
    builder("a").permits_with(permits).build(isolation).unwrap()
}

#[test]
fn a_future_waits_for_a_permit_and_is_woken_when_one_is_free() {
    let (clock, isolation) = still();
    let command = patient(&isolation);
    let mut first = Box::pin(command.run_async(|_| pending()));
    assert!(poll_once(first.as_mut()).is_pending());
    let parker = Parker::new();
    let waker = Waker::from(&parker);
    let mut second = pin!(command.run_async(|_| async { Ok(2) }));
    let mut context = Context::from_waker(&waker);
    assert!(second.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(4));
    drop(first);
    parker.park(None);
    assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(Ok(2)));
    let snapshot = command.snapshot();
    assert_eq!((snapshot.active, snapshot.totals[Event::Success]), (0, 1));
    let waited = snapshot.latencies.wait.max().as_secs_f64() * 1e3;
    assert!((waited - 4.0).abs() < 0.2, "{waited}");
}

#[test]
fn a_future_that_waited_too_long_is_refused() {
    let (clock, isolation) = still();
    let command = patient(&isolation);
    let mut first = Box::pin(command.run_async(|_| pending()));
    assert!(poll_once(first.as_mut()).is_pending());
    let parker = Parker::new();
    let waker = Waker::from(&parker);
    let mut second = pin!(command.run_async(|_| async { Ok(2) }));
    let mut context = Context::from_waker(&waker);
    assert!(second.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(10));
    parker.park(None);
    let Poll::Ready(Err(error)) = second.as_mut().poll(&mut context) else {
        panic!("the wait is over");
    };
    assert!(error.is_rejected());
    assert_eq!(command.snapshot().totals[Event::PermitsRejected], 1);
}

#[test]
fn a_future_dropped_while_it_waits_leaves_the_permit_to_the_next() {
    let (_clock, isolation) = still();
    let command = patient(&isolation);
    let mut first = Box::pin(command.run_async(|_| pending()));
    assert!(poll_once(first.as_mut()).is_pending());
    let mut second = Box::pin(command.run_async(|_| async { Ok(2) }));
    let mut third = Box::pin(command.run_async(|_| async { Ok(3) }));
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(third.as_mut()).is_pending());
    // The second future already has the permit when it is dropped.
    drop(first);
    drop(second);
    assert_eq!(poll_once(third.as_mut()), Poll::Ready(Ok(3)));
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::Cancelled], command.snapshot().active),
        (2, 0)
    );
}
