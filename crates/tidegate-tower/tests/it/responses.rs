//! Rejections as responses, for servers.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::io;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use tidegate_isolate::{
    BreakerConfig, BreakerWindow, Cause, Command, CommandError, Isolation, PoolConfig, RateConfig,
};
use tidegate_tower::CommandExt;
use tower::{Layer, Service, service_fn};

use crate::support::{
    SECOND, Script, Step, active, builder, call, calm, get, is_ready, limited, now, parked,
    responds, response, still,
};

type Answer = Result<Response<Script>, Infallible>;

fn grpc() -> Request<()> {
    let request = Request::builder().header("content-type", "application/grpc+proto");
    request.body(()).unwrap()
}

/// Makes one call through a server's layer. The service returns this status.
fn ask(command: &Command, request: Request<()>, status: u16) -> Response<()> {
    let mut service = command
        .layer()
        .respond()
        .layer(responds::<Infallible>(status, Vec::new));
    let response = now(call(&mut service, request)).unwrap();
    assert!(response.body().is_end_stream());
    response.map(drop)
}

#[test]
fn a_response_of_the_service_is_passed_on() {
    let (_clock, _isolation, command) = calm();
    assert_eq!(ask(&command, get(), 204).status(), 204);
    assert_eq!(ask(&command, get(), 500).status(), 500);
}

#[test]
fn a_rejection_is_503() {
    let (_clock, _isolation, command) = limited(1);
    let _held = command.admit().unwrap();
    let response = ask(&command, get(), 200);
    assert_eq!(response.status(), 503);
    assert!(!response.headers().contains_key("retry-after"));
    let response = ask(&command, grpc(), 200);
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["grpc-status"], "14");
    assert_eq!(response.headers()["content-type"], "application/grpc");
}

#[test]
fn a_command_with_threads_is_an_error_of_the_server() {
    let isolation = Isolation::builder().on_unhandled(|_, _| ());
    let isolation = isolation.build().unwrap();
    let command = builder("a").threads(PoolConfig::default());
    let command = command.build(&isolation).unwrap();
    assert_eq!(ask(&command, get(), 200).status(), 500);
    let response = ask(&command, grpc(), 200);
    assert_eq!(
        response.headers()["grpc-status"],
        "13",
        "INTERNAL: no client may retry"
    );
    let message = &response.headers()["grpc-message"];
    assert_eq!(message, "its command has threads, not permits");
}

#[test]
fn an_open_breaker_says_when_to_try_again() {
    let (_clock, isolation) = still();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        sleep: Duration::from_millis(1_500),
        ..BreakerConfig::default()
    };
    let command = builder("a").breaker(breaker).build(&isolation).unwrap();
    assert_eq!(ask(&command, get(), 500).status(), 500);
    let response = ask(&command, get(), 200);
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "2");
    let response = ask(&command, grpc(), 200);
    assert_eq!(response.headers()["grpc-retry-pushback-ms"], "1500");
}

#[test]
fn a_rate_limit_is_429() {
    let (_clock, isolation) = still();
    let rate = RateConfig {
        calls: 1,
        per: SECOND,
        burst: 1,
    };
    let command = builder("a").rate(rate).build(&isolation).unwrap();
    assert_eq!(ask(&command, get(), 200).status(), 200);
    let response = ask(&command, get(), 200);
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(ask(&command, grpc(), 200).headers()["grpc-status"], "8");
}

#[test]
fn a_timeout_is_504_and_a_panic_is_500() {
    let (clock, _isolation, command) = calm();
    for (request, expected) in [(get(), "504"), (grpc(), "4")] {
        let mut service = command
            .layer()
            .respond()
            .layer(service_fn(|_: Request<()>| pending::<Answer>()));
        let mut waiting = call(&mut service, request);
        let parker = parked(waiting.as_mut());
        clock.advance(SECOND);
        assert!(parker.park(None));
        assert_eq!(status(&now(waiting.as_mut()).unwrap()), expected);
    }
    for (request, expected) in [(get(), "500"), (grpc(), "13")] {
        let panics = |_: Request<()>| -> std::future::Ready<Answer> { panic!("out of ink") };
        let mut service = command.layer().respond().layer(service_fn(panics));
        let response = now(call(&mut service, request)).unwrap();
        assert_eq!(status(&response), expected);
    }
    assert_eq!(active(&command), 0);
}

fn status<B>(response: &Response<B>) -> String {
    let grpc = response.headers().get("grpc-status");
    grpc.map_or_else(
        || response.status().as_str().to_owned(),
        |status| status.to_str().unwrap().to_owned(),
    )
}

#[test]
fn an_error_of_the_service_stays_an_error() {
    let (_clock, _isolation, command) = calm();
    let fails = |_: Request<()>| ready(Err::<Response<Script>, _>(io::Error::other("reset")));
    let mut service = command.layer().respond().layer(service_fn(fails));
    let error: io::Error = now(call(&mut service, get())).unwrap_err();
    assert_eq!(error.to_string(), "reset");
    let ignored = command
        .layer()
        .classify(|_: Result<&Response<Script>, &io::Error>| tidegate_isolate::Verdict::Ignored);
    let mut service = ignored.respond().layer(service_fn(fails));
    assert_eq!(
        now(call(&mut service, get())).unwrap_err().to_string(),
        "reset"
    );
}

#[test]
fn a_closure_makes_the_response() {
    let (_clock, _isolation, command) = limited(1);
    let _held = command.admit().unwrap();
    let layer = command
        .layer()
        .respond_with(|error: &CommandError<Infallible>| {
            assert!(matches!(error.cause(), Cause::Rejected(_)));
            response(418, [Step::Data("busy")])
        });
    let mut service = layer.layer(responds::<Infallible>(200, Vec::new));
    let answer = now(call(&mut service, get())).unwrap();
    assert_eq!(answer.status(), 418);
    assert_eq!(answer.body().size_hint().exact(), Some(4));
}

#[test]
fn a_closure_that_panics_gives_the_default_response() {
    let (_clock, _isolation, command) = limited(1);
    let _held = command.admit().unwrap();
    let layer = command
        .layer()
        .respond_with(|_: &CommandError<Infallible>| -> Response<Script> { panic!("out of ink") });
    let mut service = layer.layer(responds::<Infallible>(200, Vec::new));
    assert_eq!(now(call(&mut service, get())).unwrap().status(), 503);
}

#[test]
fn the_service_is_ready_when_the_inner_one_is() {
    let (_clock, _isolation, command) = limited(1);
    let _held = command.admit().unwrap();
    let mut service = command
        .layer()
        .respond()
        .layer(responds::<Infallible>(200, Vec::new));
    assert!(is_ready(&mut service).is_ready());
    let mut clone = service.clone();
    assert_eq!(now(clone.call(get())).unwrap().status(), 503);
}
