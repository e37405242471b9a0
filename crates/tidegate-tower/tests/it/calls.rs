//! A call until the head of its response: admission, timeout, cancellation, panics, errors.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tidegate_core::Blocking;
use tidegate_isolate::{
    Command, Criticality, Event, Isolation, PoolConfig, RequestContext, Verdict,
};
use tidegate_testkit::{Counter, DropCount};
use tidegate_tower::CommandExt;
use tower::{Layer, Service, service_fn};

use crate::support::{
    SECOND, Script, Step, active, builder, call, calm, cause, counted, failed, get, is_ready,
    limited, now, parked, poll_once, responds, response, still,
};

type Answer = Result<Response<Script>, io::Error>;

/// A service whose response never comes.
async fn never(_: Request<()>) -> Answer {
    pending().await
}

#[test]
fn a_permit_is_taken_in_call_and_not_in_poll_ready() {
    let (_clock, _isolation, command) = limited(1);
    let mut first = command.layer().layer(service_fn(never));
    let mut second = first.clone();
    assert!(is_ready(&mut first).is_ready() && is_ready(&mut second).is_ready());
    assert_eq!(active(&command), 0, "asking reserves nothing");
    let waiting = Box::pin(first.call(get()));
    assert_eq!(active(&command), 1);
    let error = now(second.call(get())).unwrap_err();
    assert!(error.is_rejected(), "clones share the command");
    drop(waiting);
    assert_eq!(active(&command), 0);
}

#[test]
fn dropping_the_future_before_the_head_cancels_and_gives_the_permit_back() {
    let (_clock, _isolation, command) = limited(1);
    let drops = Counter::new();
    let counter = drops.clone();
    let mut service = command.layer().layer(service_fn(move |_: Request<()>| {
        let held = DropCount::new(&counter);
        async move {
            let _held = held;
            pending::<Answer>().await
        }
    }));
    let mut never_polled = call(&mut service, get());
    drop(never_polled);
    assert_eq!((active(&command), drops.count()), (0, 1));
    never_polled = call(&mut service, get());
    assert!(poll_once(never_polled.as_mut()).is_pending());
    drop(never_polled);
    assert_eq!((active(&command), drops.count()), (0, 2));
    assert_eq!(counted(&command), [(Event::Cancelled, 2)]);
}

#[test]
fn a_timeout_before_the_head_wakes_the_task_and_drops_the_work() {
    let (clock, _isolation, command) = limited(1);
    let mut service = command.layer().layer(service_fn(never));
    let mut waiting = call(&mut service, get());
    let parker = parked(waiting.as_mut());
    clock.advance(SECOND);
    assert!(parker.park(None), "the timer has woken it");
    let Poll::Ready(Err(error)) = poll_once(waiting.as_mut()) else {
        panic!("the call has expired");
    };
    assert_eq!(cause(&error), "TimedOut(1s)");
    assert!(error.to_string().contains("command a timed out after 1s"));
    assert_eq!(active(&command), 0, "while the future still exists");
    assert_eq!(counted(&command), failed(Event::Timeout));
}

#[test]
fn a_response_that_comes_too_late_is_dropped() {
    let (clock, _isolation, command) = calm();
    let late = clock.clone();
    let mut service = command.layer().layer(service_fn(move |_: Request<()>| {
        let late = late.clone();
        async move {
            late.advance(SECOND);
            Ok::<_, io::Error>(response(200, []))
        }
    }));
    let error = now(call(&mut service, get())).unwrap_err();
    assert!(error.is_timed_out());
    assert_eq!(counted(&command), failed(Event::Timeout));
}

#[test]
fn grpc_timeout_shortens_the_timeout_and_never_extends_it() {
    let (clock, _isolation, command) = calm();
    let mut service = command.layer().layer(service_fn(never));
    for (stated, expected) in [
        ("80m", Duration::from_millis(80)),
        ("5S", SECOND),
        ("nonsense", SECOND),
    ] {
        let request = Request::builder().header("grpc-timeout", stated);
        let mut waiting = call(&mut service, request.body(()).unwrap());
        let parker = parked(waiting.as_mut());
        clock.advance(expected);
        assert!(parker.park(None));
        let error = now(waiting.as_mut()).unwrap_err();
        assert_eq!(cause(&error), format!("TimedOut({expected:?})"), "{stated}");
    }
}

