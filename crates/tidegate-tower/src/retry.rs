//! Retries: a layer around a service behind a command. A [`Retry`] policy decides.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
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

/// Copies a request for a later attempt.
///
/// A closure that returns an `Option` implements it, such as `reqwest::Request::try_clone`.
/// [`CopyIdempotent`] is the default.
///
/// ```
/// use tidegate_tower::CopyRequest;
///
/// let short = |query: &String| (query.len() < 100).then(|| query.clone());
/// assert!(short.copy(&"select 1".to_owned()).is_some());
/// ```
pub trait CopyRequest<Req> {
    /// Returns a copy, or `None` if the request must not or cannot be sent again.
    fn copy(&self, request: &Req) -> Option<Req>;
}

impl<Req, F: Fn(&Req) -> Option<Req>> CopyRequest<Req> for F {
    fn copy(&self, request: &Req) -> Option<Req> {
        self(request)
    }
}

/// Copies HTTP requests whose method is idempotent: GET, HEAD, OPTIONS, TRACE, PUT and DELETE. The
/// body must be cloneable.
///
/// ```
/// use http::Request;
/// use tidegate_tower::{CopyIdempotent, CopyRequest};
///
/// assert!(CopyIdempotent.copy(&Request::get("/").body("")?).is_some());
/// assert!(CopyIdempotent.copy(&Request::post("/").body("")?).is_none());
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyIdempotent;

impl<B: Clone> CopyRequest<Request<B>> for CopyIdempotent {
    fn copy(&self, request: &Request<B>) -> Option<Request<B>> {
        request.method().is_idempotent().then(|| request.clone())
    }
}

/// Decides whether a response asks for a retry. Errors are judged by the [`Retry`] policy.
///
/// A closure that returns a `bool` implements it. [`RetryByStatus`] is the default.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tower::RetryResponse;
///
/// let is_empty = |rows: &Vec<u32>| rows.is_empty();
/// assert_eq!(is_empty.retry_after(&vec![]), Some(Duration::ZERO));
/// assert_eq!(is_empty.retry_after(&vec![7]), None);
/// ```
pub trait RetryResponse<R> {
    /// Returns `None` if the response is final. Otherwise returns the shortest pause before the
    /// retry.
    fn retry_after(&self, response: &R) -> Option<Duration>;
}

impl<R, F: Fn(&R) -> bool> RetryResponse<R> for F {
    fn retry_after(&self, response: &R) -> Option<Duration> {
        self(response).then_some(Duration::ZERO)
    }
}

/// Retries after HTTP responses that count as a failure, see [`ByStatus`], and after the status 429.
/// The header `retry-after` is respected if it is a number of seconds.
///
/// ```
/// use std::time::Duration;
/// use http::Response;
/// use tidegate_tower::{RetryByStatus, RetryResponse};
///
/// let busy = Response::builder().status(503).header("retry-after", "2").body(())?;
/// assert_eq!(RetryByStatus.retry_after(&busy), Some(Duration::from_secs(2)));
/// assert_eq!(RetryByStatus.retry_after(&Response::new(())), None);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryByStatus;

impl<B> RetryResponse<Response<B>> for RetryByStatus {
    fn retry_after(&self, response: &Response<B>) -> Option<Duration> {
        let verdict = ByStatus.classify(Ok::<_, &()>(response));
        let is_busy = response.status() == StatusCode::TOO_MANY_REQUESTS;
        (is_busy || verdict == Verdict::Failure).then(|| stated_pause(response.headers()))
    }
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
pub struct RetryLayer<E, K = CopyIdempotent, J = RetryByStatus> {
    command: Command<(), E>,
    retry: Retry<E>,
    copy: Arc<K>,
    judge: Arc<J>,
}

impl<E: Send + 'static> RetryLayer<E> {
    pub(crate) fn new(command: &UntypedCommand, retry: Retry<E>) -> Self {
        Self {
            command: command.typed(),
            retry,
            copy: Arc::new(CopyIdempotent),
            judge: Arc::new(RetryByStatus),
        }
    }
}

impl<E, K, J> RetryLayer<E, K, J> {
    /// Copies requests with `copy`, in place of [`CopyIdempotent`]. A request for which it returns
    /// `None` is not retried.
    pub fn copy_with<Req, F>(self, copy: F) -> RetryLayer<E, F, J>
    where
        F: Fn(&Req) -> Option<Req>,
    {
        RetryLayer {
            command: self.command,
            retry: self.retry,
            copy: Arc::new(copy),
            judge: self.judge,
        }
    }

