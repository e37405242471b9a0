//! Retries within a budget.

use std::future::{Future, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use tidegate_isolate::{Cause, Command, CommandError, Event, Retry, RetryBudget};
use tidegate_tower::{CommandExt, CommandService, RetryService};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, service_fn};

use crate::support::{
    SECOND, Script, Step, active, call, calm, get, is_ready, limited, now, parked, poll_once,
    response, with_parker,
};

type Answer = Result<Response<Script>, io::Error>;
type Upstream = BoxCloneSyncService<Request<()>, Response<Script>, io::Error>;
type Retrying = RetryService<CommandService<Upstream>, io::Error>;

/// Builds a service that counts its attempts, with `answer` for each.
fn retrying(
    command: &Command,
    retry: Retry<io::Error>,
    answer: impl Fn(u32) -> Answer + Clone + Send + Sync + 'static,
) -> (Arc<AtomicU32>, Retrying) {
    let attempts = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&attempts);
    let upstream = BoxCloneSyncService::new(service_fn(move |_: Request<()>| {
        ready(answer(counter.fetch_add(1, Ordering::Relaxed) + 1))
    }));
    let service = command.layer().layer(upstream);
    (attempts, command.retry_layer(retry).layer(service))
}

fn made(attempts: &AtomicU32) -> u32 {
    attempts.load(Ordering::Relaxed)
}

#[test]
fn a_failing_response_is_tried_again_and_each_attempt_is_a_call() {
    let (_clock, _isolation, command) = limited(1);
    let (attempts, mut service) = retrying(&command, Retry::attempts(3), |n| {
        Ok(response(if n < 3 { 503 } else { 200 }, [Step::Data("one")]))
    });
    let answer = now(call(&mut service, get())).unwrap();
    assert_eq!((answer.status().as_u16(), made(&attempts)), (200, 3));
    assert_eq!(active(&command), 1, "only the last response holds a permit");
    drop(answer);
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Failure], totals[Event::Success]), (2, 1));
    assert_eq!(totals[Event::Retried], 2);
}

#[test]
fn an_error_is_tried_again_as_the_policy_says() {
    let (_clock, _isolation, command) = calm();
    let fails = |n| Answer::Err(io::Error::other(format!("reset {n}")));
    let (attempts, mut service) = retrying(&command, Retry::attempts(3), fails);
    let error = now(call(&mut service, get())).unwrap_err();
    assert_eq!(
        error.failure().unwrap().to_string(),
        "reset 3",
        "the last one"
    );
    assert_eq!(made(&attempts), 3);
    let never = Retry::attempts(3).when(|_: &CommandError<io::Error>| false);
    let (attempts, mut service) = retrying(&command, never, fails);
    assert!(now(call(&mut service, get())).is_err());
    assert_eq!(made(&attempts), 1);
}

#[test]
fn no_retry_is_made_without_budget() {
    let (_clock, _isolation, command) = calm();
    let retry = Retry::attempts(10).budget(&RetryBudget::new(0, 2));
    let (attempts, mut service) = retrying(&command, retry, |_| Ok(response(503, [])));
    let mut clone = service.clone();
    assert_eq!(now(call(&mut service, get())).unwrap().status(), 503);
    assert_eq!(made(&attempts), 3, "the budget allows two retries");
    assert_eq!(now(call(&mut clone, get())).unwrap().status(), 503);
    assert_eq!(made(&attempts), 4, "clones share the budget");
}

#[test]
fn calls_earn_retries() {
    let (_clock, _isolation, command) = calm();
    let retry = Retry::attempts(2).budget(&RetryBudget::new(50, 0));
    let (attempts, mut service) = retrying(&command, retry, |_| Ok(response(503, [])));
    for _ in 0..4 {
        assert!(now(call(&mut service, get())).is_ok());
    }
    assert_eq!(made(&attempts), 6, "one retry for two calls");
}

#[test]
fn a_request_that_must_not_be_repeated_is_sent_once() {
    let (_clock, _isolation, command) = calm();
    let (attempts, mut service) = retrying(&command, Retry::attempts(3), |_| Ok(response(503, [])));
    let post = Request::post("/").body(()).unwrap();
    assert_eq!(now(call(&mut service, post)).unwrap().status(), 503);
    assert_eq!(made(&attempts), 1);
}

/// A body whose copy panics.
struct Panics;

