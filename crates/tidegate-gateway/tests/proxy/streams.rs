//! The connections and listeners of the peers that the tests play: of the network within this process, or
//! sockets for what only sockets have.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tidegate_net::internal::{LocalListener, LocalNetwork, LocalSocket};

use crate::PATIENCE;

/// The network of all tests. Each listener gets a port that no other has had.
static NETWORK: LazyLock<LocalNetwork> = LazyLock::new(LocalNetwork::new);

/// What the peers of a test and its gateway are connected with.
#[derive(Clone, Copy)]
pub(crate) enum Wires {
    /// Pairs of channels within this process.
    Local,
    /// The same, in a network that no other test uses.
    Own(&'static LocalNetwork),
    /// TCP sockets.
    Sockets,
}

impl Wires {
    /// Returns the network that the groups of a gateway use, if they use no sockets.
    pub(crate) fn network(self) -> Option<&'static LocalNetwork> {
        match self {
            Self::Local => Some(&NETWORK),
            Self::Own(network) => Some(network),
            Self::Sockets => None,
        }
    }

    /// Connects. Waits if too many connections wait to be accepted.
    pub(crate) fn connect(self, to: impl ToSocketAddrs) -> io::Result<Stream> {
        let Some(network) = self.network() else {
            return TcpStream::connect(to).map(Stream::Tcp);
        };
        let to = first(to)?;
        tidegate_testkit::until_some("one is accepted", || match network.connect(to) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => None,
            connected => Some(connected.map(Stream::Local)),
        })
    }

    pub(crate) fn listen(self, at: impl ToSocketAddrs) -> io::Result<Listener> {
        match self.network() {
            Some(network) => network.bind(first(at)?).map(Listener::Local),
            None => TcpListener::bind(at).map(Listener::Tcp),
        }
    }
}

fn first(all: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    Ok(all.to_socket_addrs()?.next().unwrap())
}

/// A connection.
pub(crate) enum Stream {
    Local(LocalSocket),
    Tcp(TcpStream),
}

impl Stream {
    /// Makes reads, and writes within this process, fail after `patience`.
    pub(crate) fn set_timeout(&self, patience: Option<Duration>) {
        match self {
            Self::Local(socket) => socket.set_timeout(patience),
            Self::Tcp(socket) => socket.set_read_timeout(patience).unwrap(),
        }
    }

    pub(crate) fn set_nonblocking(&self, yes: bool) {
        match self {
            Self::Local(socket) => socket.set_nonblocking(yes),
            Self::Tcp(socket) => socket.set_nonblocking(yes).unwrap(),
        }
    }

    pub(crate) fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(socket) => socket.peek(into),
            Self::Tcp(socket) => socket.peek(into),
        }
    }

    /// Closes the sending half.
    pub(crate) fn shutdown_output(&self) {
        match self {
            Self::Local(socket) => socket.shutdown_output(),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write).unwrap(),
        }
    }

    pub(crate) fn another(&self) -> Self {
        match self {
            Self::Local(socket) => Self::Local(socket.clone()),
            Self::Tcp(socket) => Self::Tcp(socket.try_clone().unwrap()),
        }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Local(socket) => socket.local_addr().unwrap(),
            Self::Tcp(socket) => socket.local_addr().unwrap(),
        }
    }

    /// Waits until something has come. Returns `false` if nothing does for so long.
    pub(crate) fn wait_readable(&self, patience: Duration) -> bool {
        match self {
            Self::Local(socket) => socket.wait_readable(patience),
            Self::Tcp(socket) => is_ready(PollFd::new(socket, PollFlags::IN), patience),
        }
    }

    /// Waits until it takes more. Returns `false` if it takes nothing for so long.
    pub(crate) fn wait_writable(&self, patience: Duration) -> bool {
        match self {
            Self::Local(socket) => socket.wait_writable(patience),
            Self::Tcp(socket) => is_ready(PollFd::new(socket, PollFlags::OUT), patience),
        }
    }
}

fn is_ready(polled: PollFd<'_>, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).unwrap();
    poll(&mut [polled], Some(&patience)).unwrap() == 1
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self::Tcp(socket)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(socket) => socket.read(into),
            Self::Tcp(socket) => socket.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Local(socket) => socket.write(bytes),
            Self::Tcp(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listener.
pub(crate) enum Listener {
    Local(LocalListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Local(listener) => listener.local_addr(),
            Self::Tcp(listener) => listener.local_addr().unwrap(),
        }
    }

    /// Accepts a connection, and waits for it.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Local(listener) => listener.accept(None).map(Stream::Local),
            Self::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
        }
    }

    /// Accepts a connection that waits. If there is none, waits for so long.
    pub(crate) fn accept_within(&self, patience: Duration) -> io::Result<Stream> {
        match self {
            Self::Local(listener) => listener.accept(Some(patience)).map(Stream::Local),
            Self::Tcp(listener) => match is_ready(PollFd::new(listener, PollFlags::IN), patience) {
                true => self.accept(),
                false => Err(io::ErrorKind::WouldBlock.into()),
            },
        }
    }

    /// Accepts a connection that waits.
    pub(crate) fn try_accept(&self) -> io::Result<Stream> {
        self.accept_within(Duration::ZERO)
    }

    pub(crate) fn accept_patiently(&self) -> Stream {
        let accepted = self.accept_within(PATIENCE);
        accepted.unwrap_or_else(|_| panic!("nobody connects"))
    }
}
