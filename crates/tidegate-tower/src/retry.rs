//! Retries: a layer around a service behind a command. A [`Retry`] policy decides.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tidegate_core::internal::contain;
use tidegate_isolate::internal::{Retries, RetryPause, UntypedCommand};
use tidegate_isolate::{Cause, Command, CommandError, Retry, Verdict};
use tower_layer::Layer;
use tower_service::Service;

use crate::classify::{ByStatus, Classify};

/// Returns the pause before the retry that a response asks for: it counts as a failure, see [`ByStatus`],
/// or is busy. The header `retry-after` is respected if it is a number of seconds.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let verdict = ByStatus.classify(Ok::<_, &()>(response));
    let is_busy = response.status() == StatusCode::TOO_MANY_REQUESTS;
    (is_busy || verdict == Verdict::Failure).then(|| stated_pause(response.headers()))
}

/// Returns the pause that a response asks for.
fn stated_pause(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|seconds| seconds.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

/// A layer that retries. [`CommandExt::retry_layer`](crate::CommandExt::retry_layer) creates it.
///
/// A request is sent again if its method is idempotent: GET, HEAD, OPTIONS, TRACE, PUT and DELETE. Its
/// body must be cloneable. The [`Retry`] policy judges errors. A response is tried again if it counts as
/// a failure, see [`ByStatus`], or has the status 429; its header `retry-after` is the shortest pause, if
/// it is a number of seconds.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use tidegate_isolate::{Command, Isolation, Retry};
/// use tidegate_testkit::Counter;
/// use tidegate_tower::CommandExt;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # tidegate_testkit::block_on("the doc test", async {
/// let isolation = Isolation::builder().build()?;
/// let prices: Command = Command::builder("prices").group("catalog").build(&isolation)?;
/// let calls = Counter::new();
/// let counter = calls.clone();
/// let upstream = service_fn(async |_: Request<()>| {
///     let status = if counter.hit() == 1 { 503 } else { 200 };
///     Ok::<_, std::io::Error>(Response::builder().status(status).body(Empty::<&[u8]>::new()).unwrap())
/// });
/// let client = ServiceBuilder::new()
///     .layer(prices.retry_layer(Retry::attempts(3))) // around the command: each attempt is a call
///     .layer(prices.layer())
///     .service(upstream);
/// let response = client.oneshot(Request::new(())).await?;
/// assert_eq!((response.status().as_u16(), calls.count()), (200, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct RetryLayer<E> {
    command: Command<(), E>,
    retry: Retry<E>,
}

impl<S, E> Layer<S> for RetryLayer<E> {
    type Service = RetryService<S, E>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryService {
            inner,
            layer: self.clone(),
        }
    }
}

impl<E> Clone for RetryLayer<E> {
    fn clone(&self) -> Self {
        Self {
            command: self.command.clone(),
            retry: self.retry.clone(),
        }
    }
}

/// A service that retries. [`RetryLayer`] creates it. Clones share the budget.
///
/// ```
/// use tidegate_tower::{CommandService, RetryService};
///
/// struct Clients<S, E> {
///     prices: RetryService<CommandService<S>, E>, // `E` is the error of `S`
/// }
/// # fn _of<S: Clone, E>(clients: &Clients<S, E>) -> RetryService<CommandService<S>, E> {
/// #     clients.prices.clone()
/// # }
/// ```
#[derive(Debug)]
pub struct RetryService<S, E> {
    inner: S,
    layer: RetryLayer<E>,
}

impl<S, E, D, B> Service<Request<D>> for RetryService<S, E>
where
    S: Service<Request<D>, Response = Response<B>, Error = CommandError<E>> + Clone,
    E: Send + 'static,
    D: Clone,
{
    type Response = S::Response;
    type Error = CommandError<E>;
    type Future = RetryFuture<S, D, E>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<D>) -> Self::Future {
        let layer = self.layer.clone();
        // The service that is ready makes the attempts; a clone of it is not ready.
        let other = self.inner.clone();
        let mut service = mem::replace(&mut self.inner, other);
        let retries = Retries::new(&layer.retry, &layer.command);
        let spare = layer.copy_of(&request);
        RetryFuture {
            attempt: Attempt::Calling {
                future: service.call(request),
            },
            service,
            spare,
            retries,
            layer,
        }
    }
}

