//! What goes wrong on a connection, who caused it, and how it is reported.
//!
//! Each kind is counted each time, and reported at most once a second with the number left out: an
//! attack must not fill the log.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::internal::trace::{self, EventLimit};
#[cfg(feature = "tls")]
use tidegate_net::tls::TlsError;
use tidegate_net::{HandlerContext, NetError};
use tidegate_promise::Failure;

use crate::codec::{EncodeError, RefusalReason};

/// The least time between two reports of one kind, in nanoseconds.
const SPACING: u64 = 1_000_000_000;

/// Who has to change something.
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
    const OTHERS: [Self; 9] = [
        Self::SlowReader,
        Self::Lost,
        Self::Dropped,
        Self::Panic,
        Self::MISTAKE,
        Self::Server,
        Self::Unanswered,
        Self::Handshake,
        Self::LateResponse,
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
        refused.chain(Self::OTHERS)
    }

    /// Returns the number of the kind.
    pub(crate) fn index(self) -> usize {
        let kind = match self {
            Self::Refused(reason) => return reason.index(),
            Self::Mistake(_) => Self::MISTAKE,
            other => other,
        };
        let place = Self::OTHERS.iter().position(|other| *other == kind);
        RefusalReason::ALL.len() + place.unwrap_or_default()
    }

    /// Returns the word that names the kind in counters.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Refused(reason) => reason.word(),
            Self::SlowReader => "slow_reader",
            Self::Lost => "lost",
            Self::Dropped => "dropped_response",
            Self::Panic => "panic",
            Self::Mistake(_) => "mistake",
            Self::Server => "server_error",
            Self::Unanswered => "unanswered",
            Self::Handshake => "failed_handshake",
            Self::LateResponse => "late_response",
        }
    }

    /// Returns who caused it.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Self::Refused(_) | Self::SlowReader | Self::Lost | Self::Handshake => Cause::Client,
            Self::Dropped
            | Self::LateResponse
            | Self::Unanswered
            | Self::Panic
            | Self::Mistake(_) => Cause::Service,
            Self::Server => Cause::Server,
        }
    }
}

/// Reports what goes wrong on the connections of one server.
#[derive(Debug)]
pub(crate) struct TroubleLog {
    limits: Box<[Limit]>,
}

/// The limit of the reports of one kind.
#[derive(Debug, Default)]
struct Limit {
    /// For events of `tracing`.
    events: EventLimit,
    /// The time from which the next report to the hook may pass.
    next: AtomicU64,
    left_out: AtomicU64,
}

impl Limit {
    /// Returns the number of reports left out since the last one, if one may pass now.
    fn pass(&self, now: u64) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(SPACING);
        let order = Ordering::Relaxed;
        let passes = now >= next
            && self
                .next
                .compare_exchange(next, after, order, order)
                .is_ok();
        if passes {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl Default for TroubleLog {
    fn default() -> Self {
        Self {
            limits: (0..Trouble::COUNT).map(|_| Limit::default()).collect(),
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
            return trace::refused(&limit.events, now, "http_server", &name, &what);
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

    #[test]
    fn one_report_passes_in_a_second_and_the_next_one_has_the_count() {
        let limit = Limit::default();
        assert_eq!(limit.pass(5), Some(0));
        assert_eq!(limit.pass(5), None);
        assert_eq!(limit.pass(SPACING), None);
        assert_eq!(limit.pass(SPACING + 5), Some(2));
        assert_eq!(limit.pass(9 * SPACING), Some(0));
    }
}
