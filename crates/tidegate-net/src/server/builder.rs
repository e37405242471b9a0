//! The handle of a server, and its builder.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::SignalBlock;
use tidegate_loop::Pinned;
use tidegate_promise::{Completion, Failure, Promise, SharedCompletion, promise};

use super::drain::{DrainReport, GRACE};
use super::listener::{
    Config, ConnectionLoops, GroupChildren, ListenerCore, ListenerShared, PAUSE,
};
use super::listening::{Listener, Listening};
use super::server_shared::ServerShared;
use crate::awaited::{Awaited, result};
use crate::channel::{ChannelOptions, ServerLimits};
use crate::errors::{NetError, tried};
use crate::group::{ChannelPlacement, NetGroup};
use crate::pipeline::{Head, Initialiser, PipelineBuilder, assemble};
use crate::resolve::{Address, RESOLVE_TIMEOUT, Resolver, system_resolver};
use crate::sys::listen_tcp;

/// The address that a server on a Unix socket reports.
const NO_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// A handle of a server. [`Server::builder`] returns the builder of one.
///
/// Once bound, a server accepts connections and keeps its event loops running until it is
/// [stopped](Server::stop_accepting) or [drained](Server::drain), or the loops are shut down. This
/// also holds when every handle of the server and of its group has been dropped.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::{Inbound, InboundContext, Nothing, Server};
///
/// struct Echo;
/// impl Inbound for Echo {
///     type In = Bytes;
///     type Out = Nothing;
///     type Write = Bytes;
///     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
///         ctx.write(bytes);
///     }
///     fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
///         ctx.flush();
///     }
/// }
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let server = Server::builder(&group)
///     .pipeline(|p| p.add("echo", Echo))
///     .bind("127.0.0.1:0")
///     .wait()?;
/// println!("listening on {}", server.local_addr());
/// server.stop_accepting().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server {
    pub(super) listeners: Arc<[Arc<SignalBlock<ListenerShared>>]>,
    pub(super) port: Arc<ServerShared>,
    pub(super) children: Arc<dyn ConnectionLoops>,
    address: SocketAddr,
}

impl Server {
    /// The default number of connections that the operating system holds until they are accepted.
    pub const DEFAULT_BACKLOG: i32 = 1024;
    /// The pause of accepting when there are no descriptors left.
    pub const ACCEPT_PAUSE: Duration = PAUSE;
    /// How long a [drain](Server::drain) waits after its deadline for handlers that have not
    /// returned.
    pub const DRAIN_GRACE: Duration = GRACE;

    /// Returns the builder of a server whose connections live on the event loops of `group`.
    pub fn builder<P: ChannelPlacement>(group: &NetGroup<P>) -> ServerBuilder<P> {
        ServerBuilder {
            children: group.clone(),
            initialise: None,
            options: ChannelOptions::default(),
            backlog: Self::DEFAULT_BACKLOG,
            reuse_port: false,
            listeners: 1,
            limits: ServerLimits::default(),
            resolver: system_resolver(),
            resolve_timeout: RESOLVE_TIMEOUT,
        }
    }

    /// Returns the listening address; the unspecified address for a server on a Unix socket, which has
    /// a [`place`](Self::place) only.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns where the server listens, to be printed: an address, or the path of a Unix socket.
    pub fn place(&self) -> &str {
        self.port.place()
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.port.origin().live()
    }

    /// Returns the number of connections accepted since the server was bound.
    pub fn accepted(&self) -> u64 {
        self.port.origin().accepted()
    }

    /// Stops accepting. Open connections stay open. Connections that came before this call are
    /// still accepted, up to the size of the backlog. Completes when the port is free.
    pub fn stop_accepting(&self) -> SharedCompletion<()> {
        let closed = self.closed();
        self.listeners.iter().for_each(ListenerShared::stop);
        closed
    }

    /// Returns a completion that succeeds when the server no longer accepts.
    pub fn closed(&self) -> SharedCompletion<()> {
        self.port.closed()
    }

