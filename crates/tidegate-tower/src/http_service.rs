//! The layer for HTTP: a service whose calls are judged by the head of the response and hold their
//! permit until its body ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate_core::internal::contain;
use tidegate_isolate::internal::{CallTerms, UntypedCommand};
use tidegate_isolate::{Cause, CommandError, Criticality, RequestContext, Verdict};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::CommandBody;
use crate::classify::{ByStatus, Classify};
use crate::grpc;
use crate::held::HeldCall;
use crate::respond::{DefaultResponse, RespondLayer};
use crate::running::Running;

/// A layer that puts an HTTP service behind a command.
/// [`CommandExt::layer`](crate::CommandExt::layer) creates it.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::Empty;
/// use tidegate_isolate::{Command, Isolation};
/// use tidegate_tower::CommandExt;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tidegate_testkit::block_on("the doc test", async {
/// let isolation = Isolation::builder().build()?;
/// let prices: Command = Command::builder("prices").group("catalog").build(&isolation)?;
/// let layer = prices
///     .layer()
///     .until_head() // the permit is not held while the body is read
///     .classify(|outcome: Result<&Response<_>, _>| outcome.is_ok_and(|r| r.status() != 404));
///
/// let upstream = service_fn(async |_: Request<()>| {
///     Ok::<_, std::io::Error>(Response::builder().status(404).body(Empty::<&[u8]>::new()).unwrap())
/// });
/// let response = layer.layer(upstream).oneshot(Request::new(())).await?;
/// assert_eq!(response.status(), 404);
/// assert_eq!(prices.snapshot().totals[tidegate_isolate::Event::Failure], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct CommandLayer<C = ByStatus, M = Until> {
    pub(crate) command: UntypedCommand,
    pub(crate) classify: Arc<C>,
    mode: M,
}

/// When a call of an HTTP service is judged, and how long it holds its permit.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Both end with the head.
    Head,
    /// The verdict is given with the head, or with the trailers if only they contain it. The permit is
    /// held until the end of the body.
    Body,
    /// Both end with the body.
    End,
}

impl<C, M> CommandLayer<C, M> {
    pub(crate) fn new(command: UntypedCommand, classify: C, mode: M) -> Self {
        command.check_set_up();
        Self {
            command,
            classify: Arc::new(classify),
            mode,
        }
    }

    /// Judges results with `classify`, in place of [`ByStatus`] or [`ByResult`](crate::ByResult). The
    /// closure gets the head of the response or the error of the service. It returns a [`Verdict`], or `true` for a success.
    ///
    /// An error with the verdict [`Verdict::Ignored`] reaches the caller as
    /// [`Cause::BadRequest`]. If `classify` panics, the call counts as a failure.
    pub fn classify<R, E, V, F>(self, classify: F) -> CommandLayer<F, M>
    where
        F: Fn(Result<&R, &E>) -> V,
        V: Into<Verdict>,
    {
        CommandLayer {
            command: self.command,
            classify: Arc::new(classify),
            mode: self.mode,
        }
    }
}

impl<C> CommandLayer<C> {
    /// Ends the call when the head of the response is there. The permit, the timeout and the verdict
    /// then do not depend on the body. For long streams.
    pub fn until_head(mut self) -> Self {
        self.mode = Until::Head;
        self
    }

    /// Judges the call when the body of the response has ended. The timeout and the latency then
    /// include the body, and a body that fails is a failure of the call. For clients that read each
    /// body at once: a reader that takes its time would count as a slow dependency.
    ///
    /// Without it, the call is judged when the head of the response is there. A gRPC response whose
    /// head has no status is judged when its trailers arrive.
    pub fn until_end(mut self) -> Self {
        self.mode = Until::End;
        self
    }

    /// Makes responses of calls that ended without one, so that the error of the service is the error
    /// of the inner service. For servers: axum and tonic take only layers that do not add errors.
    ///
    /// | cause | HTTP status | gRPC status, if the request is one of gRPC |
    /// |---|---|---|
    /// | the call was rejected, or the breaker is open | 503 | `UNAVAILABLE` |
    /// | the rate limit is reached | 429 | `RESOURCE_EXHAUSTED` |
    /// | the call timed out | 504 | `DEADLINE_EXCEEDED` |
    /// | the service panicked, or the command has threads of its own | 500 | `INTERNAL` |
    ///
    /// If it is known when to try again, the response says so in `retry-after` or
    /// `grpc-retry-pushback-ms`. The body is empty. [`CommandError::http_status`] and
    /// [`CommandError::grpc_code`] return the same statuses, for a service that makes its own responses.
    pub fn respond(self) -> RespondLayer<C> {
        RespondLayer::new(self, DefaultResponse)
    }

    /// Makes responses with `respond`. See [`CommandLayer::respond`]. The closure is not called for
    /// an error of the inner service.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use http_body_util::Full;
    /// use tidegate_isolate::{Command, CommandError, Isolation};
    /// use tidegate_tower::CommandExt;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # tidegate_testkit::block_on("the doc test", async {
    /// let isolation = Isolation::builder().build()?;
    /// let prices: Command =
    ///     Command::builder("prices").group("catalog").permits(1).build(&isolation)?;
    /// let layer = prices.layer().respond_with(|error: &CommandError<_>| {
    ///     let body = Full::new(bytes::Bytes::from(error.cause().event().name()));
    ///     Response::builder().status(503).body(body).unwrap()
    /// });
    /// let page = service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::default()));
    /// let busy = prices.admit()?; // takes the only permit
    /// let response = layer.layer(page).oneshot(Request::new(())).await?;
    /// assert_eq!(response.status(), 503);
    /// # drop(busy);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn respond_with<B, E, F>(self, respond: F) -> RespondLayer<C, F>
    where
        F: Fn(&CommandError<E>) -> Response<B>,
    {
        RespondLayer::new(self, respond)
    }
}

