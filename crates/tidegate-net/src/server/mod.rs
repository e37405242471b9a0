//! Servers: somewhere to connect to.

mod listener;
mod origin;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tidegate_exec::{LoopTimers, Pinned};
use tidegate_promise::{Completion, Failure, Promise, promise};
use tidegate_sync::SignalBlock;

use self::listener::{Accepting, ListenerCore, Listening, Nursery};
pub(crate) use self::origin::Origin;
pub use self::origin::{DrainReport, Draining};
use crate::channel::{ChannelOptions, Closed, Home};
use crate::group::NetGroup;
use crate::pipeline::{Assembly, Head};
use crate::residence::Residence;

/// Connections that the operating system holds until they are accepted, when nothing is said.
pub const DEFAULT_BACKLOG: i32 = 1024;
/// How long accepting pauses when there are no descriptors left, when nothing is said.
pub const DEFAULT_ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The address of a server that listens on a path.
#[cfg(unix)]
const NO_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// What makes the handlers of a new connection, on its loop.
pub(crate) type Initialiser<P> = Arc<dyn Fn(Assembly<P>) -> Assembly<P> + Send + Sync>;

/// Describes a server, and when bound is a handle of it.
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
/// let server = Server::new(&group)
///     .pipeline(|p| p.add("echo", Echo))
///     .bind("127.0.0.1:0")
///     .wait()?;
/// println!("listening on {}", server.local_addr());
/// server.close().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server {
    accepting: Arc<SignalBlock<Accepting>>,
    address: SocketAddr,
}

