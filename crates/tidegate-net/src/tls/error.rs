//! The errors of TLS.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The error of a TLS connection or configuration. A [`Tls`](super::Tls) handler fires it as an
/// error event, and invalid certificates are refused with it.
///
/// ```
/// use tidegate_net::tls::{TlsError, TlsServer};
///
/// let why = TlsServer::from_pem(b"no certificate", b"no key").unwrap_err();
/// assert!(matches!(why, TlsError::BadIdentity(_)));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum TlsError {
    /// Certificates or a key that cannot be used, with the reason.
    BadIdentity(String),
    /// Root certificates that cannot be used, with the reason.
    BadRoots(String),
    /// The name is not a valid server name.
    BadName(String),
    /// The handshake failed: an unacceptable certificate, no common protocol, or bytes that are not
    /// TLS.
    Handshake(rustls::Error),
    /// The handshake took too long.
    HandshakeTimeout(Duration),
    /// The peer closed the connection before the handshake was done.
    EndedInHandshake,
    /// The connection failed after the handshake, for example because of a corrupt record.
    Broken(rustls::Error),
    /// The peer closed the connection without a `close_notify`, so the received data may be
    /// incomplete.
    Truncated,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadIdentity(why) => write!(f, "these certificates cannot be shown: {why}"),
            Self::BadRoots(why) => write!(f, "these certificates cannot be trusted: {why}"),
            Self::BadName(name) => write!(f, "`{name}` is not the name of a server"),
            Self::Handshake(_) => f.write_str("the TLS handshake failed"),
            Self::HandshakeTimeout(after) => write!(f, "no TLS handshake after {after:?}"),
            Self::EndedInHandshake => {
                f.write_str("the peer ended the connection while shaking hands")
            }
            Self::Broken(_) => f.write_str("the TLS connection is broken"),
            Self::Truncated => f.write_str(
                "the peer ended the connection without a close_notify; what came may be cut short",
            ),
        }?;
        match self {
            Self::Handshake(why) | Self::Broken(why) => write!(f, ": {why}"),
            _ => Ok(()),
        }
    }
}

tidegate_core::debug_as_display!(TlsError);

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Handshake(why) | Self::Broken(why) => Some(why),
            _ => None,
        }
    }
}
