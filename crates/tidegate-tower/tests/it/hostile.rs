//! Services, futures, bodies and wakers that panic where nobody expects it, bodies that lie, and an
//! isolation that goes first. After each case no permit is held, and each call was counted once.

use std::future::{Future, pending, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use tidegate_core::internal::contain;
use tidegate_isolate::{Event, Isolation, Retry, RetryBudget};
use tidegate_testkit::explode;
use tidegate_tower::CommandExt;
use tower::{Layer, service_fn};

use crate::support::{
    SECOND, Script, Step, active, builder, call, counted, frame, get, limited, now, poll_once,
    responds, response,
};

type Answer<B = Script> = Result<Response<B>, io::Error>;

/// Work that never ends, and panics when it is dropped.
struct PanicsInDrop;

impl Future for PanicsInDrop {
    type Output = Answer;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        Poll::Pending
    }
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        explode();
    }
}

/// How a call ends whose work panics in its drop.
#[derive(Clone, Copy, Debug)]
enum End {
    Dropped,
    NeverPolled,
    TimedOut,
    Stopped,
}

#[test]
fn work_that_panics_in_its_drop_gives_its_permit_back() {
    use End::{Dropped, NeverPolled, Stopped, TimedOut};
    for (end, event) in [
        (Dropped, Event::Cancelled),
        (NeverPolled, Event::Cancelled),
        (TimedOut, Event::Timeout),
        (Stopped, Event::Timeout),
    ] {
        for hook_panics in [false, true] {
            let clock = tidegate_core::ManualClock::new();
            let isolation = Isolation::builder().clock(&clock);
            let isolation = match hook_panics {
                true => isolation.hook(|_, _| explode()),
                false => isolation,
            };
            let isolation = isolation.build().unwrap();
            let command = builder("a").permits(1).build(&isolation).unwrap();
            let mut service = command
                .plain_layer()
                .layer(service_fn(|(): ()| PanicsInDrop));
            let mut waiting = call(&mut service, ());
            if hook_panics {
                // A hook that panics may also end the call at once.
                let _ = contain(|| drop(waiting));
                assert_eq!(active(&command), 0, "{end:?}");
                continue;
            }
            match end {
                Dropped => {
                    assert!(poll_once(waiting.as_mut()).is_pending());
                    assert!(
                        contain(|| drop(waiting)).is_err(),
                        "its owner gets the panic"
                    );
                }
                NeverPolled => assert!(contain(|| drop(waiting)).is_err()),
                TimedOut => {
                    assert!(poll_once(waiting.as_mut()).is_pending());
                    clock.advance(SECOND);
                    assert!(now(waiting.as_mut()).unwrap_err().is_timed_out());
                }
                Stopped => {
                    assert!(poll_once(waiting.as_mut()).is_pending());
                    isolation.shutdown_now();
                    assert!(now(waiting.as_mut()).is_err());
                }
            }
            assert_eq!(active(&command), 0, "{end:?}");
            assert_eq!(counted(&command)[0], (event, 1), "{end:?}");
        }
    }
}

/// A waker that panics with a payload that panics.
struct PanicsInWake;

impl Wake for PanicsInWake {
    fn wake(self: Arc<Self>) {
        explode();
    }
}

#[test]
fn a_waker_that_panics_keeps_no_other_call_from_its_timeout() {
    let (clock, _isolation, command) = limited(2);
    let service = command.plain_layer();
    let mut service = service.layer(service_fn(|(): ()| pending::<io::Result<()>>()));
    let waker = Waker::from(Arc::new(PanicsInWake));
    let mut first = call(&mut service, ());
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let mut second = call(&mut service, ());
    assert!(poll_once(second.as_mut()).is_pending());
    let _ = contain(|| clock.advance(SECOND));
    for waiting in [first, second] {
        assert!(now(waiting).unwrap_err().is_timed_out());
    }
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command)[0], (Event::Timeout, 2));
}

/// A body whose `is_end_stream` is always the same.
struct Lies {
    says: bool,
    left: u32,
}

impl Body for Lies {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(left) = self.left.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.left = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }

    fn is_end_stream(&self) -> bool {
        self.says
    }
}

