//! Why an exchange on a connection failed.

use std::sync::Arc;

use tidegate_promise::Failure;

use super::error::{ClientError, Kind, Phase};

/// What an error says about the request of an exchange.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Method and URL; `None` if the label of the connection's slot stands for them.
    pub(super) label: Option<Arc<str>>,
    /// The server may carry the request out twice.
    pub(super) idempotent: bool,
}

impl Terms {
    /// Returns the error of an exchange that could not begin, on a connection with this label.
    pub(super) fn not_begun(&self, connection: &str) -> ClientError {
        let label = self.label.as_deref().unwrap_or(connection);
        ClientError::new(label, Kind::Closed(None), Phase::Head, false, true)
    }

    /// Returns the error of an exchange that failed, on a connection with this label.
    pub(super) fn failed(&self, connection: &str, why: ExchangeError) -> ClientError {
        let label = self.label.as_deref().unwrap_or(connection);
        let (sent, safe) = (why.was_sent(), why.is_safe(self.idempotent));
        let phase = match why.in_body {
            true => Phase::Body,
            false if matches!(why.cause, Kind::Connect(_)) => Phase::Connect,
            false => Phase::Head,
        };
        let responded = why.responded;
        ClientError::new(label, why.cause, phase, sent, safe).with_answered(responded)
    }
}

/// Why an exchange failed, and how far it got.
#[derive(Clone, Debug)]
pub(super) struct ExchangeError {
    pub(super) cause: Kind,
    /// A byte of the request may have reached the server.
    pub(super) sent: bool,
    /// A byte of the response was received.
    pub(super) responded: bool,
    /// The connection was used before.
    pub(super) reused: bool,
    /// The final head was received.
    pub(super) in_body: bool,
}

impl ExchangeError {
    /// Returns `true` if a byte of the request may have reached the server.
    fn was_sent(&self) -> bool {
        self.sent && !matches!(self.cause, Kind::Connect(_))
    }

    /// Returns `true` if the server cannot have carried the request out, or if that may happen
    /// twice: nothing was sent, or a connection that was used before has ended without a response.
    fn is_safe(&self, repeatable: bool) -> bool {
        let unanswered = self.reused && !self.responded && repeatable;
        let ended = matches!(self.cause, Kind::Closed(_) | Kind::Connect(_));
        ended && (!self.was_sent() || unanswered)
    }
}

impl Kind {
    /// Returns the failure of a connection that ended. No request was sent on one that could not be
    /// encrypted.
    pub(super) fn closed(why: Failure) -> Self {
        match is_handshake(&why) {
            true => Self::Connect(why),
            false => Self::Closed(Some(why)),
        }
    }

    /// Returns the failure of a response that changes the protocol and should not. It came before the
    /// request was complete, or it does not name the new protocol, or there was no wish for one.
    pub(super) fn switched(complete: bool, unnamed: bool) -> Self {
        Self::Unexpected(match (complete, unnamed) {
            (false, _) => "it changed the protocol before it had the whole request",
            (_, true) => "it changed the protocol without a field `Upgrade` that names the new one",
            _ => "it changed the protocol, which the request did not ask for",
        })
    }
}

/// Returns `true` if a connection ended because it could not be encrypted: no request was sent.
fn is_handshake(why: &Failure) -> bool {
    #[cfg(feature = "tls")]
    {
        use tidegate_net::tls::TlsError::{
            ClosedInHandshake, ConnectTimeout, Handshake, HandshakeTimeout,
        };
        let why = why.downcast_ref();
        matches!(
            why,
            Some(Handshake(_) | HandshakeTimeout(_) | ConnectTimeout(_) | ClosedInHandshake)
        )
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = why;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_is_safe_to_repeat_if_it_was_not_sent_or_not_answered() {
        for bits in 0..16_u8 {
            let [sent, responded, reused, idempotent] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let terms = Terms {
                label: responded.then(|| Arc::from("GET http://a/")),
                idempotent,
            };
            let failed = |cause, in_body| {
                let why = ExchangeError {
                    cause,
                    sent,
                    responded,
                    reused,
                    in_body,
                };
                terms.failed("a request to b", why)
            };
            let why = failed(Kind::Closed(None), responded);
            let safe = !sent || reused && !responded && idempotent;
            assert_eq!((why.was_sent(), why.is_safe_to_retry()), (sent, safe));
            assert_eq!(why.was_answered(), responded);
            let label = if responded {
                "GET http://a/"
            } else {
                "a request to b"
            };
            assert!(why.to_string().starts_with(label), "{why}");
            let phase = if responded { Phase::Body } else { Phase::Head };
            assert_eq!(why.phase(), phase);
            assert!(why.is_closed());
            let slow = failed(Kind::Timeout(Duration::from_secs(1)), false);
            assert!(slow.is_timeout() && !slow.is_safe_to_retry());
        }
    }
}
