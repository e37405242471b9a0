//! Why a request was refused or failed: one word for the client, the log and the metrics.

use std::convert::Infallible;
use std::time::Duration;

use tidegate::http::client::ClientError;
use tidegate::isolate::{Cause, CommandError, Rejection};

/// Why the gateway did not pass on a response of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The limit of the route is reached, and its queue if it has one.
    Limit,
    /// The breaker of the route is open.
    Breaker,
    /// The rate limit of the route is reached.
    Rate,
    /// No server of the upstream is up and has a place.
    NoServer,
    /// The gateway is ending.
    Closing,
    /// The gateway had no descriptor for a connection to the server.
    Descriptors,
    /// The time of the route is over.
    Timeout,
    /// No connection to the server could be made.
    Connect,
    /// The server has ended the connection.
    Closed,
    /// The server sent something that is not a response.
    BadResponse,
    /// The gateway itself failed.
    Internal,
    /// The client took no byte of its response in time.
    SlowReader,
}

impl Reason {
    /// All reasons, in their order.
    pub(crate) const ALL: [Self; 12] = [
        Self::Limit,
        Self::Breaker,
        Self::Rate,
        Self::NoServer,
        Self::Closing,
        Self::Descriptors,
        Self::Timeout,
        Self::Connect,
        Self::Closed,
        Self::BadResponse,
        Self::Internal,
        Self::SlowReader,
    ];

    /// Returns the word of the reason.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Breaker => "breaker",
            Self::Rate => "rate",
            Self::NoServer => "no_server",
            Self::Closing => "closing",
            Self::Descriptors => "descriptors",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Closed => "closed",
            Self::BadResponse => "bad_response",
            Self::Internal => "internal",
            Self::SlowReader => "slow_reader",
        }
    }

    /// Returns the status of the response.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Limit | Self::Breaker | Self::Rate => 503,
            Self::NoServer | Self::Closing | Self::Descriptors => 503,
            Self::Timeout => 504,
            Self::Connect | Self::Closed | Self::BadResponse => 502,
            Self::Internal => 500,
            // Nothing can be sent to such a client.
            Self::SlowReader => 0,
        }
    }

    /// Returns `true` if the request was refused before it was sent anywhere.
    pub(crate) const fn is_refusal(self) -> bool {
        self.status() == 503
    }

    /// Returns the name of the field that says the reason.
    pub(crate) const fn field(self) -> &'static str {
        match self.is_refusal() {
            true => Self::REFUSED,
            false => Self::FAILED,
        }
    }

    /// The field that says why a request was refused, and the one that says why it has failed.
    pub(crate) const REFUSED: &'static str = "Tidegate-Refused";
    pub(crate) const FAILED: &'static str = "Tidegate-Failed";
}

/// A reason, and when the client may come back, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) retry_after: Option<Duration>,
}

impl From<Reason> for Problem {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            retry_after: None,
        }
    }
}

impl From<&CommandError<Infallible>> for Problem {
    fn from(error: &CommandError<Infallible>) -> Self {
        let reason = match error.cause() {
            Cause::ShortCircuited(_) => Reason::Breaker,
            Cause::Rejected(Rejection::Rate(_)) => Reason::Rate,
            Cause::Rejected(Rejection::Closed) | Cause::Cancelled => Reason::Closing,
            Cause::Rejected(_) => Reason::Limit,
            Cause::TimedOut(_) => Reason::Timeout,
            _ => Reason::Internal,
        };
        Self {
            reason,
            retry_after: error.retry_after(),
        }
    }
}

impl From<&ClientError> for Reason {
    fn from(why: &ClientError) -> Self {
        if why.is_timeout() {
            Self::Timeout
        } else if why.is_out_of_descriptors() {
            Self::Descriptors
        } else if why.is_connect() {
            Self::Connect
        } else if why.is_bad_response() {
            Self::BadResponse
        } else if why.is_refused() {
            Self::NoServer
        } else if why.is_bad_request() {
            Self::Internal
        } else {
            Self::Closed
        }
    }
}

#[cfg(test)]
mod tests {
    //! One row for each cause.

    use super::*;

    #[test]
    fn each_cause_of_a_command_has_a_word_and_a_status() {
        let second = Duration::from_secs(1);
        let rows = [
            (Cause::Rejected(Rejection::Permits), "limit", 503, None),
            (
                Cause::ShortCircuited(Some(second)),
                "breaker",
                503,
                Some(second),
            ),
            (
                Cause::Rejected(Rejection::Rate(second)),
                "rate",
                503,
                Some(second),
            ),
            (Cause::Rejected(Rejection::Closed), "closing", 503, None),
            (Cause::TimedOut(second), "timeout", 504, None),
        ];
        for (cause, word, status, after) in rows {
            let problem = Problem::from(&CommandError::new("r", cause));
            assert_eq!(problem.reason.word(), word);
            assert_eq!(problem.reason.status(), status, "{word}");
            assert_eq!(problem.retry_after, after, "{word}");
        }
    }

    #[test]
    fn all_reasons_are_at_their_positions() {
        for (position, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, position, "{}", reason.word());
        }
    }

    #[test]
    fn refusals_and_failures_have_fields_of_their_own() {
        assert_eq!(Reason::Limit.field(), "Tidegate-Refused");
        assert_eq!(Reason::NoServer.field(), "Tidegate-Refused");
        assert_eq!(Reason::Descriptors.field(), "Tidegate-Refused");
        assert_eq!(Reason::Closed.field(), "Tidegate-Failed");
        assert_eq!(Reason::Timeout.field(), "Tidegate-Failed");
    }
}
