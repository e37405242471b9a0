//! Futures behind permits: admitted at the first poll, cancelled by dropping.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{CancelToken, ManualClock, Parker};
use tidegate_isolate::{Cause, Event, Isolation, RequestContext};
use tidegate_testkit::until;

use crate::support::{
    Numbers, SECOND, alone, counted, failed, poll_by, poll_once, touchy, waiting,
};

#[test]
fn an_answer_that_is_ready() {
    let (_clock, _isolation, command) = alone(|c| c);
    let mut future = pin!(command.run_async(|_| async { Ok(3) }));
    assert_eq!(poll_once(future.as_mut()), Poll::Ready(Ok(3)));
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn a_permit_is_taken_at_the_first_poll_and_kept_until_the_end() {
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    let waiting = command.run_async(|_| pending());
    assert_eq!(command.snapshot().active, 0, "not begun yet");
    let mut waiting = Box::pin(waiting);
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(command.snapshot().active, 1);
    let mut second = pin!(command.run_async(|_| async { Ok(1) }));
    let error = failed(poll_once(second.as_mut()), "there is no permit left");
    assert!(error.is_rejected());
    drop(waiting);
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn dropping_cancels_and_is_counted() {
    let (_clock, _isolation, command) = alone(|c| c);
    let (sender, receiver) = std::sync::mpsc::channel::<CancelToken>();
    let mut future = Box::pin(command.run_async(move |token| {
        sender.send(token).unwrap();
        pending()
    }));
    assert!(poll_once(future.as_mut()).is_pending());
    let token = receiver.recv().unwrap();
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
    let (clock, _isolation, command) = alone(|c| {
        c.timeout(Duration::from_millis(50)).fallback(|why| {
            assert!(why.is_timed_out());
            Ok(8)
        })
    });
    let parker = Parker::new();
    let mut future = pin!(command.run_async(|_| pending()));
    assert!(poll_by(&parker, future.as_mut()).is_pending());
    clock.advance(Duration::from_millis(50));
    assert!(parker.park(None), "the timer has woken it");
    assert_eq!(poll_by(&parker, future.as_mut()), Poll::Ready(Ok(8)));
    assert_eq!(command.snapshot().active, 0);
    assert_eq!(
        counted(&command),
        [(Event::Timeout, 1), (Event::FallbackSuccess, 1)]
    );
}

#[test]
fn a_panic_in_the_future_is_contained() {
    let (_clock, _isolation, command) = alone(|c| c);
    let mut future = pin!(command.run_async(|_| async { panic!("out of ink") }));
    let error = failed(poll_once(future.as_mut()), "it has ended");
    assert_eq!(error.cause(), &Cause::Panicked("out of ink".into()));
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_dropped_probe_opens_the_breaker_again() {
    let (clock, _isolation, command) = alone(|c| c.breaker(touchy()));
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

#[test]
fn a_future_that_expires_between_its_poll_and_its_waker_is_woken() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let turns = clock.clone();
    // The time is over before the timer has a waker.
    let mut future = pin!(command.run_async(move |cancel| {
        poll_fn(move |_| {
            turns.advance(SECOND);
            until("the timer has seen it", || cancel.is_cancelled());
            Poll::Pending
        })
    }));
    let error = failed(poll_once(future.as_mut()), "nothing would poll it again");
    assert!(error.is_timed_out());
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_dropped_future_is_counted_when_it_was_dropped() {
    let (clock, _isolation, command) = alone(|c| c.no_timeout());
    let request = RequestContext::new();
    let call = command.call().context(&request);
    let mut future = Box::pin(call.run_async(|_| pending()));
    assert!(poll_once(future.as_mut()).is_pending());
    // Longer than the window: the bucket of its beginning is gone.
    clock.advance(SECOND * 30);
    drop(future);
    assert_eq!(command.snapshot().window[Event::Cancelled], 1);
    let log = request.log();
    assert_eq!((log.len(), log[0].took), (1, SECOND * 30));
}

#[test]
fn a_future_whose_drop_panics_gives_its_permit_back() {
    struct Bomb;
    impl Future for Bomb {
        type Output = Result<u32, &'static str>;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            Poll::Pending
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let (clock, _isolation, command) = alone(|c| c.permits(1).timeout(SECOND));
    let mut dropped = Box::pin(command.run_async(|_| Bomb));
    assert!(poll_once(dropped.as_mut()).is_pending());
    drop(dropped);
    assert_eq!(command.snapshot().active, 0);
    let parker = Parker::new();
    let mut late = Box::pin(command.run_async(|_| Bomb));
    assert!(poll_by(&parker, late.as_mut()).is_pending());
    clock.advance(SECOND);
    parker.park(None);
    let error = failed(poll_by(&parker, late.as_mut()), "its time is over");
    assert!(error.is_timed_out());
    assert_eq!(command.snapshot().active, 0);
}

#[test]
fn a_future_can_be_moved_to_another_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (_clock, _isolation, command) = alone(|c| c);
    let call = command.call().observe(|_| ()).cache_key("x");
    let future = is_send(call.run_async(|_| async { Ok(1) }));
    drop(future);
    let mut future = Box::pin(is_send(command.run_async(|_| pending())));
    assert!(poll_once(future.as_mut()).is_pending());
    std::thread::scope(|scope| scope.spawn(|| drop(future)).join().unwrap());
    assert_eq!(command.snapshot().active, 0);
}

/// A command with one permit, whose callers wait for it for up to ten milliseconds.
fn patient() -> (ManualClock, Isolation, Numbers) {
    alone(|c| c.permits(waiting(1, Duration::from_millis(10))))
}

#[test]
fn a_future_waits_for_a_permit_and_is_woken_when_one_is_free() {
    let (clock, _isolation, command) = patient();
    let mut first = Box::pin(command.run_async(|_| pending()));
    assert!(poll_once(first.as_mut()).is_pending());
    let parker = Parker::new();
    let mut second = pin!(command.run_async(|_| async { Ok(2) }));
    assert!(poll_by(&parker, second.as_mut()).is_pending());
    clock.advance(Duration::from_millis(4));
    drop(first);
    parker.park(None);
    assert_eq!(poll_by(&parker, second.as_mut()), Poll::Ready(Ok(2)));
    let snapshot = command.snapshot();
    assert_eq!((snapshot.active, snapshot.totals[Event::Success]), (0, 1));
    let waited = snapshot.latencies.wait.max().as_secs_f64() * 1e3;
    assert!((waited - 4.0).abs() < 0.2, "{waited}");
}

#[test]
fn a_future_that_waited_too_long_is_refused() {
    let (clock, _isolation, command) = patient();
    let mut first = Box::pin(command.run_async(|_| pending()));
    assert!(poll_once(first.as_mut()).is_pending());
    let parker = Parker::new();
    let mut second = pin!(command.run_async(|_| async { Ok(2) }));
    assert!(poll_by(&parker, second.as_mut()).is_pending());
    clock.advance(Duration::from_millis(10));
    parker.park(None);
    let error = failed(poll_by(&parker, second.as_mut()), "the wait is over");
    assert!(error.is_rejected());
    assert_eq!(command.snapshot().totals[Event::PermitsRejected], 1);
}

#[test]
fn a_future_dropped_while_it_waits_leaves_the_permit_to_the_next() {
    let (_clock, _isolation, command) = patient();
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
