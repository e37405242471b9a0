//! Clients: connections to other processes, adopted sockets, and pairs of channels within this
//! process.
//!
//! Uses [`group`](crate::group) and [`resolve`](crate::resolve), but not the server.

mod attempts;
mod builder;
mod local_pair;

pub use self::builder::ClientBuilder;

use self::attempts::Attempts;

use std::fmt;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_loop::internal::LoopScheduler;
use tidegate_loop::{EventLoop, Pinned};
use tidegate_promise::{Completion, Failure, Promise, promise_on};

use crate::awaited::{Awaited, result};
use crate::channel::{
    Channel, ChannelOptions, ChannelRequest, Connecting, Peer, Shared, Start, TimedWork, Transport,
};
use crate::errors::NetError;
use crate::group::{ChannelPlacement, ChannelPlacer, LoopTarget, NetGroup};
use crate::pipeline::{Head, Initialiser, PipelineState, assemble};
use crate::resolve::{Address, Resolver};
#[cfg(unix)]
use crate::sys::UnixStream;
use crate::sys::{Adopted, TcpStream, UdpSocket};

/// Creates connections; each call of `connect` makes one. They end with the event loops of the
/// group, so keep the group or the client at least as long as the connections.
///
/// ```no_run
/// use tidegate_net::Client;
/// use tidegate_net::handlers::LineFrames;
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let client = Client::builder(&group)
///     .pipeline(|p| p.add("lines", LineFrames::max(1024)))
///     .build();
/// let channel = client.connect("example.org:7000").wait()?;
/// channel.write_and_flush("hello\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client<P: ChannelPlacement = Pinned> {
    group: NetGroup<P>,
    initialise: Initialiser<P>,
    options: Arc<ChannelOptions>,
    resolver: Arc<Resolver>,
    resolve_timeout: Duration,
}

impl<P: ChannelPlacement> Client<P> {
    /// Connects to `to`. The addresses of a name are tried 250 ms apart, or when the one before has
    /// failed, IPv6 and IPv4 in turn; the first connection is used (RFC 8305). The
    /// completion fails if the handlers do not fit each other or `assemble` panics, if the name has
    /// no address, with the error of the operating system, or with [`NetError::ConnectTimeout`],
    /// which applies to each address separately. Cancelling the completion ends the attempt; if the
    /// name is still being resolved, no connection is made.
    pub fn connect(&self, to: impl Into<Address>) -> Completion<Channel> {
        self.connect_from(self.group.pick(), to.into())
    }

