//! The errors of TLS.

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
#[derive(Clone, tidegate_macros::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Certificates or a key that cannot be used, with the reason.
    #[error("the certificates or the key cannot be used: {0}")]
    InvalidIdentity(String),
    /// Root certificates that cannot be used, with the reason.
    #[error("the root certificates cannot be used: {0}")]
    InvalidRoots(String),
    /// The name is not a valid server name.
    #[error("`{0}` is not the name of a server; give a host name or an address")]
    InvalidName(String),
    /// The handshake failed: an unacceptable certificate, no common protocol, or bytes that are not
    /// TLS.
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[source] rustls::Error),
    /// The handshake was not done within the handshake timeout, which is given here.
    #[error(
        "the TLS handshake took longer than {0:?}; check the peer, or raise `handshake_timeout`"
    )]
    HandshakeTimeout(Duration),
    /// The peer closed the connection before the handshake was done.
    #[error("the peer closed the connection during the TLS handshake")]
    ClosedInHandshake,
    /// The connection failed after the handshake, for example because of a corrupt record.
    #[error("the TLS connection failed: {0}")]
    ConnectionFailed(#[source] rustls::Error),
    /// The peer closed the connection without a `close_notify`, so the received data may be
    /// incomplete.
    #[error(
        "the peer closed the connection without a close_notify; what was received may be incomplete"
    )]
    Truncated,
}

tidegate_core::debug_as_display!(TlsError);