    /// Accepts the connections that have come so far and no more. Notifies the handlers of each
    /// connection with a [`Draining`](crate::Draining) event, and closes the connections that are
    /// still open at `deadline`. The report names those. It does not wait for handlers that do not
    /// return: it is made [`Server::DRAIN_GRACE`] after the deadline without them. With
    /// `Duration::MAX` there is no deadline; a later call can set one.
    pub fn drain(&self, deadline: Duration) -> Completion<DrainReport> {
        drop(self.stop_accepting());
        self.children.drain(self.port.origin(), deadline)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("place", &self.place())
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

/// The builder of a [`Server`].
#[must_use = "a server exists when its description is bound"]
pub struct ServerBuilder<P: ChannelPlacement = Pinned> {
    children: NetGroup<P>,
    initialise: Option<Initialiser<P>>,
    options: ChannelOptions,
    backlog: i32,
    reuse_port: bool,
    listeners: usize,
    pub(super) limits: ServerLimits,
    resolver: Arc<Resolver>,
    resolve_timeout: Duration,
}

impl<P: ChannelPlacement> ServerBuilder<P> {
    /// Sets the handlers of each connection, first to last. `assemble` is called on the
    /// connection's event loop, and once when the server is bound, to check that the handlers fit
    /// each other. If it panics on the loop, or the handlers do not fit there, that connection is
    /// closed and `on_unhandled` receives the reason.
    pub fn pipeline(
        mut self,
        assemble: impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + Send + Sync + 'static,
    ) -> Self {
        self.initialise = Some(Arc::new(assemble));
        self
    }

    /// Sets the options of the connections.
    pub fn options(mut self, options: ChannelOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the number of connections that the operating system holds until they are accepted.
    pub fn backlog(mut self, connections: i32) -> Self {
        self.backlog = connections;
        self
    }

    /// Sets whether several servers may listen on one port, each with a share of the connections.
    pub fn reuse_port(mut self, yes: bool) -> Self {
        self.reuse_port = yes;
        self
    }

    /// Listens with `listeners` sockets on the same port, each on an event loop of its own (at most
    /// one per loop). The operating system distributes the connections, and each lives on the loop
    /// that accepted it.
    ///
    /// ```
    /// use tidegate_net::Server;
    ///
    /// let group = tidegate_net::pinned("io", 2)?;
    /// let server = Server::builder(&group).listeners_per_port(2).bind("127.0.0.1:0").wait()?;
    /// # server.stop_accepting().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listeners_per_port(mut self, listeners: usize) -> Self {
        self.listeners = listeners.max(1);
        self
    }

    /// Sets the resolver of names. `resolver` gets a host and a port, and returns the addresses,
    /// best first. It is called by [`ServerBuilder::bind`] and should not block. By default the
    /// operating system resolves names, on the threads of a small pool.
    pub fn resolver(
        mut self,
        resolver: impl Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Sets the time limit for resolving a name; zero means no limit.
    pub fn resolve_timeout(mut self, after: Duration) -> Self {
        self.resolve_timeout = after;
        self
    }

    /// Listens on `address`. For a name, listens on the first of its addresses that can be bound.
    /// Fails if the handlers do not fit each other, or with the error of the operating system. If
    /// the completion is cancelled before it completes, the port is free again.
    pub fn bind(self, address: impl Into<Address>) -> Completion<Server> {
        let address = address.into();
        if let Address::Socket(address) = address {
            return self.bind_any(None, &[address]);
        }
        let name = address.to_string();
        let timers = self.children.pick().home.timers();
        let found = address.look_up(&*self.resolver, self.resolve_timeout, &timers);
        let (promise, bound) = promise();
        found.finally(move |outcome| {
            let started = match result(outcome) {
                Ok(found) => self.bind_any(Some(&name), found),
                Err(why) => return drop(promise.fail(why)),
            };
            started.finally(move |outcome| match result(outcome) {
                Ok(server) => complete_bind(server, promise),
                Err(why) => drop(promise.fail(why)),
            });
        });
        bound
    }

    /// Listens on one of `addresses`: those of `name`, or a single address that was given as such.
    fn bind_any(self, name: Option<&str>, addresses: &[SocketAddr]) -> Completion<Server> {
        match self.listen(name, addresses) {
            Ok(listeners) => self.serve_all(listeners),
            Err(why) => Completion::failed(Failure::new(why)),
        }
    }

    /// Serves on an existing listener: a [`TcpListener`](std::net::TcpListener) or a
    /// [`UnixListener`](std::os::unix::net::UnixListener).
    pub fn serve(self, listener: impl Into<Listener>) -> Completion<Server> {
        self.serve_all([listener])
    }

    /// Serves on several existing listeners, for example those of a service manager. They become
    /// non-blocking, and are spread over the event loops that accept. A [`Listener`] holds a
    /// socket of either kind. [`Server::local_addr`] is the address of the first TCP listener.
    /// [`Server::release_listeners`] returns them.
    ///
    /// Fails if there is no listener, or as [`ServerBuilder::bind`] does.
    ///
    /// ```
    /// use std::net::TcpListener;
    /// use tidegate_net::Server;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("[::1]:0")?];
    /// let server = Server::builder(&group).serve_all(listeners).wait()?;
    /// # server.stop_accepting().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn serve_all<L: Into<Listener>>(
        self,
        listeners: impl IntoIterator<Item = L>,
    ) -> Completion<Server> {
        let listeners = listeners.into_iter().map(|one| Listening::new(one.into()));
        let listeners = listeners.collect::<io::Result<Vec<_>>>();
        let started = listeners.map_err(Failure::new);
        match started.and_then(|listeners| self.start(listeners)) {
            Ok(server) => server,
            Err(why) => Completion::failed(why),
        }
    }

    /// Listens on a Unix socket at `path`, which must not exist yet and is not removed afterwards.
    #[cfg(unix)]
    pub fn bind_unix(self, path: impl AsRef<Path>) -> Completion<Server> {
        let path = path.as_ref();
        match std::os::unix::net::UnixListener::bind(path) {
            Ok(listener) => self.serve(listener),
            Err(why) => {
                let what = format!("cannot listen on `{}`", path.display());
                Completion::failed(Failure::new(tried(what, why)))
            }
        }
    }

    fn start(self, listening: Vec<Listening>) -> Result<Completion<Server>, Failure> {
        if listening.is_empty() {
            return Err(Failure::new(NetError::NotOpened {
                what: "cannot serve".to_owned(),
                why: "there is no listener; pass at least one".to_owned(),
            }));
        }
        let address = listening.iter().find_map(Listening::local_addr);
        let address = address.unwrap_or(NO_ADDRESS);
        let initialise = self.initialise.unwrap_or_else(|| Arc::new(|p| p));
        assemble(&initialise, Head::BYTES)?;
        let port = ServerShared::new(&listening, self.limits);
        let options = Arc::new(self.options);
        let (mut listeners, mut registered) = (Vec::new(), Vec::new());
        // The loops in turn, the next one of the rotation first.
        let first = self.children.pick();
        let rest = self.children.each().filter(|one| one.home != first.home);
        let loops: Vec<_> = [first.clone()].into_iter().chain(rest).collect();
        let children: Arc<dyn ConnectionLoops> = Arc::new(GroupChildren {
            group: self.children,
            initialise,
        });
        for (at, (listening, home)) in listening.into_iter().zip(loops.iter().cycle()).enumerate() {
            let accepting = ListenerShared::new(Config {
                home: home.of_channel(),
                timers: home.home.timers(),
                children: Arc::clone(&children),
                options: Arc::clone(&options),
                backlog: usize::try_from(self.backlog).unwrap_or(1).max(1),
                port: Arc::clone(&port),
                stay: self.listeners > 1,
                at,
            });
            let (promise, done) = promise();
            listeners.push(Arc::clone(&accepting));
            registered.push(done);
            let what = format!("cannot listen on {}", listening.place());
            let promise = Awaited::new(promise, what, home.home.executor());
            // A refused registration fails its completion, and so the bind as a whole below.
            let core = |token| Box::new(ListenerCore::new(listening, accepting, token));
            home.register(core, promise);
        }
        let server = Server {
            listeners: listeners.into(),
            port,
            children,
            address,
        };
        let (promise, bound) = promise();
        tidegate_promise::Completion::all(registered).finally(move |outcome| {
            if let Err(why) = result(outcome) {
                drop(server.stop_accepting());
                return drop(promise.fail(why));
            }
            complete_bind(&server, promise);
        });
        Ok(bound)
    }

    /// Listens on the first of `addresses` that can be bound.
    fn listen(&self, name: Option<&str>, addresses: &[SocketAddr]) -> io::Result<Vec<Listener>> {
        let mut last = None;
        for &address in addresses {
            let why = match self.listen_all(address) {
                Ok(listeners) => return Ok(listeners),
                Err(why) => why,
            };
            let what = match name {
                Some(name) => format!("cannot listen on `{name}` ({address})"),
                None => format!("cannot listen on {address}"),
            };
            last = Some(tried(what, why));
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
    }

    fn listen_all(&self, address: SocketAddr) -> io::Result<Vec<Listener>> {
        let count = self.listeners.min(self.children.loops().len());
        let first = self.listen_on(address)?;
        // All listeners share the port that the operating system chose for the first.
        let address = first.local_addr()?;
        let mut all = vec![first];
        for _ in 1..count {
            all.push(self.listen_on(address)?);
        }
        Ok(all)
    }

    fn listen_on(&self, address: SocketAddr) -> io::Result<Listener> {
        let shared = self.reuse_port || self.listeners > 1;
        let backlog = self.backlog.max(1);
        match self.children.network() {
            Some(network) => network
                .listen(address, shared, backlog)
                .map(Listener::Local),
            None => listen_tcp(address, shared, backlog).map(Listener::Tcp),
        }
    }
}

/// Completes `promise` with a server; closes the server if the promise was cancelled.
fn complete_bind(server: &Server, promise: Promise<Server>) {
    if promise.succeed(server.clone()).is_err() {
        drop(server.stop_accepting());
    }
}

impl<P: ChannelPlacement> fmt::Debug for ServerBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