    /// Connects like [`Client::connect`], on this event loop of the client's group. The completion
    /// fails with [`NetError::NotOpened`] if the group does not have this event loop.
    ///
    /// ```
    /// use std::net::TcpListener;
    /// use tidegate_net::Client;
    ///
    /// let group = tidegate_net::pinned("io", 2)?;
    /// let peer = TcpListener::bind("127.0.0.1:0")?;
    /// let home = group.loops().next();
    /// let client = Client::builder(&group).build();
    /// let channel = client.connect_on(home, peer.local_addr()?).wait()?;
    /// assert_eq!(channel.loop_name(), home.name());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect_on(&self, home: &EventLoop<P>, to: impl Into<Address>) -> Completion<Channel> {
        let to = to.into();
        match self.group.target(home) {
            Some(target) => self.connect_from(target, to),
            None => foreign_loop(&Subject::Connect(to.to_string()), home.name()),
        }
    }

    fn connect_from(&self, home: LoopTarget<P>, to: Address) -> Completion<Channel> {
        let (promise, connected) = promise_on(home.home.executor());
        if let Address::Socket(address) = to {
            self.connect_address(&home, address, address.to_string(), promise);
            return connected;
        }
        let name = to.to_string();
        let timers = home.home.timers();
        let found = to.look_up(&*self.resolver, self.resolve_timeout, &timers);
        let attempts = Attempts::new(self.clone(), home, name, &promise);
        found.finally(move |outcome| match result(outcome) {
            Ok(found) => attempts.begin(found.clone(), promise),
            Err(why) => drop(promise.fail(why)),
        });
        connected
    }

    /// Connects to `address`; `to` is its name in errors.
    fn connect_address(
        &self,
        home: &LoopTarget<P>,
        address: SocketAddr,
        to: String,
        promise: Promise<Channel>,
    ) {
        let network = self.group.network().cloned();
        let open = move || {
            let transport = match network {
                Some(network) => {
                    network.take_descriptor()?;
                    Transport::Local(network.connect_end(address)?)
                }
                None => Transport::tcp(TcpStream::connect(address)?),
            };
            let local = transport.local_addr();
            Ok((transport, local, Peer::Address(address)))
        };
        self.open_on(home, Subject::Connect(to), open, promise);
    }

    /// Connects to a Unix socket.
    #[cfg(unix)]
    pub fn connect_unix(&self, path: impl AsRef<Path>) -> Completion<Channel> {
        self.open_unix(None, path.as_ref())
    }

    /// Connects to a Unix socket, on this event loop of the client's group. The completion fails
    /// with [`NetError::NotOpened`] if the group does not have this event loop.
    #[cfg(unix)]
    pub fn connect_unix_on(
        &self,
        home: &EventLoop<P>,
        path: impl AsRef<Path>,
    ) -> Completion<Channel> {
        self.open_unix(Some(home), path.as_ref())
    }

    #[cfg(unix)]
    fn open_unix(&self, home: Option<&EventLoop<P>>, path: &Path) -> Completion<Channel> {
        let path = path.to_owned();
        let subject = Subject::Connect(format!("`{}`", path.display()));
        self.open(home, subject, move || {
            let stream = UnixStream::connect(&path)?;
            Ok((Transport::unix(stream), None, Peer::at_path(&path)))
        })
    }

    /// Creates a channel of a connected TCP socket.
    pub fn adopt(&self, stream: std::net::TcpStream) -> Completion<Channel> {
        self.open(None, ADOPT_TCP, move || adopt_tcp(stream))
    }

    /// Creates a channel like [`Client::adopt`], on this event loop of the client's group. The
    /// completion fails with [`NetError::NotOpened`] if the group does not have this event loop;
    /// the socket is closed then.
    pub fn adopt_on(
        &self,
        home: &EventLoop<P>,
        stream: std::net::TcpStream,
    ) -> Completion<Channel> {
        self.open(Some(home), ADOPT_TCP, move || adopt_tcp(stream))
    }

    /// Creates a channel of a connected Unix socket, for example one end of a pair.
    ///
    /// ```
    /// use std::io::Read;
    /// use std::os::unix::net::UnixStream;
    /// use tidegate_net::Client;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let (near, mut far) = UnixStream::pair()?;
    /// let channel = Client::builder(&group).build().adopt_unix(near).wait()?;
    /// channel.write_and_flush("hello");
    /// let mut received = [0; 5];
    /// far.read_exact(&mut received)?;
    /// assert_eq!(&received, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(unix)]
    pub fn adopt_unix(&self, stream: std::os::unix::net::UnixStream) -> Completion<Channel> {
        self.open(None, Subject::Other("adopt a Unix socket"), move || {
            let peer = Peer::of_unix([stream.peer_addr(), stream.local_addr()]);
            Ok((Transport::unix(UnixStream::adopt(stream)?), None, peer))
        })
    }

    /// Opens a UDP socket at `address`. Its handlers take and write [`Datagram`](crate::Datagram)s.
    ///
    /// ```
    /// use tidegate_net::{Client, Datagram};
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let any = "127.0.0.1:0".parse()?;
    /// let channel = Client::builder(&group).build().bind_udp(any).wait()?;
    /// let own = channel.local_addr().expect("it is bound");
    /// channel.write(Datagram { bytes: "to myself".into(), peer: own });
    /// channel.flush();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind_udp(&self, address: SocketAddr) -> Completion<Channel> {
        self.open(None, Subject::Udp(address), move || {
            let socket = UdpSocket::bind(address)?;
            let local = socket.local_addr().ok();
            Ok((Transport::Udp(socket), local, Peer::Unknown))
        })
    }

    /// Creates a channel of an existing UDP socket: see [`Client::bind_udp`].
    pub fn adopt_udp(&self, socket: std::net::UdpSocket) -> Completion<Channel> {
        self.open(None, Subject::Other("adopt a UDP socket"), move || {
            let socket = UdpSocket::adopt(socket)?;
            let local = socket.local_addr().ok();
            Ok((Transport::Udp(socket), local, Peer::Unknown))
        })
    }

    /// Opens a connection on the next event loop.
    fn open(
        &self,
        home: Option<&EventLoop<P>>,
        subject: Subject,
        open: impl FnOnce() -> io::Result<Opened> + Send + 'static,
    ) -> Completion<Channel> {
        let home = match home {
            None => self.group.pick(),
            Some(home) => match self.group.target(home) {
                Some(home) => home,
                None => return foreign_loop(&subject, home.name()),
            },
        };
        let (promise, opened) = promise_on(home.home.executor());
        self.open_on(&home, subject, open, promise);
        opened
    }

    /// Opens a connection on the event loop `home`.
    fn open_on(
        &self,
        home: &LoopTarget<P>,
        subject: Subject,
        open: impl FnOnce() -> io::Result<Opened> + Send + 'static,
        promise: Promise<Channel>,
    ) {
        let this = self.clone();
        let (of_channel, timers) = (home.of_channel(), home.home.timers());
        let promise = Awaited::new(promise, subject.to_string(), home.home.executor());
        let refusal = promise.refusal();
        let ran = home.run(move || {
            let (transport, local, peer) = match open() {
                Ok(opened) => opened,
                Err(why) => return promise.fail(&Failure::new(why)),
            };
            let datagrams = matches!(transport, Transport::Udp(_));
            let head = if datagrams {
                Head::DATAGRAMS
            } else {
                Head::BYTES
            };
            let checked = match assemble(&this.initialise, head) {
                Ok(checked) => checked,
                Err(why) => return promise.fail(&why),
            };
            transport.set_options(&this.options);
            let options = Arc::clone(&this.options);
            let shared = Shared::new(of_channel, options, (local, peer), None);
            let start = this.begin_connect(&timers, &shared, subject, promise);
            let mut parts = PipelineState::new(shared);
            if datagrams {
                parts.io.take_datagrams();
            }
            P::place(ChannelPlacer {
                transport,
                parts,
                checked,
                start,
            });
        });
        if let Err(refused) = ran {
            refusal.by(refused);
        }
    }

    fn begin_connect(
        &self,
        timers: &LoopScheduler,
        shared: &Arc<tidegate_core::internal::SignalBlock<Shared>>,
        subject: Subject,
        promise: Awaited<Channel>,
    ) -> Start {
        let after = self.options.connect_timeout;
        let weak = Arc::downgrade(shared);
        let give_up = move |why: Failure| {
            if let Some(shared) = weak.upgrade() {
                let _ = Shared::post(&shared, ChannelRequest::CancelConnect(why), true);
            }
        };
        let cancelled = give_up.clone();
        promise.on_cancel(move || cancelled(Failure::cancelled()));
        let timeout = (!after.is_zero()).then(|| {
            let late: TimedWork = Box::new(move || {
                let to = subject.into_name();
                give_up(Failure::new(NetError::ConnectTimeout { to, after }));
            });
            timers.schedule(after, late)
        });
        let timeout = timeout.and_then(Result::ok);
        Start::Connecting(Box::new(Connecting { promise, timeout }))
    }
}