#[test]
fn criticality_and_request_come_from_the_extensions() {
    let (_clock, _isolation, command) = limited(1);
    let _held = command.admit().unwrap();
    let mut service = command.layer().layer(service_fn(never));
    let context = RequestContext::new();
    let mut request = get();
    request.extensions_mut().insert(Criticality::Critical);
    request.extensions_mut().insert(context.clone());
    assert!(now(call(&mut service, request)).unwrap_err().is_rejected());
    let log = context.log();
    assert_eq!(log.len(), 1, "the call is in the log of its request");
}

#[test]
fn the_request_of_a_call_is_current_while_its_service_runs() {
    let (_clock, _isolation, command) = calm();
    let mut service = command
        .layer()
        .layer(service_fn(|request: Request<()>| async move {
            let expects = request.extensions().get::<RequestContext>().is_some();
            assert_eq!(RequestContext::current().is_some(), expects);
            Answer::Ok(response(200, []))
        }));
    let mut request = get();
    request.extensions_mut().insert(RequestContext::new());
    assert!(now(call(&mut service, request)).is_ok());
    assert!(now(call(&mut service, get())).is_ok());
    assert!(RequestContext::current().is_none());
}

#[test]
fn a_panic_in_call_is_an_error() {
    let (_clock, _isolation, command) = calm();
    let panics = |_: Request<()>| -> std::future::Ready<Answer> { panic!("out of ink") };
    let mut service = command.layer().layer(service_fn(panics));
    let error = now(call(&mut service, get())).unwrap_err();
    assert_eq!(cause(&error), r#"Panicked("out of ink")"#);
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), failed(Event::Failure));
}

#[test]
fn a_panic_in_the_future_is_an_error_and_its_drop_may_panic_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("once more");
        }
    }
    struct Panics {
        _bomb: Bomb,
    }
    impl Future for Panics {
        type Output = Answer;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
            panic!("out of ink");
        }
    }
    let (_clock, _isolation, command) = calm();
    let mut service = command
        .layer()
        .layer(service_fn(|_: Request<()>| Panics { _bomb: Bomb }));
    let error = now(call(&mut service, get())).unwrap_err();
    assert_eq!(cause(&error), r#"Panicked("out of ink")"#);
    assert_eq!(active(&command), 0);
    assert_eq!(counted(&command), failed(Event::Failure));
}

/// A service whose readiness is scripted.
#[derive(Clone)]
struct Readiness(fn() -> Poll<io::Result<()>>);

impl Service<Request<()>> for Readiness {
    type Response = Response<Script>;
    type Error = io::Error;
    type Future = std::future::Ready<Answer>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        (self.0)()
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        ready(Ok(response(200, [])))
    }
}

#[test]
fn a_service_that_never_becomes_ready_holds_nothing() {
    let (_clock, _isolation, command) = limited(1);
    let mut service = command.layer().layer(Readiness(|| Poll::Pending));
    assert!(is_ready(&mut service).is_pending());
    assert_eq!((active(&command), counted(&command)), (0, vec![]));
}

#[test]
fn an_error_of_poll_ready_is_passed_on_and_not_counted() {
    let (_clock, _isolation, command) = calm();
    let down = || Poll::Ready(Err(io::Error::other("down")));
    let mut service = command.layer().layer(Readiness(down));
    let Poll::Ready(Err(error)) = is_ready(&mut service) else {
        panic!("the service is down");
    };
    assert_eq!(error.failure().unwrap().to_string(), "down");
    assert_eq!((active(&command), counted(&command)), (0, vec![]));
}

#[test]
fn a_panic_of_poll_ready_reaches_the_caller_and_nothing_is_held() {
    let (_clock, _isolation, command) = limited(1);
    let mut service = command.layer().layer(Readiness(|| panic!("out of ink")));
    let caught = tidegate_core::internal::contain(|| drop(is_ready(&mut service)));
    assert_eq!(caught.unwrap_err().message(), "out of ink");
    assert_eq!((active(&command), counted(&command)), (0, vec![]));
}

