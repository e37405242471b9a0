//! The connection of a client: as it is, or encrypted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::PATIENCE;
#[cfg(feature = "tls")]
pub(super) use crate::authority::{Authority, Secure};

/// The authority that clients trust: none, without TLS.
#[cfg(not(feature = "tls"))]
pub(super) enum Authority {}

/// A connection.
pub(super) enum Link {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Secure(Box<Secure>),
}

impl Link {
    /// Connects, and begins TLS if there is an authority.
    pub(super) fn connect(address: SocketAddr, authority: Option<&Authority>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        match authority {
            None => Ok(Self::Plain(stream)),
            #[cfg(feature = "tls")]
            Some(authority) => Ok(Self::Secure(Box::new(authority.secure(stream, &[])))),
            #[cfg(not(feature = "tls"))]
            Some(authority) => match *authority {},
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Secure(stream) => &stream.sock,
        }
    }

    /// Ends the client's half in order: an encrypted one with `close_notify`, while its socket stays
    /// open.
    pub(super) fn end_output(&mut self) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.read(bytes),
        }
    }

    /// Returns `true` if a server that ends a connection early may cause this error.
    pub(super) fn is_cut(&self, why: &io::Error) -> bool {
        match why.kind() {
            ErrorKind::ConnectionReset => true,
            // The end of the socket without `close_notify`; a reply to a handshake that is over.
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => !matches!(self, Self::Plain(_)),
            _ => false,
        }
    }
}
