//! The body of a response: the permit is held until it ends, in whichever way.

use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tidegate_core::Parker;
use tidegate_isolate::{AdaptiveLimit, Cause, Command, CommandError, Event};
use tidegate_tower::{CommandBody, CommandExt, CommandLayer};
use tower::{Layer, service_fn};

use crate::support::{
    SECOND, Script, Step, active, builder, call, calm, counted, failed, failure, frame, get,
    headers, limited, now, response, still, with_parker,
};

/// Returns what a command makes of this response.
fn through(command: &Command, response: Response<Script>) -> Response<CommandBody<Script>> {
    through_layer(&command.layer(), response)
}

fn through_layer(
    layer: &CommandLayer,
    response: Response<Script>,
) -> Response<CommandBody<Script>> {
    let mut answer = Some(response);
    let mut service = layer.layer(service_fn(move |_: Request<()>| {
        ready(Ok::<_, io::Error>(answer.take().unwrap()))
    }));
    now(call(&mut service, get())).unwrap()
}

/// Returns a body whose call is judged at its end.
fn judged_at_end(command: &Command, steps: impl IntoIterator<Item = Step>) -> CommandBody<Script> {
    through_layer(&command.layer().until_end(), response(200, steps)).into_body()
}

fn body_of(command: &Command, steps: impl IntoIterator<Item = Step>) -> CommandBody<Script> {
    through(command, response(200, steps)).into_body()
}

#[test]
fn the_permit_is_held_until_the_last_frame() {
    let (_clock, _isolation, command) = calm();
    let mut body = body_of(&command, [Step::Data("one"), Step::Data("two")]);
    assert!(!body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(6));
    let Poll::Ready(Some(Ok(one))) = frame(&mut body) else {
        panic!("there is a frame");
    };
    assert_eq!(one.into_data().unwrap(), "one");
    assert_eq!((active(&command), body.size_hint().exact()), (1, Some(3)));
    assert_eq!(counted(&command), [(Event::Success, 1)], "by its head");
    assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
    assert_eq!(active(&command), 0, "a reader need not ask for the end");
    assert!(body.is_end_stream());
    assert!(matches!(frame(&mut body), Poll::Ready(None)));
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn a_body_that_does_not_know_its_end_is_read_to_the_end() {
    let (_clock, _isolation, command) = calm();
    let script = Script::new([Step::Data("one")]).without_known_end();
    let mut body = through(&command, Response::new(script)).into_body();
    assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
    assert_eq!(active(&command), 1);
    assert!(matches!(frame(&mut body), Poll::Ready(None)));
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn an_empty_body_ends_the_call_at_once() {
    let (_clock, _isolation, command) = calm();
    let body = body_of(&command, []);
    assert_eq!(active(&command), 0);
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn a_call_that_ends_with_its_head_by_choice_holds_no_permit_for_the_body() {
    let (clock, _isolation, command) = calm();
    let mut service = command
        .layer()
        .until_head()
        .layer(service_fn(|_: Request<()>| {
            ready(Ok::<_, io::Error>(response(
                200,
                [Step::Data("one"), Step::Fails],
            )))
        }));
    let response = now(call(&mut service, get())).unwrap();
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
    clock.advance(SECOND * 10);
    let mut body = response.into_body();
    assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
    let error = failure(&mut body);
    assert!(error.is::<io::Error>());
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn a_body_that_is_never_read_holds_its_permit_until_it_is_dropped() {
    let (clock, _isolation, command) = limited(1);
    let kept = body_of(&command, [Step::Data("one")]);
    assert_eq!(active(&command), 1);
    drop(kept);
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
    let kept = body_of(&command, [Step::Data("one")]);
    clock.advance(SECOND);
    drop(kept);
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), [(Event::Success, 2)]);
    let kept = judged_at_end(&command, [Step::Data("one")]);
    clock.advance(SECOND);
    drop(kept);
    assert_eq!(active(&command), 0);
    assert_eq!(
        counted(&command),
        [(Event::Success, 2), (Event::Timeout, 1)],
        "too late"
    );
}

#[test]
fn a_reader_that_takes_its_time_is_no_fault_of_the_dependency() {
    let (clock, isolation) = still();
    let limit = AdaptiveLimit {
        initial: 50,
        ..AdaptiveLimit::aimd()
    };
    let command = builder("a")
        .adaptive(limit.clone())
        .build(&isolation)
        .unwrap();
    for round in 1..=20 {
        let mut body = body_of(&command, [Step::Data("one"), Step::Data("two")]);
        clock.advance(SECOND * 10);
        assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
        clock.advance(SECOND * 10);
        assert_eq!((active(&command), command.snapshot().overstaying), (1, 0));
        assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
        assert_eq!(counted(&command), [(Event::Success, round)]);
    }
    let snapshot = command.snapshot();
    assert_eq!(snapshot.active, 0);
    assert!(snapshot.adaptive_limit >= Some(50), "{snapshot}");
    let latency = &snapshot.latencies.total;
    assert_ne!(latency.count(), 0);
    assert_eq!(latency.max(), Duration::ZERO, "{snapshot}");

    // If the verdict waits for the end, the reader counts.
    let command = builder("b").adaptive(limit).build(&isolation).unwrap();
    for _ in 1..=20 {
        let body = judged_at_end(&command, [Step::Data("one")]);
        clock.advance(SECOND * 10);
        drop(body);
    }
    assert_eq!(counted(&command), [(Event::Timeout, 20)]);
    assert!(command.snapshot().adaptive_limit < Some(50));
}

#[test]
fn each_wait_for_the_dependency_may_take_as_long_as_the_timeout() {
    let (clock, _isolation, command) = calm();
    let steps = [
        Step::Data("one"),
        Step::WaitsOnce,
        Step::Data("two"),
        Step::WaitsOnce,
        Step::Data("three"),
    ];
    let mut body = body_of(&command, steps);
    for is_data in [true, false, true, false, true] {
        assert_eq!(
            matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))),
            is_data
        );
        clock.advance(SECOND * 3 / 4);
    }
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn a_body_that_is_dropped_half_way_keeps_the_verdict_on_its_head() {
    let (_clock, isolation) = still();
    for (status, event) in [(200, Event::Success), (503, Event::Failure)] {
        let command = builder(event.name()).build(&isolation).unwrap();
        let steps = [Step::Data("one"), Step::Waits];
        let mut body = through(&command, response(status, steps)).into_body();
        assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
        assert_eq!(active(&command), 1);
        drop(body);
        assert_eq!(active(&command), 0);
        assert_eq!(counted(&command), [(event, 1)]);
    }
}

