//! Rejections as responses: for servers, whose services must not fail because of a limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate_core::internal::contain;
use tidegate_isolate::internal::UntypedCommand;
use tidegate_isolate::{Cause, CommandError, Rejection};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::CommandBody;
use crate::classify::{ByStatus, Classify};
use crate::grpc;
use crate::http_service::{CommandFuture, CommandLayer, CommandService};

/// Makes the response of a call that ended without one.
///
/// A closure that returns a response with a body of the inner service's type implements it.
/// [`DefaultResponse`] is the default.
///
/// ```
/// use http::Response;
/// use tidegate_isolate::{Cause, CommandError};
/// use tidegate_tower::Respond;
///
/// let text = |error: &CommandError<String>| Response::new(error.to_string());
/// let error = CommandError::new("prices", Cause::Cancelled);
/// assert!(text.respond(&error, false).into_body().unwrap().contains("prices was cancelled"));
/// ```
pub trait Respond<B, E> {
    /// Returns the response. `is_grpc` is `true` if the request is one of gRPC.
    fn respond(&self, error: &CommandError<E>, is_grpc: bool) -> Response<Option<B>>;
}

impl<B, E, F> Respond<B, E> for F
where
    F: Fn(&CommandError<E>) -> Response<B>,
{
    fn respond(&self, error: &CommandError<E>, _is_grpc: bool) -> Response<Option<B>> {
        self(error).map(Some)
    }
}

/// A status that says why there is no response; see [`CommandLayer::respond`]. The body is empty.
///
/// ```
/// use std::time::Duration;
/// use http::Response;
/// use tidegate_isolate::{Cause, CommandError};
/// use tidegate_tower::{DefaultResponse, Respond};
///
/// let open = Cause::ShortCircuited(Some(Duration::from_millis(1_500)));
/// let error = CommandError::<String>::new("prices", open);
/// let response: Response<Option<()>> = DefaultResponse.respond(&error, false);
/// assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &"2".parse()?));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultResponse;

impl<B, E> Respond<B, E> for DefaultResponse {
    fn respond(&self, error: &CommandError<E>, is_grpc: bool) -> Response<Option<B>> {
        let message = match error.cause() {
            Cause::TimedOut(_) => "timed out",
            Cause::Rejected(Rejection::Rate(_)) => "rate limit reached",
            Cause::Rejected(Rejection::InPlace) => "its command has threads, not permits",
            Cause::Failed(_) | Cause::BadRequest(_) | Cause::Panicked(_) => "failed",
            _ => "unavailable",
        };
        let mut response = Response::new(None);
        let after = error.retry_after();
        let headers = response.headers_mut();
        if is_grpc {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(grpc::CONTENT_TYPE));
            headers.insert(grpc::STATUS, HeaderValue::from(error.grpc_code()));
            headers.insert(grpc::MESSAGE, HeaderValue::from_static(message));
            if let Some(after) = after {
                headers.insert(grpc::PUSHBACK, HeaderValue::from(millis(after)));
            }
            return response;
        }
        if let Some(after) = after {
            headers.insert(
                RETRY_AFTER,
                HeaderValue::from(millis(after).div_ceil(1_000)),
            );
        }
        *response.status_mut() = StatusCode::from_u16(error.http_status()).expect("it is valid");
        response
    }
}

/// Returns a time in milliseconds, rounded up; what is below a microsecond is left out.
fn millis(time: Duration) -> u64 {
    // The time of a breaker is a nanosecond more than the rest of its sleep, which is no millisecond.
    let millis = time.as_micros().div_ceil(1_000).max(1);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

/// A layer that puts an HTTP service behind a command and makes responses of rejections.
/// [`CommandLayer::respond`] creates it.
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use tidegate_isolate::{Command, Isolation};
/// use tidegate_tower::CommandExt;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tidegate_testkit::block_on("the doc test", async {
/// let isolation = Isolation::builder().build()?;
/// let pages: Command = Command::builder("pages").group("site").permits(1).build(&isolation)?;
/// let page = service_fn(async |_: Request<()>| {
///     Ok::<_, Infallible>(Response::new(Empty::<&[u8]>::new()))
/// });
/// let busy = pages.admit()?; // takes the only permit
/// let response = pages.layer().respond().layer(page).oneshot(Request::new(())).await;
/// assert_eq!(response.unwrap().status(), 503);
/// # drop(busy);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct RespondLayer<C = ByStatus, R = DefaultResponse> {
    calls: CommandLayer<C>,
    respond: Arc<R>,
}

