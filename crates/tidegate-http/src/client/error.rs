//! The error of a call.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_promise::Failure;

use crate::codec::{EncodeError, RefusalReason};

/// How far a call had got when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The request was being built.
    Request,
    /// The call waited for a connection, because the limit of the host was reached.
    Wait,
    /// A connection was being made: its name was resolved, an address was tried, or it was being
    /// encrypted.
    Connect,
    /// The request was sent, or the head of the response was outstanding.
    Head,
    /// The body of the response was received.
    Body,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "before it was sent",
            Self::Wait => "while it waited for a connection",
            Self::Connect => "while a connection was made",
            Self::Head => "before the head of the response was complete",
            Self::Body => "in the body of the response",
        })
    }
}

/// Which side is at fault if a call fails.
///
/// A gateway responds with 500, 502 or 504 for the server, and with 503 for the caller's own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// This program: the request is not valid, or one of its own limits was reached.
    Caller,
    /// The server: it was silent, ended the connection or violated the protocol.
    Server,
    /// One of both or the network between: no connection could be made.
    Network,
}

/// Why a call failed. The value in a [`Failure`], and the error of a
/// [`ResponseBody`](super::ResponseBody).
///
/// ```
/// use tidegate_http::client::{Client, ClientError, Phase};
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let client = Client::builder(&group).build();
/// let why = client.get("http:///no-host").send().wait().unwrap_err();
/// let why = why.failure().unwrap();
/// let why: &ClientError = why.downcast_ref().unwrap();
/// assert_eq!(why.phase(), Phase::Request);
/// assert!(!why.was_sent());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ClientError {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    /// Method and URL.
    call: String,
    kind: Kind,
    phase: Phase,
    sent: bool,
    answered: bool,
    retry: bool,
}