#[test]
fn a_body_that_fails_half_way_is_a_failure_of_a_call_that_is_judged_at_its_end() {
    let (_clock, isolation) = still();
    for (until_end, event) in [(false, Event::Success), (true, Event::Failure)] {
        let command = builder(event.name()).build(&isolation).unwrap();
        let steps = [Step::Data("one"), Step::Fails, Step::Data("two")];
        let mut body = match until_end {
            true => judged_at_end(&command, steps),
            false => body_of(&command, steps),
        };
        assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
        let error = failure(&mut body);
        assert!(error.is::<io::Error>(), "the error is that of the body");
        assert_eq!(active(&command), 0);
        assert_eq!(counted(&command), [(event, 1)]);
    }
}

#[test]
fn a_body_that_panics_after_its_call_has_ended_is_an_error_too() {
    let (_clock, _isolation, command) = calm();
    let steps = response(200, [Step::Panics, Step::Data("one")]);
    let mut body = through_layer(&command.layer().until_head(), steps).into_body();
    let error = failure(&mut body);
    assert_eq!(error.to_string(), "the body panicked: out of ink");
    assert!(matches!(frame(&mut body), Poll::Ready(None)) && body.is_end_stream());
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

/// A body that panics in everything but `poll_frame`.
struct Hostile;

impl Body for Hostile {
    type Data = bytes::Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<io::Result<http_body::Frame<bytes::Bytes>>>> {
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        panic!("out of ink")
    }

    fn size_hint(&self) -> http_body::SizeHint {
        panic!("out of ink")
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        panic!("out of paper")
    }
}

#[test]
fn a_body_that_panics_wherever_it_is_asked_gives_its_permit_back() {
    let (_clock, isolation) = still();
    for until_head in [false, true] {
        let command = builder(&format!("{until_head}")).build(&isolation).unwrap();
        let layer = match until_head {
            true => command.layer().until_head(),
            false => command.layer(),
        };
        let mut service = layer.layer(service_fn(|_: Request<()>| {
            ready(Ok::<_, io::Error>(Response::new(Hostile)))
        }));
        let mut body = now(call(&mut service, get())).unwrap().into_body();
        assert!(!body.is_end_stream());
        assert_eq!(body.size_hint().exact(), None);
        assert!(frame(&mut body).is_pending());
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(body)));
        assert!(dropped.is_err(), "the reader drops it, and gets its panic");
        assert_eq!(active(&command), 0);
        assert_eq!(counted(&command), [(Event::Success, 1)]);
    }
}