impl<S, C, M: Clone> Layer<S> for CommandLayer<C, M> {
    type Service = CommandService<S, C, M>;

    fn layer(&self, inner: S) -> Self::Service {
        CommandService {
            inner,
            layer: self.clone(),
        }
    }
}

impl<C, M: Clone> Clone for CommandLayer<C, M> {
    fn clone(&self) -> Self {
        Self {
            command: self.command.clone(),
            classify: Arc::clone(&self.classify),
            mode: self.mode.clone(),
        }
    }
}

tidegate_core::debug_fields!([C, M] CommandLayer<C, M>, this => command: this.command.key());

/// An HTTP service behind a command. [`CommandLayer`] creates it. Clones share the command.
///
/// ```
/// use tidegate_tower::CommandService;
///
/// struct Clients<S> {
///     prices: CommandService<S>,
/// }
/// # fn _of<S: Clone>(clients: &Clients<S>) -> CommandService<S> { clients.prices.clone() }
/// ```
pub struct CommandService<S, C = ByStatus, M = Until> {
    pub(crate) inner: S,
    pub(crate) layer: CommandLayer<C, M>,
}

impl<S, C, M: Clone> CommandService<S, C, M> {
    pub(crate) fn poll_inner<Req>(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CommandError<S::Error>>>
    where
        S: Service<Req>,
    {
        let ready = ready!(self.inner.poll_ready(context));
        let failed = |error| CommandError::new(self.layer.command.key(), Cause::Failed(error));
        Poll::Ready(ready.map_err(failed))
    }

    pub(crate) fn start<Req>(
        &mut self,
        terms: CallTerms,
        request: Req,
    ) -> CommandFuture<S::Future, S::Error, C, M>
    where
        S: Service<Req>,
        S::Error: Send + 'static,
    {
        let CommandLayer {
            command,
            classify,
            mode,
        } = &self.layer;
        CommandFuture {
            running: Running::start(command, classify, terms, &mut self.inner, request),
            mode: mode.clone(),
        }
    }
}

impl<S, C, D, B> Service<Request<D>> for CommandService<S, C>
where
    S: Service<Request<D>, Response = Response<B>>,
    S::Error: Send + 'static,
    C: Classify<Response<B>, S::Error>,
    B: Body,
{
    type Response = Response<CommandBody<B>>;
    type Error = CommandError<S::Error>;
    type Future = CommandFuture<S::Future, S::Error, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.poll_inner(context)
    }

    fn call(&mut self, request: Request<D>) -> Self::Future {
        self.start(terms(&request), request)
    }
}

/// Returns what a request says about its call.
fn terms<D>(request: &Request<D>) -> CallTerms {
    let extensions = request.extensions();
    let criticality = extensions.get::<Criticality>().copied();
    CallTerms {
        at_most: grpc::timeout(request.headers()),
        criticality: criticality.unwrap_or_default(),
        context: extensions.get::<RequestContext>().cloned(),
    }
}

impl<S: Clone, C, M: Clone> Clone for CommandService<S, C, M> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

tidegate_core::debug_fields!([S, C, M] CommandService<S, C, M>, this => layer: this.layer);

pin_project! {
    /// The future of a [`CommandService`].
    pub struct CommandFuture<F, E, C = ByStatus, M = Until> {
        #[pin]
        pub(crate) running: Running<F, C, E>,
        mode: M,
    }
}

impl<F, E, C, B> Future for CommandFuture<F, E, C>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Send + 'static,
    C: Classify<Response<B>, E>,
    B: Body,
{
    type Output = Result<Response<CommandBody<B>>, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (response, call) = ready!(this.running.poll_head(context))?;
        Poll::Ready(with_body::<B, E, C>(response, call, *this.mode))
    }
}

/// Returns the response with a body that ends its call, unless the call ends here.
fn with_body<B, E, C>(
    response: Response<B>,
    mut call: HeldCall,
    until: Until,
) -> Result<Response<CommandBody<B>>, CommandError<E>>
where
    B: Body,
    C: Classify<Response<B>, E>,
{
    let is_end = || contain(|| response.body().is_end_stream()).unwrap_or(false);
    let ends_here = matches!(until, Until::Head) || is_end();
    let by_head = matches!(until, Until::Body) && !C::awaits_trailers(&response);
    if (ends_here || by_head)
        && let Err(late) = call.settle()
    {
        // Part of the work: it is dropped before the permit is given back.
        let _ = contain(|| drop(response));
        return Err(late);
    }
    Ok(match ends_here {
        true => response.map(|body| CommandBody::free(Some(body))),
        false => response.map(|body| CommandBody::held(body, call, C::classify_trailers)),
    })
}

tidegate_core::debug_fields!([F, E, C, M] CommandFuture<F, E, C, M>);
