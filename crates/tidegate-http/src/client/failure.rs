//! Why an exchange on a connection failed.

use std::time::Duration;

use tidegate_promise::Failure;

use super::error::Kind;
use crate::codec::RefusalReason;

/// Why an exchange failed, and how far it got.
#[derive(Clone, Debug)]
pub(super) struct ExchangeError {
    pub(super) cause: ExchangeFailure,
    /// A byte of the request may have reached the server.
    pub(super) sent: bool,
    /// A byte of the response was received.
    pub(super) responded: bool,
    /// The connection was used before.
    pub(super) reused: bool,
}

impl ExchangeError {
    /// Returns the error of an exchange that could not begin.
    pub(super) fn not_begun(reused: bool) -> Self {
        Self {
            cause: ExchangeFailure::Closed(None),
            sent: false,
            responded: false,
            reused,
        }
    }

    /// Returns `true` if the connection ended because it could not be encrypted.
    pub(super) fn is_of_handshake(&self) -> bool {
        matches!(&self.cause, ExchangeFailure::Closed(Some(why)) if is_handshake(why))
    }

    /// Returns `true` if a byte of the request may have reached the server.
    pub(super) fn was_sent(&self) -> bool {
        self.sent && !self.is_of_handshake()
    }

    /// Returns `true` if the server cannot have carried the request out, or if that may happen
    /// twice: nothing was sent, or a connection that was used before has ended without a response.
    pub(super) fn is_safe(&self, repeatable: bool) -> bool {
        let unanswered = self.reused && !self.responded && repeatable;
        matches!(self.cause, ExchangeFailure::Closed(_)) && (!self.was_sent() || unanswered)
    }
}

#[derive(Clone, Debug)]
pub(super) enum ExchangeFailure {
    /// The connection ended; with the error, if there was one.
    Closed(Option<Failure>),
    /// The response ended before its body did.
    Truncated,
    /// The response violates the protocol.
    BadResponse(RefusalReason),
    /// The server changed the protocol without a request to do so, or sent too many interim heads.
    Unexpected(&'static str),
    HeadTimeout(Duration),
    BodyTimeout(Duration),
}

impl ExchangeFailure {
    /// Returns what a caller is told.
    pub(super) fn into_kind(self) -> Kind {
        match self {
            Self::Closed(Some(why)) if is_handshake(&why) => Kind::Connect(why),
            Self::Closed(why) => Kind::Closed(why),
            Self::Truncated => Kind::Truncated,
            Self::BadResponse(reason) => Kind::BadResponse(reason),
            Self::Unexpected(what) => Kind::Unexpected(what),
            Self::HeadTimeout(after) | Self::BodyTimeout(after) => Kind::Timeout(after),
        }
    }
}

/// Returns `true` if a connection ended because it could not be encrypted: no request was sent.
fn is_handshake(why: &Failure) -> bool {
    #[cfg(feature = "tls")]
    {
        use tidegate_net::tls::TlsError::{ClosedInHandshake, Handshake, HandshakeTimeout};
        let why = why.downcast_ref();
        matches!(
            why,
            Some(Handshake(_) | HandshakeTimeout(_) | ClosedInHandshake)
        )
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = why;
        false
    }
}
