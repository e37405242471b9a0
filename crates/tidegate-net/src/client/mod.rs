//! Clients: connecting to somewhere else, or to oneself.

mod resolve;

use std::fmt;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;

use mio::net::TcpStream;
use tidegate_exec::{LoopTimers, Pinned};
use tidegate_promise::{Completion, Failure, Outcome, Promise, promise, promise_on};

pub use self::resolve::{Address, MOST_LOOKUPS, Resolver, SystemResolver};
use crate::channel::{
    Channel, ChannelOptions, Connecting, Mail, Shared, Start, Transport, local_ends,
};
use crate::errors::NetError;
use crate::group::NetGroup;
use crate::pipeline::{Assembly, Head, Parts};
use crate::residence::{Residence, Residing, Settler};
use crate::server::Initialiser;

/// Describes connections to be made; each `connect` makes one.
///
/// ```no_run
/// use tidegate_net::Client;
/// use tidegate_net::handlers::LineFrames;
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let client = Client::new(&group).pipeline(|p| p.add("lines", LineFrames::max(1024)));
/// let channel = client.connect("example.org:7000").wait()?;
/// channel.write_and_flush("hello\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client<P: Residence = Pinned> {
    group: NetGroup<P>,
    initialise: Initialiser<P>,
    options: Arc<ChannelOptions>,
    resolver: Arc<dyn Resolver>,
}

impl<P: Residence> Client<P> {
    /// Describes connections that live on the loops of `group`.
    pub fn new(group: &NetGroup<P>) -> Self {
        Self {
            group: group.clone(),
            initialise: Arc::new(|p| p),
            options: Arc::default(),
            resolver: Arc::new(SystemResolver::new()),
        }
    }

    /// The handlers of each connection, first to last; called on the connection's loop.
    pub fn pipeline(
        mut self,
        assemble: impl Fn(Assembly<P>) -> Assembly<P> + Send + Sync + 'static,
    ) -> Self {
        self.initialise = Arc::new(assemble);
        self
    }

    /// How the connections behave.
    pub fn options(mut self, options: ChannelOptions) -> Self {
        self.options = Arc::new(options);
        self
    }

    /// Who resolves names.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Connects. The completion fails if the handlers do not fit each other, if the name has no
    /// address, with what the operating system says, or with [`NetError::ConnectTimeout`].
    /// Cancelling it ends the attempt.
    pub fn connect(&self, to: impl Into<Address>) -> Completion<Channel> {
        let home = self.group.pick();
        let (promise, connected) = promise_on(home.home.executor());
        match to.into() {
            Address::Socket(address) => self.connect_on(&home, address, promise),
            Address::Name(host, port) => {
                let this = self.clone();
                let resolved = self.resolver.resolve(&host, port);
                resolved.finally(move |outcome| {
                    let why = match outcome {
                        Outcome::Success(addresses) => match addresses.first() {
                            Some(address) => return this.connect_on(&home, *address, promise),
                            None => Failure::new(NetError::NoAddress(host)),
                        },
                        Outcome::Failure(why) => why.clone(),
                        Outcome::Cancelled => Failure::cancelled(),
                    };
                    let _ = promise.fail(why);
                });
            }
        }
        connected
    }

    fn connect_on(&self, home: &Residing<P>, address: SocketAddr, promise: Promise<Channel>) {
        let open = move || {
            let stream = TcpStream::connect(address)?;
            let local = stream.local_addr().ok();
            Ok((Transport::Tcp(stream), local, Some(address)))
        };
        self.open_on(home, open, promise);
    }

    /// Connects to a Unix socket.
    #[cfg(unix)]
    pub fn connect_unix(&self, path: impl AsRef<Path>) -> Completion<Channel> {
        let home = self.group.pick();
        let (promise, connected) = promise_on(home.home.executor());
        let path = path.as_ref().to_owned();
        let open = move || {
            let stream = mio::net::UnixStream::connect(path)?;
            Ok((Transport::Unix(stream), None, None))
        };
        self.open_on(&home, open, promise);
        connected
    }

    /// Makes a channel of a connection made before.
    pub fn adopt(&self, stream: std::net::TcpStream) -> Completion<Channel> {
        let home = self.group.pick();
        let (promise, connected) = promise_on(home.home.executor());
        let open = move || {
            stream.set_nonblocking(true)?;
            let (local, peer) = (stream.local_addr().ok(), stream.peer_addr().ok());
            let stream = TcpStream::from_std(stream);
            Ok((Transport::Tcp(stream), local, peer))
        };
        self.open_on(&home, open, promise);
        connected
    }