impl<E: Send + 'static> RetryLayer<E> {
    pub(crate) fn new(command: &UntypedCommand, retry: Retry<E>) -> Self {
        let command = command.typed();
        Self { command, retry }
    }

    /// Copies a request that may be sent again. `Clone` is user code: if it panics, there is no retry.
    fn copy_of<D: Clone>(&self, request: &Request<D>) -> Option<Request<D>> {
        let copy = || request.method().is_idempotent().then(|| request.clone());
        contain(copy).unwrap_or_else(|panic| {
            UntypedCommand::of(&self.command).panicked(panic.message());
            None
        })
    }

    /// Decides whether there is a retry after this outcome. Returns the pause before it.
    fn after<B>(
        retries: &mut Retries<(), E>,
        outcome: &Result<Response<B>, CommandError<E>>,
    ) -> Option<RetryPause<(), E>> {
        match outcome {
            Err(error) => retries.after_error(error),
            Ok(response) => retries.after_failure(Some(retry_after(response)?)),
        }
    }
}

impl<S: Clone, E> Clone for RetryService<S, E> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

pin_project! {
    /// The future of a [`RetryService`]. Dropping it drops the current attempt or pause. A retry is
    /// taken from the budget before its pause, and does not return to it.
    pub struct RetryFuture<S, D, E>
    where
        S: Service<Request<D>>,
    {
        #[pin]
        attempt: Attempt<S::Future, E>,
        service: S,
        // The request of the next attempt, if it can be made.
        spare: Option<Request<D>>,
        retries: Retries<(), E>,
        layer: RetryLayer<E>,
    }
}

pin_project! {
    /// Where a call with retries stands.
    #[project = AttemptProj]
    enum Attempt<F, E> {
        Calling {
            #[pin]
            future: F,
        },
        // `last` is the error of the last attempt. A response was dropped, because it may hold the
        // permit of its call.
        Pausing {
            pause: RetryPause<(), E>,
            last: Option<CommandError<E>>,
        },
        // The service must become ready again.
        Waiting,
    }
}

impl<S, D, B, E> Future for RetryFuture<S, D, E>
where
    S: Service<Request<D>, Response = Response<B>, Error = CommandError<E>>,
    E: Send + 'static,
    D: Clone,
{
    type Output = Result<S::Response, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.attempt.as_mut().project() {
                AttemptProj::Calling { future } => {
                    let outcome = ready!(future.poll(context));
                    if this.spare.is_none() {
                        return Poll::Ready(outcome);
                    }
                    let Some(pause) = RetryLayer::after(this.retries, &outcome) else {
                        return Poll::Ready(outcome);
                    };
                    // A response is dropped here. Its `Drop` is user code.
                    let last = contain(|| outcome.err()).unwrap_or(None);
                    this.attempt.set(Attempt::Pausing { pause, last });
                }
                AttemptProj::Pausing { pause, last } => {
                    if !ready!(Pin::new(pause).poll(context)) {
                        let stopped =
                            || CommandError::new(this.layer.command.key(), Cause::Cancelled);
                        return Poll::Ready(Err(last.take().unwrap_or_else(stopped)));
                    }
                    this.attempt.set(Attempt::Waiting);
                }
                AttemptProj::Waiting => {
                    ready!(this.service.poll_ready(context))?;
                    let Some(request) = this.spare.take() else {
                        unreachable!("there is no pause without a request");
                    };
                    *this.spare = this.layer.copy_of(&request);
                    let future = this.service.call(request);
                    this.attempt.set(Attempt::Calling { future });
                }
            }
        }
    }
}

tidegate_core::debug_fields!([S: Service<Request<D>>, D, E] RetryFuture<S, D, E>);