/// The subject of adopting a TCP socket.
const ADOPT_TCP: Subject = Subject::Other("adopt a TCP socket");

fn adopt_tcp(stream: std::net::TcpStream) -> io::Result<Opened> {
    let stream = TcpStream::adopt(stream)?;
    let (local, peer) = (stream.local_addr().ok(), stream.peer_addr().ok());
    Ok((Transport::tcp(stream), local, peer.into()))
}

/// Returns the error for an event loop that the client's group does not have.
fn foreign_loop(subject: &Subject, home: &str) -> Completion<Channel> {
    Completion::failed(Failure::new(NetError::NotOpened {
        what: subject.to_string(),
        why: format!("event loop `{home}` is not of the client's group; use one of its loops"),
    }))
}

/// What a client opens, for errors.
enum Subject {
    /// A connection to this peer.
    Connect(String),
    Udp(SocketAddr),
    Other(&'static str),
}

impl Subject {
    /// Returns the name of the peer, if it is known.
    fn into_name(self) -> String {
        match self {
            Self::Connect(to) => to,
            Self::Udp(address) => address.to_string(),
            Self::Other(_) => "its peer".to_owned(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(to) => write!(f, "cannot connect to {to}"),
            Self::Udp(address) => write!(f, "cannot open a UDP socket on {address}"),
            Self::Other(what) => write!(f, "cannot {what}"),
        }
    }
}

type Opened = (Transport, Option<SocketAddr>, Peer);

impl<P: ChannelPlacement> Clone for Client<P> {
    fn clone(&self) -> Self {
        Self {
            group: self.group.clone(),
            initialise: Arc::clone(&self.initialise),
            options: Arc::clone(&self.options),
            resolver: Arc::clone(&self.resolver),
            resolve_timeout: self.resolve_timeout,
        }
    }
}

impl<P: ChannelPlacement> fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