#[test]
fn a_body_that_panics_is_an_error_and_ends() {
    let (_clock, isolation) = still();
    for until_end in [false, true] {
        let command = builder(&format!("{until_end}")).build(&isolation).unwrap();
        let steps = [Step::Panics, Step::Data("one")];
        let (mut body, events) = match until_end {
            true => (
                judged_at_end(&command, steps),
                failed(Event::Failure).to_vec(),
            ),
            false => (body_of(&command, steps), vec![(Event::Success, 1)]),
        };
        let error = failure(&mut body);
        let error = error.downcast::<CommandError<std::convert::Infallible>>();
        assert_eq!(
            error.unwrap().cause(),
            &Cause::Panicked("out of ink".into())
        );
        assert!(matches!(frame(&mut body), Poll::Ready(None)) && body.is_end_stream());
        assert_eq!(active(&command), 0);
        assert_eq!(counted(&command), events);
    }
}

#[test]
fn a_dependency_that_stops_in_the_body_is_left_and_the_body_is_dropped() {
    let (clock, isolation) = still();
    for until_end in [false, true] {
        let builder = builder(&format!("{until_end}"));
        let command = builder.permits(1).build(&isolation).unwrap();
        let response = response(200, [Step::Data("one"), Step::Waits]);
        let dropped = Arc::clone(&response.body().dropped);
        let (layer, events) = match until_end {
            true => (command.layer().until_end(), failed(Event::Timeout).to_vec()),
            false => (command.layer(), vec![(Event::Success, 1)]),
        };
        let mut body = through_layer(&layer, response).into_body();
        assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
        let parker = Parker::new();
        let polled = with_parker(&parker, |context| Pin::new(&mut body).poll_frame(context));
        assert!(polled.is_pending() && !dropped.load(Ordering::Relaxed));
        clock.advance(SECOND);
        assert!(parker.park(None), "the timer has woken the reader");
        let error = failure(&mut body);
        let error = error.downcast::<CommandError<std::convert::Infallible>>();
        assert!(error.unwrap().is_timed_out());
        assert!(
            dropped.load(Ordering::Relaxed),
            "before the permit went back"
        );
        assert_eq!(active(&command), 0, "while the reader still has the body");
        assert!(matches!(frame(&mut body), Poll::Ready(None)) && body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(0));
        assert_eq!(counted(&command), events);
    }
}

#[test]
fn a_body_that_always_has_a_frame_times_out_if_it_is_judged_at_its_end() {
    let (clock, _isolation, command) = calm();
    let mut body = judged_at_end(&command, [Step::Endless]);
    assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
    clock.advance(SECOND);
    tidegate_testkit::until("the timer has expired the call", || {
        matches!(frame(&mut body), Poll::Ready(Some(Err(_))))
    });
    assert!(matches!(frame(&mut body), Poll::Ready(None)));
    assert_eq!(active(&command), 0);
}

#[test]
fn trailers_pass_through_and_decide_about_a_grpc_call() {
    let (_clock, isolation) = still();
    for (status, event) in [("0", Event::Success), ("14", Event::Failure)] {
        let command = builder(event.name()).build(&isolation).unwrap();
        let trailers = headers("grpc-status", status);
        let script = Script::new([Step::Data("one"), Step::Trailers(trailers.clone())]);
        let mut response = Response::new(script.without_known_end());
        *response.headers_mut() = headers("content-type", "application/grpc+proto");
        let mut body = through(&command, response).into_body();
        assert!(matches!(frame(&mut body), Poll::Ready(Some(Ok(_)))));
        assert!(counted(&command).is_empty(), "the head has no status");
        let Poll::Ready(Some(Ok(last))) = frame(&mut body) else {
            panic!("there are trailers");
        };
        assert_eq!(last.into_trailers().unwrap(), trailers);
        assert_eq!(active(&command), 0, "nothing comes after trailers");
        assert_eq!(counted(&command), [(event, 1)]);
    }
}

#[test]
fn a_whole_body_is_collected_with_its_trailers() {
    let (_clock, _isolation, command) = calm();
    let steps = [
        Step::Data("one "),
        Step::Data("two"),
        Step::Trailers(headers("checksum", "7")),
    ];
    let collected = now(body_of(&command, steps).collect()).unwrap();
    assert_eq!(collected.trailers().unwrap()["checksum"], "7");
    assert_eq!(collected.to_bytes(), "one two");
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

#[test]
fn the_default_body_is_empty() {
    let mut body = CommandBody::<Script>::default();
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    assert!(matches!(frame(&mut body), Poll::Ready(None)));
}

#[test]
fn stopping_the_isolation_ends_a_body_that_waits() {
    for until_end in [false, true] {
        let (_clock, isolation, command) = calm();
        let mut body = match until_end {
            true => judged_at_end(&command, [Step::Waits]),
            false => body_of(&command, [Step::Waits]),
        };
        let parker = Parker::new();
        let polled = with_parker(&parker, |context| Pin::new(&mut body).poll_frame(context));
        assert!(polled.is_pending());
        isolation.shutdown_now();
        assert!(parker.park(None));
        assert!(matches!(frame(&mut body), Poll::Ready(Some(Err(_)))));
        assert_eq!(active(&command), 0);
    }
}