#[test]
fn an_error_of_the_service_is_a_failure_with_its_source() {
    let (_clock, _isolation, command) = calm();
    let fails = |_: Request<()>| ready(Answer::Err(io::Error::other("reset")));
    let mut service = command.layer().layer(service_fn(fails));
    let error = now(call(&mut service, get())).unwrap_err();
    assert_eq!(error.failure().unwrap().to_string(), "reset");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(counted(&command), failed(Event::Failure));
}

#[test]
fn a_closure_judges_responses_and_errors() {
    let (_clock, _isolation, command) = calm();
    let layer =
        command.layer().classify(
            |outcome: Result<&Response<Script>, &io::Error>| match outcome {
                Ok(response) if response.status() == 404 => Verdict::Ignored,
                Ok(response) => Verdict::from(response.status() == 200),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Verdict::Ignored,
                Err(_) => Verdict::Success,
            },
        );
    let answer = |request: Request<()>| {
        ready(match request.uri().path() {
            "/invalid" => Answer::Err(io::ErrorKind::InvalidInput.into()),
            "/fine" => Answer::Err(io::Error::other("fine")),
            path => Ok(response(path[1..].parse().unwrap(), [])),
        })
    };
    let mut service = layer.layer(service_fn(answer));
    let mut ask = |path: &str| {
        let request = Request::builder().uri(path).body(()).unwrap();
        now(call(&mut service, request)).map(|response| response.status().as_u16())
    };
    assert_eq!(ask("/200").unwrap(), 200);
    assert_eq!(ask("/500").unwrap(), 500);
    assert_eq!(ask("/404").unwrap(), 404);
    assert!(ask("/invalid").unwrap_err().is_bad_request());
    assert!(
        ask("/fine").unwrap_err().is_failed(),
        "it is an error for the caller"
    );
    let totals = command.snapshot().totals;
    assert_eq!(totals[Event::Success], 2);
    assert_eq!(totals[Event::Failure], 1);
    assert_eq!(totals[Event::BadRequest], 2);
}

#[test]
fn a_classifier_that_panics_counts_as_a_failure() {
    let (_clock, _isolation, command) = calm();
    let layer = command
        .layer()
        .classify(|_: Result<&Response<Script>, &io::Error>| -> bool { panic!("out of ink") });
    let mut service = layer.layer(responds::<io::Error>(200, Vec::new));
    assert!(
        now(call(&mut service, get())).is_ok(),
        "the response is there"
    );
    assert_eq!(counted(&command), [(Event::Failure, 1)]);
    assert_eq!(active(&command), 0);
}

#[test]
fn by_default_5xx_and_the_statuses_of_a_failing_grpc_server_are_failures() {
    let (_clock, isolation) = still();
    let answer = |request: Request<()>| {
        let mut answer = response(200, []);
        let path = &request.uri().path()[1..];
        match path.strip_prefix("grpc-") {
            Some(status) => {
                let status = status.parse().unwrap();
                answer.headers_mut().insert("grpc-status", status);
            }
            None => *answer.status_mut() = path.parse().unwrap(),
        }
        ready(Answer::Ok(answer))
    };
    for (path, event) in [
        ("/200", Event::Success),
        ("/404", Event::Success),
        ("/429", Event::Success),
        ("/500", Event::Failure),
        ("/599", Event::Failure),
        ("/grpc-0", Event::Success),
        ("/grpc-5", Event::Success),
        ("/grpc-13", Event::Failure),
    ] {
        let command = builder(path).build(&isolation).unwrap();
        let mut service = command.layer().layer(service_fn(answer));
        let request = Request::builder().uri(path).body(()).unwrap();
        assert!(now(call(&mut service, request)).is_ok());
        assert_eq!(counted(&command), [(event, 1)], "{path}");
    }
}

