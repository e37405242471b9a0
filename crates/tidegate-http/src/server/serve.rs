//! Starts a server: from one line, or from a builder with limits.

use std::any::TypeId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Collect, MetricVisitor};
use tidegate_loop::Roaming;
use tidegate_loop::signal::Received;
use tidegate_net::internal::ChannelPlacement;
use tidegate_net::{
    Address, ChannelOptions, DrainReport, Handler, NetGroup, Server, ServerBuilder,
};
use tidegate_promise::{Completion, SharedCompletion};

use super::connection::Connection;
use super::date::WallClock;
use super::handler::{HttpHandler, MayBlock, Mode, NeverBlocks};
use super::limits::Limits;
use super::metrics::{Counters, HttpMetrics};
use super::request::Request;
use super::response::Response;
use super::service::{Service, Shared};
use super::shared::ServerShared;

/// Serves HTTP/1.1 on `address`: `respond` is called for each request.
///
/// On a pinned group `respond` must not block; on a roaming group it may.
///
/// ```
/// use tidegate_http::serve;
///
/// let group = tidegate_net::pinned("web", 1)?;
/// let server = serve(&group, "127.0.0.1:0", |request, response| match request.path() {
///     "/" => response.body("hello\n"),
///     _ => response.status(404).body("not here\n"),
/// })
/// .wait()?;
/// println!("http://{}/", server.local_addr());
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve<P, F>(
    group: &NetGroup<P>,
    address: impl Into<Address>,
    respond: F,
) -> Completion<HttpServer>
where
    P: ChannelPlacement,
    F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
{
    HttpServer::builder(group).serve(address, respond)
}

/// A running HTTP server. Dropping the handle leaves the server running until its group ends.
///
/// ```
/// use std::time::Duration;
/// use tidegate_http::{HttpServer, Limits};
///
/// let group = tidegate_net::pinned("web", 1)?;
/// let server = HttpServer::builder(&group)
///     .limits(Limits::default().max_body(1 << 20))
///     .configure(|server| server.max_connections(10_000))
///     .serve("127.0.0.1:0", |_, response| response.body("hello\n"))
///     .wait()?;
/// println!("{}", server.metrics());
/// println!("{}", server.drain(Duration::from_secs(10)).wait()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpServer {
    server: Server,
    shared: Arc<ServerShared>,
}

impl HttpServer {
    /// Begins the description of a server whose connections live on the loops of `group`.
    pub fn builder<P: ChannelPlacement>(group: &NetGroup<P>) -> HttpServerBuilder<P> {
        HttpServerBuilder {
            group: group.clone(),
            net: Server::builder(group).options(channel_options()),
            limits: Limits::default(),
            non_blocking: TypeId::of::<P>() != TypeId::of::<Roaming>(),
        }
    }

    /// Returns the address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Returns the server below, which accepts connections.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the current values of the counters.
    pub fn metrics(&self) -> HttpMetrics {
        self.shared.counters.snapshot()
    }

    /// Stops accepting, ends idle connections at once, and the others with the last of their
    /// outstanding responses. After
    /// `deadline` the remaining ones are cut; the report lists them.
    pub fn drain(&self, deadline: Duration) -> Completion<DrainReport> {
        self.shared.begin_drain();
        self.server.drain(deadline)
    }

    /// Announces a drain, and drains after `notice`. Until then the server accepts connections, and
    /// each one ends with its outstanding responses, or with its next one: a balancer takes seconds to notice that a server ends.
    pub fn drain_after(&self, notice: Duration, deadline: Duration) -> Completion<DrainReport> {
        self.shared.begin_drain();
        self.server.drain_after(notice, deadline)
    }

    /// Drains the server when `signal` arrives, with the deadline [`Server::DRAIN_DEADLINE`]. If the
    /// signal arrives a second time, all connections are closed at once.
    pub fn drain_on(&self, signal: Completion<Received>) -> Completion<DrainReport> {
        self.server.drain_on(signal)
    }

    /// Returns a completion that ends when the server no longer listens.
    pub fn closed(&self) -> SharedCompletion<()> {
        self.server.closed()
    }
}

/// The metrics of each event loop. The labels are `server`, its listening address, and `loop`.
///
/// What the [server below](HttpServer::server) counts is described by itself.
impl Collect for HttpServer {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let address = self.local_addr().to_string();
        self.shared.counters.collect(&address, visitor);
    }
}

/// Returns the options of a connection, unless the user sets them.
pub(crate) fn channel_options() -> ChannelOptions {
    ChannelOptions {
        // The server closes connections that take nothing. Those that take something may take long.
        close_timeout: Duration::ZERO,
        ..ChannelOptions::default()
    }
}

/// The builder of an [`HttpServer`].
#[must_use = "a server exists when its builder serves"]
pub struct HttpServerBuilder<P: ChannelPlacement> {
    group: NetGroup<P>,
    net: ServerBuilder<P>,
    limits: Limits,
    non_blocking: bool,
}

impl<P: ChannelPlacement> HttpServerBuilder<P> {
    /// Sets the limits for clients.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// States that the service never blocks, so that a roaming group need not hand its loop over.
    /// On a pinned group this is always assumed.
    pub fn non_blocking(mut self) -> Self {
        self.non_blocking = true;
        self
    }

    /// Changes the settings of the server below: its backlog, its listeners, its channel options.
    ///
    /// Options should have a [`close_timeout`](ChannelOptions::close_timeout) of zero, which is the
    /// default here: otherwise the last response of a connection is cut off after that time.
    pub fn configure(mut self, change: impl FnOnce(ServerBuilder<P>) -> ServerBuilder<P>) -> Self {
        self.net = change(self.net);
        self
    }

    /// Listens on `address` and calls `respond` for each request.
    pub fn serve<F>(self, address: impl Into<Address>, respond: F) -> Completion<HttpServer>
    where
        F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    {
        let respond = Arc::new(respond);
        self.serve_with(address, move || Shared(Arc::clone(&respond)))
    }

    /// Listens on `address`. `service` makes the service of each connection.
    pub fn serve_with<S: Service>(
        self,
        address: impl Into<Address>,
        service: impl Fn() -> S + Send + Sync + 'static,
    ) -> Completion<HttpServer> {
        match self.non_blocking {
            true => self.start::<S, NeverBlocks>(address.into(), service),
            false => self.start::<S, MayBlock>(address.into(), service),
        }
    }

    fn start<S: Service, M: Mode>(
        self,
        address: Address,
        service: impl Fn() -> S + Send + Sync + 'static,
    ) -> Completion<HttpServer> {
        let loops = self.group.loops();
        let wall = WallClock::new(loops.next().clock());
        let names = loops.iter().map(|one| one.name());
        let counters = Counters::new(names, TypeId::of::<P>() != TypeId::of::<Roaming>());
        let shared = ServerShared::new(self.limits, wall, counters);
        let of_connections = Arc::clone(&shared);
        let net = self.net.pipeline(move |pipeline| {
            let connection = Connection::new(service(), Arc::clone(&of_connections));
            let handler = HttpHandler::<S, M>::new(connection);
            pipeline.add_handler("http", Handler::duplex(handler))
        });
        net.bind(address).map(move |server| HttpServer {
            server: server.clone(),
            shared,
        })
    }
}

impl<P: ChannelPlacement> std::fmt::Debug for HttpServerBuilder<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpServerBuilder")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
