//! What can go wrong with TLS, as values.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What went wrong with encryption: the error event of a [`Tls`](super::Tls) handler, and what a
/// bad certificate is answered with.
///
/// ```
/// use tidegate_net::handlers::{TlsError, TlsServer};
///
/// let why = TlsServer::from_pem(b"no certificate", b"no key").unwrap_err();
/// assert!(matches!(why, TlsError::BadIdentity(_)));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum TlsError {
    /// Certificates or a key that cannot be used; says why.
    BadIdentity(String),
    /// Certificates to trust that cannot be used; says why.
    BadRoots(String),
    /// Not the name of a server.
    BadName(String),
    /// The two sides did not come to terms: a certificate that does not fit, no protocol in
    /// common, or bytes that are no TLS.
    Handshake(rustls::Error),
    /// The handshake took too long.
    HandshakeTimeout(Duration),
    /// The peer went away before the handshake was done.
    EndedInHandshake,
    /// Bytes that cannot be what the peer sent.
    Broken(rustls::Error),
    /// The peer ended the connection without saying so: what came may be cut short.
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