impl Clone for Panics {
    fn clone(&self) -> Self {
        panic!("out of ink");
    }
}

#[test]
fn a_request_whose_copy_panics_is_sent_once() {
    let (_clock, _isolation, command) = calm();
    let upstream = service_fn(|_: Request<Panics>| ready(Answer::Ok(response(503, []))));
    let layer = command.retry_layer::<io::Error>(Retry::attempts(3));
    let mut service = layer.layer(command.layer().layer(upstream));
    let request = Request::get("/").body(Panics).unwrap();
    assert_eq!(now(call(&mut service, request)).unwrap().status(), 503);
    assert_eq!(command.snapshot().totals[Event::Retried], 0);
}

#[test]
fn a_pause_is_as_long_as_the_response_asks_and_holds_no_permit() {
    let (clock, _isolation, command) = limited(1);
    let (attempts, mut service) = retrying(&command, Retry::attempts(2), |n| {
        let mut answer = response(if n == 1 { 429 } else { 200 }, [Step::Data("one")]);
        answer
            .headers_mut()
            .insert("retry-after", "2".parse().unwrap());
        Ok(answer)
    });
    let mut waiting = call(&mut service, get());
    let parker = parked(waiting.as_mut());
    assert_eq!(active(&command), 0, "the response was dropped");
    clock.advance(SECOND);
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert!(with_parker(&parker, |context| waiting.as_mut().poll(context)).is_pending());
    clock.advance(SECOND);
    assert!(parker.park(None), "the timer has woken it");
    assert_eq!(now(waiting.as_mut()).unwrap().status(), 200);
    assert_eq!(made(&attempts), 2);
}

#[test]
fn a_pause_that_is_too_long_ends_the_retries() {
    let (_clock, _isolation, command) = calm();
    let (attempts, mut service) = retrying(&command, Retry::attempts(2), |_| {
        let mut answer = response(503, []);
        answer
            .headers_mut()
            .insert("retry-after", "60".parse().unwrap());
        Ok(answer)
    });
    assert_eq!(now(call(&mut service, get())).unwrap().status(), 503);
    assert_eq!(made(&attempts), 1);
}

#[test]
fn stopping_the_isolation_ends_a_pause() {
    for status in [503, 0] {
        let (_clock, isolation, command) = calm();
        let retry = Retry::attempts(2).backoff(SECOND, 1.0);
        let (attempts, mut service) = retrying(&command, retry, move |_| match status {
            0 => Err(io::Error::other("reset")),
            status => Ok(response(status, [])),
        });
        let mut waiting = call(&mut service, get());
        let parker = parked(waiting.as_mut());
        isolation.shutdown_now();
        assert!(parker.park(None));
        let error = now(waiting.as_mut()).unwrap_err();
        match status {
            0 => assert!(error.is_failed(), "the last error"),
            _ => assert!(matches!(error.cause(), Cause::Cancelled)),
        }
        assert_eq!(made(&attempts), 1);
    }
}

#[test]
fn dropping_the_future_in_a_pause_ends_it() {
    let (clock, _isolation, command) = calm();
    let retry = Retry::attempts(2).backoff(SECOND, 1.0);
    let (attempts, mut service) = retrying(&command, retry, |_| Ok(response(503, [])));
    let mut waiting = call(&mut service, get());
    assert!(poll_once(waiting.as_mut()).is_pending());
    drop(waiting);
    clock.advance(Duration::from_secs(2));
    assert_eq!((made(&attempts), active(&command)), (1, 0));
}

/// A service that is ready for one call only, and then fails.
#[derive(Clone)]
struct OnceReady(Arc<AtomicU32>);

impl Service<Request<()>> for OnceReady {
    type Response = Response<Script>;
    type Error = io::Error;
    type Future = std::future::Ready<Answer>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Poll::Ready(Ok(())),
            _ => Poll::Ready(Err(io::Error::other("gone"))),
        }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(response(503, [])))
    }
}

#[test]
fn a_service_that_is_not_ready_for_the_retry_ends_the_call() {
    let (_clock, _isolation, command) = calm();
    let calls = command.layer().layer(OnceReady(Arc::default()));
    let mut service = command.retry_layer(Retry::attempts(3)).layer(calls);
    let error = now(call(&mut service, get())).unwrap_err();
    assert_eq!(error.failure().unwrap().to_string(), "gone");
    assert!(matches!(is_ready(&mut service), Poll::Ready(Err(_))));
}