/// What happened.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Kind {
    #[error("the URL is not valid: {0}")]
    Url(&'static str),
    #[error("the request cannot be written: {0}")]
    Encode(#[source] EncodeError),
    #[error("the field `{0}` belongs to the connection; the client sets it")]
    OwnField(String),
    #[error("{0}")]
    Unsupported(&'static str),
    #[error(
        "{0} calls wait for a connection to this host already; make fewer calls at once, or raise \
         `max_connections` or `max_waiting`"
    )]
    PoolFull(usize),
    #[error("there was no connection within {0:?}; make fewer calls at once, or raise the limits")]
    WaitTimeout(Duration),
    #[error("{0}")]
    Connect(#[source] Failure),
    #[error("the connection ended{}", because(.0.as_ref()))]
    Closed(#[source] Option<Failure>),
    #[error("the connection ended before the body was complete")]
    Truncated,
    #[error("the response violates the protocol: {0}")]
    BadResponse(#[source] RefusalReason),
    #[error("the response violates the protocol: {0}")]
    Unexpected(&'static str),
    #[error("the server sent nothing within {0:?}")]
    Timeout(Duration),
    #[error("the call took longer than {0:?}; raise its `timeout`, or look for a slow server")]
    CallTimeout(Duration),
    #[error("the body of the request was dropped before its end; call `finish`")]
    BodyDropped,
    #[error("the body is larger than {max} bytes; read it in pieces, or raise the limit")]
    TooLarge { max: usize },
}

fn because(why: Option<&Failure>) -> String {
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

impl ClientError {
    pub(super) fn new(call: &str, kind: Kind, phase: Phase, sent: bool, retry: bool) -> Self {
        Self {
            inner: Arc::new(Inner {
                call: call.to_owned(),
                kind,
                phase,
                sent,
                answered: false,
                retry,
            }),
        }
    }

    /// Returns the error with this value of [`ClientError::was_answered`].
    pub(super) fn with_answered(mut self, answered: bool) -> Self {
        Arc::make_mut(&mut self.inner).answered = answered;
        self
    }

    /// Returns the error with this value of [`ClientError::is_safe_to_retry`].
    pub(super) fn with_retry(mut self, retry: bool) -> Self {
        if self.inner.retry != retry {
            Arc::make_mut(&mut self.inner).retry = retry;
        }
        self
    }

    #[cfg(test)]
    pub(super) fn kind(&self) -> &Kind {
        &self.inner.kind
    }

    /// Returns how far the call had got.
    pub fn phase(&self) -> Phase {
        self.inner.phase
    }

    /// Returns which side is at fault.
    pub fn side(&self) -> Side {
        match &self.inner.kind {
            Kind::Url(_) | Kind::Encode(_) | Kind::OwnField(_) | Kind::Unsupported(_) => {
                Side::Caller
            }
            Kind::PoolFull(_) | Kind::WaitTimeout(_) => Side::Caller,
            Kind::BodyDropped | Kind::TooLarge { .. } => Side::Caller,
            // The time was over before the server had the request.
            Kind::CallTimeout(_) if !self.inner.sent => Side::Caller,
            Kind::Connect(_) if self.is_out_of_descriptors() => Side::Caller,
            Kind::Connect(_) => Side::Network,
            Kind::Closed(_)
            | Kind::Truncated
            | Kind::BadResponse(_)
            | Kind::Unexpected(_)
            | Kind::Timeout(_)
            | Kind::CallTimeout(_) => Side::Server,
        }
    }

    /// Returns `true` if a limit of time has passed.
    pub fn is_timeout(&self) -> bool {
        use Kind::{CallTimeout, Timeout, WaitTimeout};
        match &self.inner.kind {
            Kind::Connect(why) => is_connect_timeout(why) || is_handshake_timeout(why),
            kind => matches!(kind, Timeout(_) | CallTimeout(_) | WaitTimeout(_)),
        }
    }

    /// Returns `true` if no connection could be made: the name does not resolve, no address accepts a
    /// connection, or the certificate is not accepted.
    pub fn is_connect(&self) -> bool {
        matches!(self.inner.kind, Kind::Connect(_))
    }

    /// Returns `true` if no connection could be made because this process or its system had no
    /// descriptors left. It says nothing about the server, and another one is no more help.
    pub fn is_out_of_descriptors(&self) -> bool {
        let Kind::Connect(why) = &self.inner.kind else {
            return false;
        };
        tidegate_net::NetError::is_out_of_descriptors(why)
    }

    /// Returns `true` if the connection ended before the response did.
    pub fn is_closed(&self) -> bool {
        matches!(self.inner.kind, Kind::Closed(_) | Kind::Truncated)
    }

    /// Returns `true` if the client did not try, because too many calls wait for this host.
    pub fn is_refused(&self) -> bool {
        matches!(self.inner.kind, Kind::PoolFull(_))
    }

    /// Returns `true` if the server sent something that is not a response to the request.
    pub fn is_bad_response(&self) -> bool {
        matches!(self.inner.kind, Kind::BadResponse(_) | Kind::Unexpected(_))
    }

    /// Returns `true` if the call itself is at fault: it cannot succeed as it is.
    pub fn is_bad_request(&self) -> bool {
        use Kind::{Encode, OwnField, Unsupported, Url};
        matches!(
            self.inner.kind,
            Url(_) | Encode(_) | OwnField(_) | Unsupported(_)
        )
    }

    /// Returns `true` if a byte of the request may have reached the server.
    pub fn was_sent(&self) -> bool {
        self.inner.sent
    }

    /// Returns `true` if a byte of the response was received, be it of an interim head such as 103.
    pub fn was_answered(&self) -> bool {
        self.inner.answered
    }

    /// Returns `true` if the request can be sent again without the risk that the server carries it
    /// out twice: nothing was sent, or a connection that was used before ended without a byte of the
    /// response and the method is idempotent. The client has made one new attempt in these cases.
    pub fn is_safe_to_retry(&self) -> bool {
        self.inner.retry
    }
}

/// Returns `true` if resolving the name, or a connect, took too long.
fn is_connect_timeout(why: &Failure) -> bool {
    use tidegate_net::NetError::{ConnectTimeout, ResolveTimeout};
    matches!(
        why.downcast_ref(),
        Some(ConnectTimeout { .. } | ResolveTimeout { .. })
    )
}

#[cfg(feature = "tls")]
fn is_handshake_timeout(why: &Failure) -> bool {
    use tidegate_net::tls::TlsError::{ConnectTimeout, HandshakeTimeout};
    matches!(
        why.downcast_ref(),
        Some(HandshakeTimeout(_) | ConnectTimeout(_))
    )
}

#[cfg(not(feature = "tls"))]
fn is_handshake_timeout(_: &Failure) -> bool {
    false
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            call, kind, phase, ..
        } = &*self.inner;
        let sent = match self.inner.sent {
            true => "the request was sent",
            false => "nothing was sent",
        };
        write!(f, "{call} failed {phase}: {kind}; {sent}")
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.inner.kind.source()
    }
}

tidegate_core::debug_as_display!(ClientError);
