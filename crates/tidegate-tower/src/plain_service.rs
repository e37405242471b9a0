//! The layer for services that do not speak HTTP: the call ends with its response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tidegate_isolate::internal::{CallTerms, UntypedCommand};
use tidegate_isolate::{Cause, CommandError, Verdict};
use tower_layer::Layer;
use tower_service::Service;

use crate::classify::{ByResult, Classify};
use crate::running::Running;

/// A layer that puts any service behind a command.
/// [`CommandExt::plain_layer`](crate::CommandExt::plain_layer) creates it.
///
/// ```
/// use tidegate_isolate::{Command, Event, Isolation};
/// use tidegate_tower::CommandExt;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tidegate_testkit::block_on("the doc test", async {
/// let isolation = Isolation::builder().build()?;
/// let rows: Command = Command::builder("rows").group("database").build(&isolation)?;
/// let layer = rows.plain_layer().classify(|outcome: Result<&u32, _>| outcome.is_ok_and(|n| *n > 0));
/// let count = layer.layer(service_fn(async |_: &str| Ok::<_, std::io::Error>(0)));
/// assert_eq!(count.oneshot("select count(*)").await?, 0);
/// assert_eq!(rows.snapshot().totals[Event::Failure], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct PlainLayer<C = ByResult> {
    command: UntypedCommand,
    classify: Arc<C>,
}

impl PlainLayer {
    pub(crate) fn new(command: UntypedCommand) -> Self {
        command.check_set_up();
        Self {
            command,
            classify: Arc::new(ByResult),
        }
    }
}

impl<C> PlainLayer<C> {
    /// Judges results with `classify`, in place of [`ByResult`]. See
    /// [`CommandLayer::classify`](crate::CommandLayer::classify).
    pub fn classify<R, E, V, F>(self, classify: F) -> PlainLayer<F>
    where
        F: Fn(Result<&R, &E>) -> V,
        V: Into<Verdict>,
    {
        PlainLayer {
            command: self.command,
            classify: Arc::new(classify),
        }
    }
}

impl<S, C> Layer<S> for PlainLayer<C> {
    type Service = PlainService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        PlainService {
            inner,
            layer: self.clone(),
        }
    }
}

impl<C> Clone for PlainLayer<C> {
    fn clone(&self) -> Self {
        Self {
            command: self.command.clone(),
            classify: Arc::clone(&self.classify),
        }
    }
}

impl<C> fmt::Debug for PlainLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainLayer")
            .field("command", self.command.key())
            .finish_non_exhaustive()
    }
}

/// A service behind a command. [`PlainLayer`] creates it. Clones share the command.
///
/// ```
/// use tidegate_tower::PlainService;
///
/// struct Clients<S> {
///     rows: PlainService<S>,
/// }
/// # fn _of<S: Clone>(clients: &Clients<S>) -> PlainService<S> { clients.rows.clone() }
/// ```
pub struct PlainService<S, C = ByResult> {
    inner: S,
    layer: PlainLayer<C>,
}

impl<S, C, Req> Service<Req> for PlainService<S, C>
where
    S: Service<Req>,
    S::Error: Send + 'static,
    C: Classify<S::Response, S::Error>,
{
    type Response = S::Response;
    type Error = CommandError<S::Error>;
    type Future = PlainFuture<S::Future, S::Error, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let ready = ready!(self.inner.poll_ready(context));
        let failed = |error| CommandError::new(self.layer.command.key(), Cause::Failed(error));
        Poll::Ready(ready.map_err(failed))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let (command, classify) = (&self.layer.command, &self.layer.classify);
        let terms = CallTerms::default();
        PlainFuture {
            running: Running::start(command, classify, terms, &mut self.inner, request),
        }
    }
}

impl<S: Clone, C> Clone for PlainService<S, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for PlainService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainService")
            .field("inner", &self.inner)
            .field("layer", &self.layer)
            .finish()
    }
}

pin_project! {
    /// The future of a [`PlainService`].
    pub struct PlainFuture<F, E, C = ByResult> {
        #[pin]
        running: Running<F, C, E>,
    }
}

impl<F, E, C, R> Future for PlainFuture<F, E, C>
where
    F: Future<Output = Result<R, E>>,
    E: Send + 'static,
    C: Classify<R, E>,
{
    type Output = Result<R, CommandError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (response, call) = ready!(self.project().running.poll_head(context))?;
        Poll::Ready(call.end().map(|()| response))
    }
}

impl<F, E, C> fmt::Debug for PlainFuture<F, E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainFuture").finish_non_exhaustive()
    }
}
