//! Listening sockets: as programs pass them in and get them back, and as an event loop uses them.

use std::io;
use std::net::SocketAddr;

use crate::channel::Transport;
use crate::sys::{Adopted, Source, TcpListener, accept_tcp};
#[cfg(unix)]
use crate::sys::{UnixListener, accept_unix};

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
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listening {
    /// Takes a socket over, which becomes non-blocking.
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::adopt(listener)?),
            #[cfg(unix)]
            Listener::Unix(listener) => Self::Unix(UnixListener::adopt(listener)?),
        })
    }

    /// Gives the socket back.
    pub(super) fn into_listener(self) -> Listener {
        match self {
            Self::Tcp(listener) => Listener::Tcp(listener.into_std()),
            #[cfg(unix)]
            Self::Unix(listener) => Listener::Unix(listener.into_std()),
        }
    }

    /// Returns the listening address, if the socket has one.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(_) => None,
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
            Self::Unix(listener) => {
                let at = listener.local_addr().ok();
                let path = at.as_ref().and_then(|at| at.as_pathname());
                path.map_or_else(
                    || "a Unix socket".to_owned(),
                    |path| path.display().to_string(),
                )
            }
        }
    }

    pub(super) fn accept(&self) -> io::Result<(Transport, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = accept_tcp(listener)?;
                Ok((Transport::tcp(stream), Some(peer)))
            }
            #[cfg(unix)]
            Self::Unix(listener) => Ok((Transport::unix(accept_unix(listener)?), None)),
        }
    }

    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(listener) => listener,
            #[cfg(unix)]
            Self::Unix(listener) => listener,
        }
    }
}
