//! Listening sockets: as programs pass them in and get them back, and as an event loop uses them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::channel::{Peer, Transport};
use crate::local::LocalListener;
#[cfg(unix)]
use crate::sys::UnixListener;
use crate::sys::{Adopted, Source, TcpListener};

/// A listening socket that a program passes to a server, or gets back from it.
///
/// [`ServerBuilder::serve_all`](crate::ServerBuilder::serve_all) takes several of them, for example
/// those that a service manager has opened.
/// [`Server::release_listeners`](crate::Server::release_listeners) returns them.
///
/// ```
/// use std::net::TcpListener;
/// use tidegate_net::{Listener, Server};
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let first = TcpListener::bind("127.0.0.1:0")?;
/// let address = first.local_addr()?;
/// let server = Server::builder(&group).serve_all([first]).wait()?;
///
/// // The next server takes over, without a moment in which the port is closed.
/// let listeners = server.release_listeners().wait()?;
/// assert!(matches!(&listeners[..], [Listener::Tcp(_)]));
/// let next = Server::builder(&group).serve_all(listeners).wait()?;
/// assert_eq!(next.local_addr(), address);
/// # next.stop_accepting().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// A TCP socket.
    Tcp(std::net::TcpListener),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener),
    /// A listener of a network within this process, for tests.
    #[doc(hidden)]
    Local(LocalListener),
}

impl Listener {
    /// Returns the listening address, if the socket has one.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            #[cfg(unix)]
            Self::Unix(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
            Self::Local(listener) => Ok(listener.local_addr()),
        }
    }
}

impl From<LocalListener> for Listener {
    fn from(listener: LocalListener) -> Self {
        Self::Local(listener)
    }
}

impl From<std::net::TcpListener> for Listener {
    fn from(listener: std::net::TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

#[cfg(unix)]
impl From<std::os::unix::net::UnixListener> for Listener {
    fn from(listener: std::os::unix::net::UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// A listening socket on its event loop.
pub(super) enum Listening {
    Tcp(TcpListener),
    /// With the name that its connections have without one of their own: its path.
    #[cfg(unix)]
    Unix(UnixListener, Peer),
    Local(LocalListener),
}

impl Listening {
    /// Takes a socket over, which becomes non-blocking.
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::adopt(listener)?),
            #[cfg(unix)]
            Listener::Unix(listener) => {
                let path = Peer::of_unix([listener.local_addr()]);
                Self::Unix(UnixListener::adopt(listener)?, path)
            }
            Listener::Local(listener) => Self::Local(listener),
        })
    }

    /// Gives the socket back.
    pub(super) fn into_listener(self) -> Listener {
        match self {
            Self::Tcp(listener) => Listener::Tcp(listener.into_std()),
            #[cfg(unix)]
            Self::Unix(listener, _) => Listener::Unix(listener.into_std()),
            Self::Local(listener) => {
                listener.on_arrival(None);
                Listener::Local(listener)
            }
        }
    }

    /// Returns the listening address, if the socket has one.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(..) => None,
            Self::Local(listener) => Some(listener.local_addr()),
        }
    }

    /// Returns where the socket listens, for reports.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Tcp(_) => {
                let at = self.local_addr();
                at.map_or_else(|| "a TCP socket".to_owned(), |at| at.to_string())
            }
            #[cfg(unix)]
            Self::Unix(_, path) => path.name().unwrap_or(&"a Unix socket").to_string(),
            Self::Local(listener) => listener.local_addr().to_string(),
        }
    }

    pub(super) fn accept(&self) -> io::Result<(Transport, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((Transport::tcp(stream), Peer::Address(peer)))
            }
            #[cfg(unix)]
            Self::Unix(listener, path) => {
                let (stream, own) = listener.accept()?;
                let own = own.as_pathname().map(Peer::at_path);
                Ok((Transport::unix(stream), own.unwrap_or_else(|| path.clone())))
            }
            Self::Local(listener) => {
                let end = listener.accept_channel()?;
                let peer = end.peer_addr().into();
                Ok((Transport::Local(end), peer))
            }
        }
    }

    /// Sets what is called when a connection comes, if the socket has no poller. It is called now if
    /// one waits already.
    pub(super) fn on_arrival(&self, call: impl Fn() + Send + Sync + 'static) {
        if let Self::Local(listener) = self {
            listener.on_arrival(Some(Arc::new(call)));
        }
    }

    /// Returns what the poller watches, if there is something.
    pub(super) fn source(&mut self) -> Option<&mut dyn Source> {
        match self {
            Self::Tcp(listener) => Some(listener),
            #[cfg(unix)]
            Self::Unix(listener, _) => Some(listener),
            Self::Local(_) => None,
        }
    }
}