    /// Opens a UDP socket at `address`; its handlers take and write [`Datagram`](crate::Datagram)s.
    ///
    /// ```
    /// use tidegate_net::{Client, Datagram};
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let any = "127.0.0.1:0".parse()?;
    /// let channel = Client::new(&group).bind_udp(any).wait()?;
    /// let own = channel.local_addr().expect("it is bound");
    /// channel.write_message(Datagram { bytes: "to myself".into(), peer: own });
    /// channel.flush();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind_udp(&self, address: SocketAddr) -> Completion<Channel> {
        let home = self.group.pick();
        let (promise, bound) = promise_on(home.home.executor());
        let open = move || {
            let socket = mio::net::UdpSocket::bind(address)?;
            let local = socket.local_addr().ok();
            Ok((Transport::Udp(socket), local, None))
        };
        self.open_on(&home, open, promise);
        bound
    }

    /// Opens a connection on its loop.
    fn open_on(
        &self,
        home: &Residing<P>,
        open: impl FnOnce() -> io::Result<Opened> + Send + 'static,
        promise: Promise<Channel>,
    ) {
        let this = self.clone();
        let (of_channel, timers) = (home.of_channel(), home.home.timers());
        // A refused task drops its promise, which fails as abandoned.
        let _ = home.run(move || {
            let (transport, local, peer) = match open() {
                Ok(opened) => opened,
                Err(why) => return drop(promise.fail(Failure::new(why))),
            };
            let datagrams = matches!(transport, Transport::Udp(_));
            let head = if datagrams {
                Head::DATAGRAMS
            } else {
                Head::BYTES
            };
            let assembly = (this.initialise)(Assembly::new());
            let checked = match assembly.checked(head) {
                Ok(checked) => checked,
                Err(why) => return drop(promise.fail(Failure::new(why))),
            };
            transport.set_options(&this.options);
            let options = Arc::clone(&this.options);
            let shared = Shared::new(of_channel, options, (local, peer), None);
            let start = this.begin_connect(&timers, &shared, promise);
            let mut parts = Parts::new(shared);
            parts.outbox = datagrams.then(Box::default);
            P::settle(Settler {
                transport,
                parts,
                checked,
                start,
            });
        });
    }

    fn begin_connect(
        &self,
        timers: &LoopTimers,
        shared: &Arc<tidegate_sync::SignalBlock<Shared>>,
        promise: Promise<Channel>,
    ) -> Start {
        let after = self.options.connect_timeout;
        let weak = Arc::downgrade(shared);
        let give_up = move |why: Failure| {
            if let Some(shared) = weak.upgrade() {
                let _ = Shared::post(&shared, Mail::CancelConnect(why), true);
            }
        };
        let cancelled = give_up.clone();
        promise.on_cancel(move || cancelled(Failure::cancelled()));
        let timeout = (!after.is_zero()).then(|| {
            timers.schedule(after, move || {
                give_up(Failure::new(NetError::ConnectTimeout(after)));
            })
        });
        let timeout = timeout.and_then(Result::ok);
        Start::Connecting(Box::new(Connecting { promise, timeout }))
    }
}

type Opened = (Transport, Option<SocketAddr>, Option<SocketAddr>);

impl<P: Residence> Clone for Client<P> {
    fn clone(&self) -> Self {
        Self {
            group: self.group.clone(),
            initialise: Arc::clone(&self.initialise),
            options: Arc::clone(&self.options),
            resolver: Arc::clone(&self.resolver),
        }
    }
}

impl<P: Residence> fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Makes two channels in the memory of this process, joined like a socket pair, each on the
/// next loop of `group`: what one writes the other reads.
///
/// ```
/// let group = tidegate_net::pinned("io", 1)?;
/// let (one, other) = tidegate_net::local_pair(&group, |p| p, |p| p).wait()?;
/// one.close().wait()?;
/// other.closed().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn local_pair<P: Residence>(
    group: &NetGroup<P>,
    first: impl Fn(Assembly<P>) -> Assembly<P> + Send + Sync + 'static,
    second: impl Fn(Assembly<P>) -> Assembly<P> + Send + Sync + 'static,
) -> Completion<(Channel, Channel)> {
    let (one, other) = local_ends();
    let open = |end, assemble: Initialiser<P>| {
        let home = group.pick();
        let (promise, connected) = promise_on(home.home.executor());
        let mut client = Client::new(group);
        client.initialise = assemble;
        client.open_on(
            &home,
            move || Ok((Transport::Local(end), None, None)),
            promise,
        );
        connected
    };
    let (one, other) = (open(one, Arc::new(first)), open(other, Arc::new(second)));
    let (promise, pair) = promise();
    let both = tidegate_promise::all([one, other]);
    both.finally(move |outcome| {
        let made = match outcome {
            Outcome::Success(channels) => match channels.as_slice() {
                [one, other] => Ok((one.clone(), other.clone())),
                _ => return,
            },
            Outcome::Failure(why) => Err(why.clone()),
            Outcome::Cancelled => Err(Failure::cancelled()),
        };
        let _ = promise.complete(made);
    });
    pair
}