impl Server {
    /// Describes a server whose connections live on the loops of `group`.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a server exists when its description is bound"
    )]
    pub fn new<P: Residence>(group: &NetGroup<P>) -> ServerBuilder<P> {
        ServerBuilder {
            boss: None,
            children: group.clone(),
            initialise: None,
            options: ChannelOptions::default(),
            backlog: DEFAULT_BACKLOG,
            pause: DEFAULT_ACCEPT_PAUSE,
            reuse_port: false,
        }
    }

    /// Where it listens; the unspecified address for a server on a Unix socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.accepting.origin().live()
    }

    /// Connections accepted since it was bound.
    pub fn accepted(&self) -> u64 {
        self.accepting.origin().accepted()
    }

    /// Stops accepting; connections stay. Completes when the port is free.
    pub fn close(&self) -> Closed {
        let closed = self.closed();
        self.accepting.stop();
        Accepting::wake(&self.accepting);
        closed
    }

    /// Completes when it no longer accepts.
    pub fn closed(&self) -> Closed {
        self.accepting.closed()
    }

    /// Stops accepting, tells each connection's handlers with a [`Draining`] event, and lets
    /// them finish until `deadline`; then closes what is left. The report says how many.
    pub fn drain(&self, deadline: Duration) -> Completion<DrainReport> {
        drop(self.close());
        self.accepting.drain(deadline)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

/// Describes a [`Server`].
#[must_use = "a server exists when its description is bound"]
pub struct ServerBuilder<P: Residence = Pinned> {
    boss: Option<Boss>,
    children: NetGroup<P>,
    initialise: Option<Initialiser<P>>,
    options: ChannelOptions,
    backlog: i32,
    pause: Duration,
    reuse_port: bool,
}

/// Registers the listener of a server and completes its promise.
type Register = Box<dyn FnOnce(Listening, Server, Promise<Server>) -> Result<(), String> + Send>;

/// The loop that accepts, whatever its shape.
struct Boss {
    home: Home,
    timers: LoopTimers,
    register: Register,
}

impl Boss {
    fn of<Q: Residence>(group: &NetGroup<Q>) -> Self {
        let one = group.pick();
        Self {
            home: one.of_channel(),
            timers: one.home.timers(),
            register: Box::new(move |listening, server, promise| {
                let accepting = Arc::clone(&server.accepting);
                let core = |token| Box::new(ListenerCore::new(listening, accepting, token));
                one.register(core, |registered| {
                    let registered = registered.map(|()| server);
                    let _ = promise.complete(registered.map_err(Failure::new));
                })
            }),
        }
    }
}

impl<P: Residence> ServerBuilder<P> {
    /// Accepts on the next loop of another group than the one on which connections live.
    pub fn boss<Q: Residence>(mut self, group: &NetGroup<Q>) -> Self {
        self.boss = Some(Boss::of(group));
        self
    }

    /// The handlers of each connection, first to last. Called on the connection's loop, and
    /// once when the server is bound, to check that they fit each other.
    pub fn pipeline(
        mut self,
        assemble: impl Fn(Assembly<P>) -> Assembly<P> + Send + Sync + 'static,
    ) -> Self {
        self.initialise = Some(Arc::new(assemble));
        self
    }

    /// How its connections behave.
    pub fn options(mut self, options: ChannelOptions) -> Self {
        self.options = options;
        self
    }

    /// Connections that the operating system holds until they are accepted.
    pub fn backlog(mut self, connections: i32) -> Self {
        self.backlog = connections;
        self
    }

    /// How long accepting pauses when there are no descriptors left.
    pub fn accept_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Lets several servers listen on one port, each with a share of the connections.
    pub fn reuse_port(mut self, yes: bool) -> Self {
        self.reuse_port = yes;
        self
    }

    /// Listens on `address`. Fails if the handlers do not fit each other, or with what the
    /// operating system says.
    ///
    /// # Threads
    ///
    /// A name is resolved on the calling thread: give an address where that may not block.
    pub fn bind(self, address: impl ToSocketAddrs) -> Completion<Server> {
        match self.listen(address) {
            Ok(listener) => self.serve(listener),
            Err(why) => Completion::failed(Failure::new(why)),
        }
    }

    /// Serves on a listener made before.
    pub fn serve(self, listener: std::net::TcpListener) -> Completion<Server> {
        match self.start_tcp(listener) {
            Ok(server) => server,
            Err(why) => Completion::failed(why),
        }
    }

    /// Listens on a Unix socket at `path`, which must not exist yet and is left there.
    #[cfg(unix)]
    pub fn bind_unix(self, path: impl AsRef<Path>) -> Completion<Server> {
        let listening = mio::net::UnixListener::bind(path).map(Listening::Unix);
        let started = listening.map_err(Failure::new);
        match started.and_then(|listening| self.start(listening, NO_ADDRESS)) {
            Ok(server) => server,
            Err(why) => Completion::failed(why),
        }
    }

    fn start_tcp(self, listener: std::net::TcpListener) -> Result<Completion<Server>, Failure> {
        listener.set_nonblocking(true).map_err(Failure::new)?;
        let address = listener.local_addr().map_err(Failure::new)?;
        let listening = Listening::Tcp(mio::net::TcpListener::from_std(listener));
        self.start(listening, address)
    }

    fn start(
        self,
        listening: Listening,
        address: SocketAddr,
    ) -> Result<Completion<Server>, Failure> {
        let initialise = self.initialise.unwrap_or_else(|| Arc::new(|p| p));
        initialise(Assembly::new())
            .checked(Head::BYTES)
            .map_err(Failure::new)?;
        let boss = self.boss.unwrap_or_else(|| Boss::of(&self.children));
        let accepting = Accepting::new(listener::Config {
            home: boss.home,
            timers: boss.timers,
            children: Box::new(Nursery {
                group: self.children,
                initialise,
            }),
            options: Arc::new(self.options),
            pause: self.pause,
        });
        let server = Server { accepting, address };
        let (promise, bound) = promise();
        (boss.register)(listening, server, promise).map_err(Failure::new)?;
        Ok(bound)
    }

    fn listen(&self, address: impl ToSocketAddrs) -> io::Result<std::net::TcpListener> {
        let mut last = None;
        for address in address.to_socket_addrs()? {
            match self.listen_on(address) {
                Ok(listener) => return Ok(listener),
                Err(why) => last = Some(why),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
    }

    fn listen_on(&self, address: SocketAddr) -> io::Result<std::net::TcpListener> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if self.reuse_port {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(self.backlog.max(1))?;
        Ok(socket.into())
    }
}

impl<P: Residence> fmt::Debug for ServerBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
