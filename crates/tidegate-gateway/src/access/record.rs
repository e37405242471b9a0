//! What a line of the access log says about a request.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::config::Share;
use crate::config::types::Log;

/// How a request ended. Each outcome has a share of its own that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The response of the upstream, or of the route itself.
    Success,
    /// The gateway refused the request.
    Refused,
    /// The request failed: the upstream, the time, or the client that has left.
    Failed,
}

impl Outcome {
    /// Returns the word of the outcome.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    /// Returns `true` if a share of such requests is logged.
    pub(crate) fn is_logged(self, settings: &Log) -> bool {
        self.share(settings).hundredths() > 0
    }

    /// Returns the share of such requests that is logged.
    pub(super) fn share(self, settings: &Log) -> Share {
        match self {
            Self::Success => settings.success,
            Self::Refused => settings.refused,
            Self::Failed => settings.failed,
        }
    }
}

/// A request that has ended. It has no fields of the request: they may contain secrets.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// When the head was received.
    pub at: SystemTime,
    /// The id of the request.
    pub id: &'a str,
    /// The address of the client. A Unix socket has none.
    pub client: Option<IpAddr>,
    /// The method.
    pub method: &'a str,
    /// The host, without a port.
    pub host: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// The query, which is logged only if the settings say so.
    pub query: Option<&'a str>,
    /// The status that was sent; 0 if none was.
    pub status: u16,
    /// The route, unless none takes the request.
    pub route: Option<&'a str>,
    /// The upstream, if the route has one.
    pub upstream: Option<&'a str>,
    /// The address of the server of the last attempt.
    pub server: Option<&'a str>,
    /// The number of attempts.
    pub attempts: u32,
    /// The time before the request was admitted.
    pub waiting: Duration,
    /// The time from the admission to the end.
    pub running: Duration,
    /// The time from the head to the end.
    pub total: Duration,
    /// The bytes of the body of the request.
    pub received: u64,
    /// The bytes of the body of the response.
    pub sent: u64,
    /// How the request ended.
    pub outcome: Outcome,
    /// Why it was refused or failed: the word that the client got.
    pub reason: Option<&'a str>,
    /// How the fallback ended, if the request had one: the client got its response, it failed, or its
    /// upstream admitted no more.
    pub fallback: Option<Outcome>,
    /// `true` if the response was cut: the client got its head, and not all of its body.
    pub cut: bool,
}

impl Default for Record<'_> {
    fn default() -> Self {
        Self {
            at: SystemTime::UNIX_EPOCH,
            id: "",
            client: None,
            method: "",
            host: "",
            path: "",
            query: None,
            status: 0,
            route: None,
            upstream: None,
            server: None,
            attempts: 0,
            waiting: Duration::ZERO,
            running: Duration::ZERO,
            total: Duration::ZERO,
            received: 0,
            sent: 0,
            outcome: Outcome::Success,
            reason: None,
            fallback: None,
            cut: false,
        }
    }
}

// Prints no query: it may contain secrets.
tidegate_core::debug_fields!(Record<'_>, this =>
    id: this.id, route: this.route, status: this.status, outcome: this.outcome);
