//! The errors of TLS.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The error of a TLS connection or configuration. A [`Tls`](super::Tls) handler fires the errors
/// of its connection as error events. The constructors of a configuration return an error for
/// certificates, keys or names that cannot be used.
///
/// ```
/// use tidegate_net::tls::{TlsError, TlsServer};
///
/// let why = TlsServer::from_pem(b"no certificate", b"no key").unwrap_err();
/// assert!(matches!(why, TlsError::InvalidIdentity(_)));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum TlsError {
    /// Certificates or a key that cannot be used, with the reason.
    InvalidIdentity(String),
    /// Root certificates that cannot be used, with the reason.
    InvalidRoots(String),
    /// The name is not a valid server name.
    InvalidName(String),
    /// The handshake failed: an unacceptable certificate, no common protocol, or bytes that are not
    /// TLS.
    Handshake(rustls::Error),
    /// The handshake was not done within the handshake timeout, which is given here.
    HandshakeTimeout(Duration),
    /// The connect and the handshake were not done within the time for both, which is given here.
    ConnectTimeout(Duration),
    /// The peer closed the connection before the handshake was done.
    ClosedInHandshake,
    /// The connection failed after the handshake, for example because of a corrupt record.
    ConnectionFailed(rustls::Error),
    /// The peer closed the connection without a `close_notify`, so the received data may be
    /// incomplete.
    Truncated,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidIdentity(what) => {
                write!(f, "the certificates or the key cannot be used: {what}")
            }
            Self::InvalidRoots(what) => write!(f, "the root certificates cannot be used: {what}"),
            Self::InvalidName(what) => write!(
                f,
                "`{what}` is not the name of a server; give a host name or an address"
            ),
            Self::Handshake(why) => write!(f, "the TLS handshake failed: {why}"),
            Self::HandshakeTimeout(what) => write!(
                f,
                "the TLS handshake took longer than {what:?}; check the peer, or raise \
                 `handshake_timeout`"
            ),
            Self::ConnectTimeout(what) => write!(
                f,
                "the connect and the TLS handshake took longer than {what:?}; check the peer, or \
                 raise `connect_timeout`"
            ),
            Self::ClosedInHandshake => {
                f.write_str("the peer closed the connection during the TLS handshake")
            }
            Self::ConnectionFailed(why) => write!(f, "the TLS connection failed: {why}"),
            Self::Truncated => f.write_str(
                "the peer closed the connection without a close_notify; what was received \
                 may be incomplete",
            ),
        }
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Handshake(why) => Some(why),
            Self::ConnectionFailed(why) => Some(why),
            _ => None,
        }
    }
}

tidegate_core::debug_as_display!(TlsError);
