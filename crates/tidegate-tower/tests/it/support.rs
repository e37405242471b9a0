//! Doubles of services and bodies, and what the tests ask about a command.

use std::collections::VecDeque;
use std::future::{Future, Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tidegate_core::{ManualClock, Parker};
use tidegate_isolate::{Command, CommandBuilder, CommandError, Event, Isolation};
use tower::util::ServiceFn;
use tower::{Service, service_fn};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Builds an isolation on a clock that stands still.
pub(crate) fn still() -> (ManualClock, Isolation) {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    (clock, isolation)
}

/// Builds a command without limits on a clock that stands still.
pub(crate) fn calm() -> (ManualClock, Isolation, Command) {
    let (clock, isolation) = still();
    let command = builder("a").build(&isolation).unwrap();
    (clock, isolation, command)
}

/// Builds a command with so many permits on a clock that stands still.
pub(crate) fn limited(permits: usize) -> (ManualClock, Isolation, Command) {
    let (clock, isolation) = still();
    let command = builder("a").permits(permits).build(&isolation).unwrap();
    (clock, isolation, command)
}

pub(crate) fn builder(key: &str) -> CommandBuilder<(), std::convert::Infallible> {
    Command::builder(key).group("tests").timeout(SECOND)
}

/// Returns every event that was counted, with its count.
pub(crate) fn counted(command: &Command) -> Vec<(Event, u64)> {
    let totals = command.snapshot().totals;
    totals.iter().filter(|(_, count)| *count > 0).collect()
}

/// What is counted of one call that fails so.
pub(crate) fn failed(event: Event) -> [(Event, u64); 2] {
    [(event, 1), (Event::ExceptionThrown, 1)]
}

/// Returns the cause as text, since errors of the system cannot be compared.
pub(crate) fn cause<E: std::fmt::Debug>(error: &CommandError<E>) -> String {
    format!("{:?}", error.cause())
}

pub(crate) fn active(command: &Command) -> u64 {
    command.snapshot().active as u64
}

pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls a service that is ready, and returns the future.
pub(crate) fn call<S, Req>(service: &mut S, request: Req) -> Pin<Box<S::Future>>
where
    S: Service<Req>,
{
    assert!(matches!(is_ready(service), Poll::Ready(Ok(()))));
    Box::pin(service.call(request))
}

pub(crate) fn is_ready<S: Service<Req>, Req>(service: &mut S) -> Poll<Result<(), S::Error>> {
    service.poll_ready(&mut Context::from_waker(Waker::noop()))
}

/// Returns the output of a future that must be ready.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match poll_once(std::pin::pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}

/// What a poll of a body returns.
type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// Polls a body once.
pub(crate) fn frame<B: Body + Unpin>(body: &mut B) -> Polled<B> {
    Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future that is pending. The parker is unparked when it is woken.
pub(crate) fn parked<F: Future>(future: Pin<&mut F>) -> Parker {
    let parker = Parker::new();
    assert!(with_parker(&parker, |context| future.poll(context)).is_pending());
    parker
}

/// Returns the error of a body that must fail.
pub(crate) fn failure<B: Body + Unpin>(body: &mut B) -> B::Error {
    match frame(body) {
        Poll::Ready(Some(Err(error))) => error,
        _ => panic!("the body does not fail"),
    }
}

/// Polls with a waker that notifies a parker.
pub(crate) fn with_parker<R>(parker: &Parker, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let waker = Waker::from(parker);
    poll(&mut Context::from_waker(&waker))
}

/// What a scripted body does next.
#[derive(Debug)]
pub(crate) enum Step {
    Data(&'static str),
    Trailers(HeaderMap),
    Fails,
    Panics,
    /// Is pending, for ever.
    Waits,
    /// Is pending, once.
    WaitsOnce,
    /// Always has data.
    Endless,
}

/// A body that follows a script and tells when it is dropped.
#[derive(Debug)]
pub(crate) struct Script {
    steps: VecDeque<Step>,
    /// Whether the body knows its end before it is asked for another frame.
    knows_end: bool,
    pub(crate) dropped: Arc<AtomicBool>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            knows_end: true,
            dropped: Arc::default(),
        }
    }

    pub(crate) fn without_known_end(mut self) -> Self {
        self.knows_end = false;
        self
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Data(data)) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(data))))),
            Some(Step::Trailers(map)) => Poll::Ready(Some(Ok(Frame::trailers(map)))),
            Some(Step::Fails) => Poll::Ready(Some(Err(io::Error::other("reset")))),
            Some(Step::Panics) => panic!("out of ink"),
            Some(Step::Waits) => {
                self.steps.push_front(Step::Waits);
                Poll::Pending
            }
            Some(Step::WaitsOnce) => Poll::Pending,
            Some(Step::Endless) => {
                self.steps.push_front(Step::Endless);
                Poll::Ready(Some(Ok(Frame::data(Bytes::from("more")))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.knows_end && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let mut sizes = self.steps.iter().map(|step| match step {
            Step::Data(data) => Some(data.len() as u64),
            _ => None,
        });
        let size: Option<u64> = sizes.try_fold(0, |sum, size| Some(sum + size?));
        size.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn get() -> Request<()> {
    Request::new(())
}

/// Returns a response with this status and body.
pub(crate) fn response(status: u16, steps: impl IntoIterator<Item = Step>) -> Response<Script> {
    Response::builder()
        .status(status)
        .body(Script::new(steps))
        .unwrap()
}

type Answered<E> = Ready<Result<Response<Script>, E>>;

/// A service that responds to each request with this status and these steps.
pub(crate) fn responds<E>(
    status: u16,
    steps: impl Fn() -> Vec<Step> + Clone,
) -> ServiceFn<impl Fn(Request<()>) -> Answered<E> + Clone> {
    service_fn(move |_| ready(Ok(response(status, steps()))))
}

/// Returns headers with one entry.
pub(crate) fn headers(name: &'static str, value: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, value.parse().unwrap());
    headers
}