#[test]
fn a_body_that_lies_about_its_end_loses_no_frame_and_no_permit() {
    for says in [false, true] {
        for left in [0, 1, 3] {
            let (_clock, _isolation, command) = limited(1);
            let lie = move |_: Request<()>| ready(Answer::Ok(Response::new(Lies { says, left })));
            let mut service = command.layer().layer(service_fn(lie));
            let mut body = now(call(&mut service, get())).unwrap().into_body();
            assert_eq!(active(&command), u64::from(!says));
            for _ in 0..left {
                assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
            }
            for _ in 0..2 {
                assert!(matches!(frame(&mut body), Poll::Ready(None)));
                assert_eq!(active(&command), 0, "{says} {left}");
            }
            assert_eq!(counted(&command), [(Event::Success, 1)]);
        }
    }
}

#[test]
fn a_thousand_clones_share_the_permits() {
    const CLONES: usize = 1000;
    let (_clock, _isolation, command) = limited(CLONES / 2);
    let layer = command.layer();
    let upstream = service_fn(|_: Request<()>| pending::<Answer>());
    let mut services: Vec<_> = (0..CLONES).map(|_| layer.clone().layer(upstream)).collect();
    let mut calls: Vec<_> = services.iter_mut().map(|one| call(one, get())).collect();
    let waiting = calls
        .iter_mut()
        .map(|one| poll_once(one.as_mut()).is_pending())
        .filter(|is_pending| *is_pending);
    assert_eq!(waiting.count(), CLONES / 2);
    assert_eq!(active(&command), CLONES as u64 / 2);
    thread::scope(|scope| {
        while !calls.is_empty() {
            let some = calls.split_off(calls.len().saturating_sub(250));
            scope.spawn(move || drop(some));
        }
    });
    assert_eq!(active(&command), 0);
    let half = CLONES as u64 / 2;
    let ends = [(Event::Cancelled, half), (Event::PermitsRejected, half)];
    assert!(ends.iter().all(|end| counted(&command).contains(end)));
}

#[test]
fn calls_and_bodies_outlive_every_handle_of_the_isolation() {
    let (clock, isolation, command) = limited(4);
    let upstream = |request: Request<()>| async move {
        match request.uri().path() {
            "/body" => Ok(response(200, [Step::Data("one"), Step::Waits])),
            _ => pending::<Answer>().await,
        }
    };
    let mut service = command.layer().layer(service_fn(upstream));
    let to = |path| Request::builder().uri(path).body(()).unwrap();
    let mut body = now(call(&mut service, to("/body"))).unwrap().into_body();
    let mut stalled = now(call(&mut service, to("/body"))).unwrap().into_body();
    assert!(matches!(frame(&mut stalled), Poll::Ready(Some(Ok(_)))));
    let mut waiting = call(&mut service, get());
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(active(&command), 3);
    drop((isolation, command, service));
    assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
    assert!(frame(&mut stalled).is_pending());
    drop(body);
    clock.advance(SECOND);
    let error = now(waiting).unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    assert!(matches!(frame(&mut stalled), Poll::Ready(Some(Err(_)))));
}

/// A response that panics when it is dropped.
struct BadResponse;

impl Drop for BadResponse {
    fn drop(&mut self) {
        explode();
    }
}

#[test]
fn a_response_that_panics_in_its_drop_does_not_end_the_retries() {
    let (_clock, _isolation, command) = limited(1);
    let mut attempts = 0;
    let upstream = service_fn(move |_: Request<()>| {
        attempts += 1;
        let (status, body) = match attempts {
            3 => (200, None),
            _ => (503, Some(BadResponse)),
        };
        ready(io::Result::Ok(
            Response::builder().status(status).body(body).unwrap(),
        ))
    });
    let retry = command.retry_layer(Retry::attempts(3));
    let mut service = retry.layer(command.plain_layer().layer(upstream));
    assert_eq!(now(call(&mut service, get())).unwrap().status(), 200);
    assert_eq!(active(&command), 0);
}

#[test]
fn cancelled_calls_hold_neither_permits_nor_the_budget() {
    let (clock, _isolation, command) = limited(2);
    let budget = RetryBudget::new(0, 5);
    let retry = Retry::attempts(10).backoff(SECOND, 1.0).budget(&budget);
    let upstream = responds::<io::Error>(503, Vec::new);
    let mut service = command
        .retry_layer(retry)
        .layer(command.layer().layer(upstream));
    for round in 0..8 {
        let mut waiting = call(&mut service, get());
        assert!(poll_once(waiting.as_mut()).is_pending(), "round {round}");
        assert_eq!(budget.left(), 4);
        drop(waiting);
        clock.advance(SECOND);
        assert_eq!((active(&command), budget.left()), (0, 5));
    }
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Failure], totals[Event::Retried]), (8, 0));
}