impl<C, R> RespondLayer<C, R> {
    pub(crate) fn new(calls: CommandLayer<C>, respond: R) -> Self {
        Self {
            calls,
            respond: Arc::new(respond),
        }
    }
}

impl<S, C, R> Layer<S> for RespondLayer<C, R> {
    type Service = RespondService<S, C, R>;

    fn layer(&self, inner: S) -> Self::Service {
        RespondService {
            inner: self.calls.layer(inner),
            respond: Arc::clone(&self.respond),
        }
    }
}

impl<C, R> Clone for RespondLayer<C, R> {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            respond: Arc::clone(&self.respond),
        }
    }
}

tidegate_core::debug_fields!([C, R] RespondLayer<C, R>, this => calls: this.calls);

/// An HTTP service behind a command that makes responses of rejections. [`RespondLayer`] creates
/// it.
///
/// ```
/// use tidegate_tower::RespondService;
///
/// struct Site<S> {
///     pages: RespondService<S>,
/// }
/// # fn _of<S: Clone>(site: &Site<S>) -> RespondService<S> { site.pages.clone() }
/// ```
pub struct RespondService<S, C = ByStatus, R = DefaultResponse> {
    inner: CommandService<S, C>,
    respond: Arc<R>,
}

impl<S, C, R, D, B> Service<Request<D>> for RespondService<S, C, R>
where
    S: Service<Request<D>, Response = Response<B>>,
    S::Error: Send + 'static,
    C: Classify<Response<B>, S::Error>,
    R: Respond<B, S::Error>,
    B: Body,
{
    type Response = Response<CommandBody<B>>;
    type Error = S::Error;
    type Future = RespondFuture<S::Future, S::Error, C, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<D>) -> Self::Future {
        let is_grpc = grpc::is_grpc(request.headers());
        RespondFuture {
            call: self.inner.call(request),
            command: self.inner.layer.command.clone(),
            respond: Arc::clone(&self.respond),
            is_grpc,
        }
    }
}

impl<S: Clone, C, R> Clone for RespondService<S, C, R> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            respond: Arc::clone(&self.respond),
        }
    }
}

tidegate_core::debug_fields!([S, C, R] RespondService<S, C, R>, this => inner: this.inner);

pin_project! {
    /// The future of a [`RespondService`].
    pub struct RespondFuture<F, E, C = ByStatus, R = DefaultResponse> {
        #[pin]
        call: CommandFuture<F, E, C>,
        command: UntypedCommand,
        respond: Arc<R>,
        is_grpc: bool,
    }
}

impl<F, E, C, R, B> Future for RespondFuture<F, E, C, R>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Send + 'static,
    C: Classify<Response<B>, E>,
    R: Respond<B, E>,
    B: Body,
{
    type Output = Result<Response<CommandBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let error = match ready!(this.call.poll(context)) {
            Ok(response) => return Poll::Ready(Ok(response)),
            Err(error) => error,
        };
        if error.failure().is_some() {
            // The error of the inner service.
            let (Cause::Failed(error) | Cause::BadRequest(error)) = error.into_cause() else {
                unreachable!("only these causes have a failure");
            };
            return Poll::Ready(Err(error));
        }
        let made = contain(|| this.respond.respond(&error, *this.is_grpc));
        // The closure is user code. If it panics, the caller gets the default.
        let response = made.unwrap_or_else(|panic| {
            this.command.panicked(panic.message());
            DefaultResponse.respond(&error, *this.is_grpc)
        });
        Poll::Ready(Ok(response.map(CommandBody::free)))
    }
}

tidegate_core::debug_fields!([F, E, C, R] RespondFuture<F, E, C, R>);
