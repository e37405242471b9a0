//! The layer for services that do not speak HTTP: the call ends with its response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_isolate::CommandError;
use tidegate_isolate::internal::CallTerms;
use tower_service::Service;

use crate::classify::{ByResult, Classify};
use crate::http_service::{CommandFuture, CommandLayer, CommandService};

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
pub type PlainLayer<C = ByResult> = CommandLayer<C, Plain>;

/// The mode of a [`PlainLayer`]: a call ends with its response.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

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
pub type PlainService<S, C = ByResult> = CommandService<S, C, Plain>;

impl<S, C, Req> Service<Req> for CommandService<S, C, Plain>
where
    S: Service<Req>,
    S::Error: Send + 'static,
    C: Classify<S::Response, S::Error>,
{
    type Response = S::Response;
    type Error = CommandError<S::Error>;
    type Future = CommandFuture<S::Future, S::Error, C, Plain>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.poll_inner(context)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.start(CallTerms::default(), request)
    }
}

impl<F, E, C, R> Future for CommandFuture<F, E, C, Plain>
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
