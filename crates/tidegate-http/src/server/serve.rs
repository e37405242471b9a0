//! Starts a server: from one line, or from a builder with limits.

use std::any::TypeId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Collect, ManualClock, MetricVisitor};
use tidegate_loop::Roaming;
use tidegate_loop::signal::Received;
use tidegate_net::ChannelPlacement;
#[cfg(feature = "tls")]
use tidegate_net::tls::TlsServer;
use tidegate_net::{
    Address, ChannelOptions, DrainReport, EmbeddedChannel, Handler, Listener, NetGroup,
    PipelineBuilder, Server, ServerBuilder,
};
use tidegate_promise::{Completion, SharedCompletion};

use super::connection::Connection;
use super::date::WallClock;
use super::handler::HttpHandler;
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
            front: Vec::new(),
            limits: Limits::default(),
            non_blocking: TypeId::of::<P>() != TypeId::of::<Roaming>(),
        }
    }

    /// Creates a connection without a socket, for tests of a service: on a loop that the test drives
    /// and a clock that it sets. `limits` apply to it as to a connection of a server.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_http::{HttpServer, Limits};
    ///
    /// let mut client = HttpServer::embedded(Limits::default(), |request, response| {
    ///     response.body(format!("hello from {}", request.path()));
    /// });
    /// client.receive("GET /here HTTP/1.1\r\nHost: a\r\n\r\n");
    /// assert!(client.sent().ends_with(b"hello from /here"));
    /// client.advance(Duration::from_secs(80));
    /// assert!(!client.is_open());
    /// ```
    pub fn embedded(
        limits: Limits,
        respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    ) -> EmbeddedChannel {
        let clock = ManualClock::new();
        let wall = WallClock::new(&(&clock).into());
        let counters = Counters::new(["embedded"].into_iter(), true);
        let shared = ServerShared::new(limits, wall, counters);
        let connection = Connection::new(Shared(Arc::new(respond)), shared);
        let handler = HttpHandler::<_, false>(connection);
        EmbeddedChannel::with_clock(clock, channel_options(), |pipeline| {
            pipeline.add_duplex("http", handler)
        })
        .expect("one handler fits")
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
        let address = self.server.place().to_owned();
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

/// Adds handlers in front of the server's own one. Runs on the connection's event loop.
type Front<P> = Box<dyn Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync>;

/// The builder of an [`HttpServer`].
#[must_use = "a server exists when its builder serves"]
pub struct HttpServerBuilder<P: ChannelPlacement> {
    group: NetGroup<P>,
    net: ServerBuilder<P>,
    front: Vec<Front<P>>,
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

    /// Adds handlers between the socket and HTTP, behind those that were added before: the first one
    /// takes the bytes of the socket, and the last one passes on the bytes of requests. `add` is called
    /// on the event loop of each connection, and once when the server is bound. No name may be `http`.
    ///
    /// A connection that fails there is closed. It is counted as a
    /// [failed handshake](HttpMetrics::failed_handshakes) if the client is the cause.
    ///
    /// ```
    /// use tidegate_http::HttpServer;
    /// use tidegate_net::Handler;
    /// use tidegate_net::handlers::{ProxiedPeer, ProxyProtocol};
    ///
    /// // Behind a balancer that sends the PROXY protocol.
    /// let group = tidegate_net::pinned("web", 1)?;
    /// let server = HttpServer::builder(&group)
    ///     .front(|pipeline| {
    ///         pipeline.add_handler("proxy", Handler::inbound(ProxyProtocol::new()))
    ///     })
    ///     .serve("127.0.0.1:0", |request, response| {
    ///         let peer = request.channel().attribute::<ProxiedPeer>();
    ///         let addresses = peer.and_then(|peer| peer.addresses);
    ///         response.body(format!("{:?}", addresses.map(|(client, _)| client)));
    ///     })
    ///     .wait()?;
    /// # server.drain(std::time::Duration::from_secs(1)).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn front(
        mut self,
        add: impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync + 'static,
    ) -> Self {
        self.front.push(Box::new(add));
        self
    }

    /// Serves `https`: encrypts the connections, behind the handlers that were
    /// [added before](HttpServerBuilder::front). A service finds the server name that the client
    /// requested in the attribute [`TlsHandshake`](tidegate_net::tls::TlsHandshake) of its
    /// [channel](Request::channel).
    ///
    /// Sets the application protocol of `tls`, and of its clones, to `http/1.1`: a client that names
    /// only other protocols is refused. The certificates can be [replaced](TlsServer::reload) while
    /// the server runs.
    ///
    /// ```no_run
    /// use tidegate_http::HttpServer;
    /// use tidegate_net::tls::TlsServer;
    ///
    /// let (chain, key) = (std::fs::read("chain.pem")?, std::fs::read("key.pem")?);
    /// let group = tidegate_net::pinned("web", 1)?;
    /// let server = HttpServer::builder(&group)
    ///     .tls(TlsServer::from_pem(&chain, &key)?)
    ///     .serve("0.0.0.0:443", |_, response| response.body("hello\n"))
    ///     .wait()?;
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(self, tls: TlsServer) -> Self {
        let tls = tls.alpn(["http/1.1"]);
        self.front(move |pipeline| pipeline.add_handler("tls", Handler::duplex(tls.handler())))
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
        let address = address.into();
        self.listen(move |net| net.bind(address), service)
    }

    /// Serves the connections of a listener that exists already: a Unix socket, or one that a service
    /// manager has opened. `service` makes the service of each connection.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// # {
    /// use std::os::unix::net::UnixListener;
    /// use tidegate_http::{HttpServer, Request, Response, Service};
    ///
    /// struct Hello;
    /// impl Service for Hello {
    ///     fn call(&mut self, _: Request<'_>, response: Response<'_>) {
    ///         response.body("hello\n");
    ///     }
    /// }
    ///
    /// let path = std::env::temp_dir().join(format!("tidegate-{}.sock", std::process::id()));
    /// let group = tidegate_net::pinned("web", 1)?;
    /// let listener = UnixListener::bind(&path)?;
    /// let server = HttpServer::builder(&group).serve_on(listener, || Hello).wait()?;
    /// # server.drain(std::time::Duration::from_secs(1)).wait()?;
    /// # std::fs::remove_file(path)?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn serve_on<S: Service>(
        self,
        listener: impl Into<Listener>,
        service: impl Fn() -> S + Send + Sync + 'static,
    ) -> Completion<HttpServer> {
        let listener = listener.into();
        self.listen(move |net| net.serve(listener), service)
    }

    fn listen<S: Service>(
        self,
        listen: impl FnOnce(ServerBuilder<P>) -> Completion<Server>,
        service: impl Fn() -> S + Send + Sync + 'static,
    ) -> Completion<HttpServer> {
        match self.non_blocking {
            true => self.start::<S, false>(listen, service),
            false => self.start::<S, true>(listen, service),
        }
    }

    fn start<S: Service, const MAY_BLOCK: bool>(
        self,
        listen: impl FnOnce(ServerBuilder<P>) -> Completion<Server>,
        service: impl Fn() -> S + Send + Sync + 'static,
    ) -> Completion<HttpServer> {
        let loops = self.group.loops();
        let wall = WallClock::new(loops.next().clock());
        let names = loops.iter().map(|one| one.name());
        let counters = Counters::new(names, TypeId::of::<P>() != TypeId::of::<Roaming>());
        let shared = ServerShared::new(self.limits, wall, counters);
        let (of_connections, front) = (Arc::clone(&shared), self.front);
        let net = self.net.pipeline(move |pipeline| {
            let pipeline = front.iter().fold(pipeline, |pipeline, add| add(pipeline));
            let connection = Connection::new(service(), Arc::clone(&of_connections));
            let handler = HttpHandler::<S, MAY_BLOCK>(connection);
            pipeline.add_handler("http", Handler::duplex(handler))
        });
        listen(net).map(move |server| HttpServer {
            server: server.clone(),
            shared,
        })
    }
}

tidegate_core::debug_fields!([P: ChannelPlacement] HttpServerBuilder<P>, this => limits: this.limits);