#[test]
fn a_blocking_wait_inside_of_the_service_is_refused() {
    let (_clock, isolation, command) = calm();
    let legacy: Command<u32, io::Error> = Command::builder("legacy")
        .group("tests")
        .threads(PoolConfig::default())
        .build(&isolation)
        .unwrap();
    let mut service = command.layer().layer(service_fn(move |_: Request<()>| {
        let legacy = legacy.clone();
        async move {
            let refused = legacy.run(|_| Ok(1)).unwrap_err();
            assert_eq!(cause(&refused), "Rejected(Waiting)");
            let allowed = Blocking::allow(|| legacy.run(|_| Ok(2)));
            assert_eq!(allowed.unwrap(), 2);
            Ok::<_, Infallible>(response(200, []))
        }
    }));
    assert!(now(call(&mut service, get())).is_ok());
}

#[test]
fn a_call_that_is_running_ends_when_the_isolation_is_stopped() {
    let (_clock, isolation, command) = calm();
    let mut service = command.layer().layer(service_fn(never));
    let mut waiting = call(&mut service, get());
    let parker = parked(waiting.as_mut());
    isolation.shutdown_now();
    assert!(parker.park(None), "the stop has woken it");
    assert!(now(waiting.as_mut()).is_err());
    assert_eq!(active(&command), 0);
}

#[test]
fn a_runtime_that_is_dropped_in_the_middle_of_calls_gives_their_permits_back() {
    // A runtime that ends drops its tasks, on any thread, in any order.
    let (_clock, _isolation, command) = limited(3);
    let mut service = command
        .layer()
        .layer(service_fn(|request: Request<()>| async move {
            if request.uri().path() == "/head" {
                return Ok(response(200, [Step::Data("one"), Step::Waits]));
            }
            never(request).await
        }));
    let mut before_head = call(&mut service, get());
    assert!(poll_once(before_head.as_mut()).is_pending());
    let never_polled = call(&mut service, get());
    let head = Request::builder().uri("/head").body(()).unwrap();
    let after_head = now(call(&mut service, head)).unwrap();
    assert_eq!(active(&command), 3);
    std::thread::scope(|scope| {
        scope.spawn(move || drop((after_head, never_polled, before_head, service)));
    });
    assert_eq!(active(&command), 0);
    assert_eq!(
        counted(&command),
        [(Event::Success, 1), (Event::Cancelled, 2)]
    );
}

#[test]
fn a_call_that_is_dropped_while_its_timeout_fires_ends_once() {
    // The timer and the drop race for the same call; whichever is first, one permit comes back.
    let clock = tidegate_core::ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    let command = builder("a").permits(1).build(&isolation).unwrap();
    let service = command.layer().layer(service_fn(never));
    for round in 0..tidegate_testkit::rounds(200) {
        let mut service = service.clone();
        let mut waiting = call(&mut service, get());
        assert!(poll_once(waiting.as_mut()).is_pending());
        std::thread::scope(|scope| {
            scope.spawn(|| clock.advance(SECOND));
            scope.spawn(move || drop(waiting));
        });
        assert_eq!(active(&command), 0, "round {round}");
    }
    let totals = command.snapshot().totals;
    let rounds = tidegate_testkit::rounds(200) as u64;
    assert_eq!(totals[Event::Cancelled] + totals[Event::Timeout], rounds);
}

#[test]
fn futures_and_bodies_may_move_to_other_threads() {
    fn moves<T: Send>(_: &T) {}
    fn is_shared<T: Sync>(_: &T) {}
    let (_clock, _isolation, command) = calm();
    let layer = command.layer().respond();
    moves(&layer);
    is_shared(&layer);
    let mut service = layer.layer(service_fn(async |_: Request<()>| {
        Answer::Ok(response(200, []))
    }));
    moves(&service);
    is_shared(&service);
    let future = service.call(get());
    moves(&future);
    let response = now(future).unwrap();
    moves(&response);
    is_shared(&response);
}

#[test]
fn a_future_that_polls_itself_again_before_it_is_woken_is_fine() {
    let (_clock, _isolation, command) = calm();
    let mut left = 3;
    let mut polls = Some(poll_fn(move |_| {
        left -= 1;
        match left {
            0 => Poll::Ready(Answer::Ok(response(200, []))),
            _ => Poll::Pending,
        }
    }));
    let mut service = command
        .layer()
        .layer(service_fn(move |_: Request<()>| polls.take().unwrap()));
    let mut waiting = call(&mut service, get());
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert!(poll_once(waiting.as_mut()).is_ready());
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}