    /// Retries after responses for which `is_worth_it` returns `true`, in place of
    /// [`RetryByStatus`].
    pub fn retry_if<R, F>(self, is_worth_it: F) -> RetryLayer<E, K, F>
    where
        F: Fn(&R) -> bool,
    {
        RetryLayer {
            command: self.command,
            retry: self.retry,
            copy: self.copy,
            judge: Arc::new(is_worth_it),
        }
    }
}

impl<S, E, K, J> Layer<S> for RetryLayer<E, K, J> {
    type Service = RetryService<S, E, K, J>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryService {
            inner,
            layer: self.clone(),
        }
    }
}

impl<E, K, J> Clone for RetryLayer<E, K, J> {
    fn clone(&self) -> Self {
        Self {
            command: self.command.clone(),
            retry: self.retry.clone(),
            copy: Arc::clone(&self.copy),
            judge: Arc::clone(&self.judge),
        }
    }
}

impl<E, K, J> fmt::Debug for RetryLayer<E, K, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("command", &self.command)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
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
pub struct RetryService<S, E, K = CopyIdempotent, J = RetryByStatus> {
    inner: S,
    layer: RetryLayer<E, K, J>,
}

impl<S, E, K, J, Req> Service<Req> for RetryService<S, E, K, J>
where
    S: Service<Req, Error = CommandError<E>> + Clone,
    E: Send + 'static,
    K: CopyRequest<Req>,
    J: RetryResponse<S::Response>,
{
    type Response = S::Response;
    type Error = CommandError<E>;
    type Future = RetryFuture<S, Req, E, K, J>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Req) -> Self::Future {
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

impl<E: Send + 'static, K, J> RetryLayer<E, K, J> {
    /// Copies a request. The closure is user code: if it panics, there is no retry.
    fn copy_of<Req>(&self, request: &Req) -> Option<Req>
    where
        K: CopyRequest<Req>,
    {
        self.heard(|| self.copy.copy(request)).flatten()
    }

    fn heard<R>(&self, ask: impl FnOnce() -> R) -> Option<R> {
        let answer = contain(ask);
        answer
            .inspect_err(|panic| UntypedCommand::of(&self.command).panicked(panic.message()))
            .ok()
    }
}

impl<S: Clone, E, K, J> Clone for RetryService<S, E, K, J> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

impl<S: fmt::Debug, E, K, J> fmt::Debug for RetryService<S, E, K, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryService")
            .field("inner", &self.inner)
            .field("layer", &self.layer)
            .finish()
    }
}

pin_project! {
    /// The future of a [`RetryService`]. Dropping it drops the current attempt or pause. A retry is
    /// taken from the budget before its pause, and does not return to it.
    pub struct RetryFuture<S, Req, E, K = CopyIdempotent, J = RetryByStatus>
    where
        S: Service<Req>,
    {
        #[pin]
        attempt: Attempt<S::Future, E>,
        service: S,
        // The request of the next attempt, if it can be made.
        spare: Option<Req>,
        retries: Retries<(), E>,
        layer: RetryLayer<E, K, J>,
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

impl<S, Req, E, K, J> Future for RetryFuture<S, Req, E, K, J>
where
    S: Service<Req, Error = CommandError<E>>,
    E: Send + 'static,
    K: CopyRequest<Req>,
    J: RetryResponse<S::Response>,
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
                    let Some(pause) = this.layer.after(this.retries, &outcome) else {
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

impl<E: Send + 'static, K, J> RetryLayer<E, K, J> {
    /// Decides whether there is a retry after this outcome. Returns the pause before it.
    fn after<R>(
        &self,
        retries: &mut Retries<(), E>,
        outcome: &Result<R, CommandError<E>>,
    ) -> Option<RetryPause<(), E>>
    where
        J: RetryResponse<R>,
    {
        match outcome {
            Err(error) => retries.after_error(error),
            Ok(response) => {
                let hint = self.heard(|| self.judge.retry_after(response)).flatten()?;
                retries.after_failure(Some(hint))
            }
        }
    }
}

impl<S: Service<Req>, Req, E, K, J> fmt::Debug for RetryFuture<S, Req, E, K, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture").finish_non_exhaustive()
    }
}
