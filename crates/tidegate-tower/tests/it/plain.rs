//! The layer for services that do not speak HTTP.

use std::future::{pending, ready};
use std::io;
use std::task::Poll;

use tidegate_isolate::{Event, Verdict};
use tidegate_tower::CommandExt;
use tower::{Layer, service_fn};

use crate::support::{
    SECOND, active, call, calm, counted, failed, limited, now, parked, poll_once,
};

#[test]
fn a_call_ends_with_its_response() {
    let (_clock, _isolation, command) = limited(1);
    let double = service_fn(|n: u32| ready(Ok::<_, io::Error>(2 * n)));
    let mut service = command.plain_layer().layer(double);
    assert_eq!(now(call(&mut service, 21)).unwrap(), 42);
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn a_closure_judges_the_response() {
    let (_clock, _isolation, command) = calm();
    let layer = command
        .plain_layer()
        .classify(|outcome: Result<&u32, &io::Error>| match outcome {
            Ok(0) => Verdict::Ignored,
            other => other.is_ok().into(),
        });
    let mut service = layer.layer(service_fn(|n: u32| ready(Ok::<_, io::Error>(n))));
    assert_eq!(now(call(&mut service, 0)).unwrap(), 0);
    assert_eq!(now(call(&mut service, 1)).unwrap(), 1);
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::BadRequest], totals[Event::Success]), (1, 1));
}

#[test]
fn a_timeout_ends_the_call() {
    let (clock, _isolation, command) = limited(1);
    let mut service = command
        .plain_layer()
        .layer(service_fn(|()| pending::<io::Result<u32>>()));
    let mut waiting = call(&mut service, ());
    let parker = parked(waiting.as_mut());
    clock.advance(SECOND);
    assert!(parker.park(None));
    let Poll::Ready(Err(error)) = poll_once(waiting.as_mut()) else {
        panic!("the call has expired");
    };
    assert!(error.is_timed_out());
    assert_eq!(active(&command), 0);
}

#[test]
fn a_response_that_comes_too_late_is_an_error() {
    let (clock, _isolation, command) = calm();
    let late = clock.clone();
    let mut service = command.plain_layer().layer(service_fn(move |()| {
        late.advance(SECOND);
        ready(Ok::<_, io::Error>(7))
    }));
    assert!(now(call(&mut service, ())).unwrap_err().is_timed_out());
    assert_eq!(counted(&command), failed(Event::Timeout));
}
