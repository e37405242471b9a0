//! What goes wrong on a connection, who caused it, and how it is reported.
//!
//! Each kind is counted each time, and reported at most once a second with the number left out: an
//! attack must not fill the log.

use std::fmt;
use std::io;

use tidegate_core::internal::trace::{self, EventLimit};
#[cfg(feature = "tls")]
use tidegate_net::tls::TlsError;
use tidegate_net::{HandlerContext, NetError};
use tidegate_promise::Failure;

use crate::codec::{EncodeError, RefusalReason};

/// The side that has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Client,
    Service,
    Server,
}

impl Cause {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Service => "service",
            Self::Server => "server",
        }
    }
}

/// Something that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// A request that is malformed, too large or too late.
    #[error("the client sent a request that was refused with status {status}: {0}", status = .0.status())]
    Refused(RefusalReason),
    /// The client takes no byte of its response.
    #[error("the client took no byte of its response for too long; its connection was closed")]
    SlowReader,
    /// The connection was reset.
    #[error("the client reset its connection")]
    Lost,
    /// A handler in front of HTTP failed.
    #[error("the client failed before HTTP began, for example in the TLS handshake")]
    Handshake,
    /// A response that was dropped: before its head, or in the middle of its body.
    #[error(
        "the service dropped its response before its end; the client got status 500, or its connection \
         was closed"
    )]
    Dropped,
    /// A deferred response that did not come in time.
    #[error("the service did not begin its response in time; the client got status 503")]
    LateResponse,
    /// Requests behind a response that ended the connection.
    #[error(
        "the service ended a connection with a response in the middle; requests behind it got none"
    )]
    Unanswered,
    #[error("the service panicked; the client got status 500, unless it had its response")]
    Panic,
    #[error("the service made a response that cannot be sent: {0}")]
    Mistake(EncodeError),
    #[error("the server closed a connection because of an error")]
    Server,
}

impl Trouble {
    /// A mistake of any kind: they share one counter.
    pub(crate) const MISTAKE: Self = Self::Mistake(EncodeError::Switch);
    const OTHERS: [(Self, Cause, &str); 9] = [
        (Self::SlowReader, Cause::Client, "slow_reader"),
        (Self::Lost, Cause::Client, "lost"),
        (Self::Dropped, Cause::Service, "dropped_response"),
        (Self::Panic, Cause::Service, "panic"),
        (Self::MISTAKE, Cause::Service, "mistake"),
        (Self::Server, Cause::Server, "server_error"),
        (Self::Unanswered, Cause::Service, "unanswered"),
        (Self::Handshake, Cause::Client, "failed_handshake"),
        (Self::LateResponse, Cause::Service, "late_response"),
    ];
    /// The number of kinds.
    pub(crate) const COUNT: usize = RefusalReason::ALL.len() + Self::OTHERS.len();

    /// Returns the kind of an error that a handler in front of HTTP, or the socket, has reported.
    pub(crate) fn of(why: &Failure) -> Self {
        if why.downcast_ref::<io::Error>().is_some() {
            return Self::Lost;
        }
        #[cfg(feature = "tls")]
        if let Some(why) = why.downcast_ref::<TlsError>() {
            return match why {
                // Many clients end so, and checks of a balancer before the handshake.
                TlsError::Truncated | TlsError::ClosedInHandshake => Self::Lost,
                _ => Self::Handshake,
            };
        }
        match why.downcast_ref::<NetError>() {
            Some(NetError::ProtocolViolation(_)) => Self::Handshake,
            _ => Self::Server,
        }
    }

    /// Returns one of each kind, in the order of [`Trouble::index`].
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let refused = RefusalReason::ALL.iter().copied().map(Self::Refused);
        refused.chain(Self::OTHERS.map(|(other, ..)| other))
    }

    /// Returns the number of the kind.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Refused(reason) => reason.index(),
            other => RefusalReason::ALL.len() + other.place(),
        }
    }

    /// Returns the place of a kind that is no refusal.
    fn place(self) -> usize {
        let kind = match self {
            Self::Mistake(_) => Self::MISTAKE,
            other => other,
        };
        let place = Self::OTHERS.iter().position(|(other, ..)| *other == kind);
        place.unwrap_or_default()
    }

    /// Returns the word that names the kind in counters.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Refused(reason) => reason.word(),
            other => Self::OTHERS[other.place()].2,
        }
    }

    /// Returns who caused it.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Self::Refused(_) => Cause::Client,
            other => Self::OTHERS[other.place()].1,
        }
    }
}

/// Reports what goes wrong on the connections of one server.
#[derive(Debug)]
pub(crate) struct TroubleLog {
    limits: Box<[EventLimit]>,
}

impl Default for TroubleLog {
    fn default() -> Self {
        Self {
            limits: (0..Trouble::COUNT).map(|_| EventLimit::default()).collect(),
        }
    }
}

impl TroubleLog {
    /// Reports `what`, unless another of its kind was reported in the last second. What a client
    /// causes is an event of `tracing` if that is in use. Everything else goes to the hook for
    /// unhandled errors, with `detail`.
    #[cold]
    pub(crate) fn report(
        &self,
        what: Trouble,
        detail: Option<&dyn fmt::Display>,
        now: u64,
        ctx: &HandlerContext<'_>,
    ) {
        let limit = &self.limits[what.index()];
        if what.cause() == Cause::Client && trace::is_on() {
            let address = ctx.channel().local_addr();
            let name = address.map_or_else(String::new, |address| address.to_string());
            return trace::refused(limit, now, "http_server", &name, &what);
        }
        if let Some(left_out) = limit.pass(now) {
            let detail = detail.map(|detail| format!(": {detail}"));
            let detail = detail.unwrap_or_default();
            let more = match left_out {
                0 => String::new(),
                1 => "; 1 more of this kind was left out".to_owned(),
                many => format!("; {many} more of this kind were left out"),
            };
            let server = ctx.channel().local_addr();
            let server = server.map(|address| format!("; the server is {address}"));
            let server = server.unwrap_or_default();
            ctx.report(&Failure::new(format!("{what}{detail}{more}{server}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_at_its_index_and_has_its_own_word() {
        let all: Vec<_> = Trouble::all().collect();
        assert_eq!(all.len(), Trouble::COUNT);
        for (at, what) in all.iter().enumerate() {
            assert_eq!(what.index(), at, "{what}");
            let same = all.iter().filter(|other| other.word() == what.word());
            assert_eq!(same.count(), 1, "{what}");
        }
    }

    #[test]
    fn the_text_names_who_caused_it() {
        for what in Trouble::all() {
            let subject = format!("the {} ", what.cause().word());
            assert!(what.to_string().starts_with(&subject), "{what}");
        }
    }
}
