//! How a request ended: its line in the access log, and its count. [`log`] writes each line, and nothing
//! else does.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::http::codec::RequestHead;

use super::gate::Gate;
use super::step::{Reply, Request};
use super::times::Times;
use crate::access::{Outcome, Record};
use crate::command::Reason;
use crate::config::types::Log;
use crate::route::without_port;

/// What a request has done when it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) attempts: u32,
    /// What the fallback replaces, if the request has one that has begun.
    pub(super) fell_back: Option<Reason>,
    /// How the fallback ended. That of a request that still runs has not ended, unless it was refused.
    pub(super) fallback: Option<Outcome>,
    pub(super) times: Times,
    /// The bytes of both bodies.
    pub(super) received: u64,
    pub(super) sent: u64,
    /// The status that was sent; 0 if none was.
    pub(super) status: u16,
    /// All of the response was sent.
    pub(super) is_whole: bool,
}

impl Done {
    /// Returns what a request has done to which the gateway itself responds.
    pub(super) fn began(began: u64) -> Self {
        Self {
            attempts: 0,
            fell_back: None,
            fallback: None,
            times: Times {
                began,
                ..Times::default()
            },
            received: 0,
            sent: 0,
            status: 0,
            is_whole: true,
        }
    }

    /// Returns what a request has done up to now that is passed on.
    pub(super) fn of(request: &Request) -> Self {
        let (received, sent) = request.bytes();
        Self {
            attempts: request.tried(),
            fell_back: request.fell_back(),
            fallback: request
                .was_refused_by_fallback()
                .then_some(Outcome::Refused),
            times: *request.times(),
            received,
            sent,
            status: request.status(),
            is_whole: request.reply() == Reply::Sent,
        }
    }
}

/// The host and the path that a client has sent, in one text.
pub(super) struct Original {
    text: Box<str>,
    path_at: usize,
}

impl Original {
    pub(super) fn new(host: &str, path: &str) -> Self {
        let text = [host, path].concat();
        Self {
            text: text.into_boxed_str(),
            path_at: host.len(),
        }
    }

    /// Returns the host and the path.
    pub(super) fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.path_at)
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// With the response of its upstream.
    Served,
    /// With the response of the route itself.
    Local(u16),
    /// With a refusal or a failure. The status is that of a response that had not begun.
    Problem(Reason, u16),
    /// Refused because of what the client sent.
    Refused(&'static str, u16),
    /// The client has left.
    ClientLeft,
    /// The gateway has cut the connection of the client: at its own end, or because the client took
    /// nothing.
    Cut(Reason),
}

impl End {
    /// Returns why a connection of a client on loop `home` has ended, if the client has its response
    /// not or not as a whole.
    pub(super) fn left(gate: &Gate, home: usize) -> Self {
        match gate.cuts(home) {
            true => Self::Cut(Reason::Closing),
            false => Self::ClientLeft,
        }
    }

    /// Returns the status of a response of the gateway itself; 0 if there is none.
    pub(super) fn status(self) -> u16 {
        match self {
            Self::Local(status) | Self::Problem(_, status) | Self::Refused(_, status) => status,
            Self::Served | Self::ClientLeft | Self::Cut(_) => 0,
        }
    }
}

/// Returns how much of a body of this length the client gets, in a response of the gateway itself.
pub(super) fn own_length(method: &str, status: u16, length: usize) -> u64 {
    match (method, status) {
        ("HEAD", _) | (_, 204 | 205 | 304) => 0,
        _ => length as u64,
    }
}

/// The problems of a route since the start, by reason.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; Reason::ALL.len()]);

impl Counts {
    pub(super) fn add(&self, reason: Reason) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the reasons that have occurred, and how often.
    pub(crate) fn get(&self) -> impl Iterator<Item = (Reason, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        let all = Reason::ALL.into_iter().zip(counts);
        all.filter(|(_, count)| *count > 0)
    }
}

/// The id of a request, and the parts that the log shows as the client sent them. Of a request whose
/// head is refused at most the method is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen<'a> {
    pub(super) id: &'a str,
    pub(super) client: Option<IpAddr>,
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(head: &RequestHead<'a>, client: Option<IpAddr>, id: &'a str) -> Self {
        Self {
            id,
            client,
            method: head.method().as_str(),
            host: without_port(head.authority().unwrap_or_default()),
            path: head.path(),
            query: head.query(),
        }
    }
}

/// The upstream and the server of a request that was passed on.
pub(super) struct Passed<'a> {
    pub(super) upstream: &'a str,
    pub(super) server: Option<&'a str>,
}

/// What a line says besides how the request ended: what the client sent, the route, the server.
type About<'a> = (Seen<'a>, Option<&'a str>, Option<Passed<'a>>);

/// Returns `true` if a share of the requests is logged that an upstream has served with this status.
#[inline]
pub(super) fn logs_served(gate: &Gate, settings: &Log, status: u16) -> bool {
    gate.reports.log.is_some() && served(status).is_logged(settings)
}

/// Logs a request to which the gateway itself has responded, on loop `home`.
pub(super) fn log_local(
    (gate, settings): (&Gate, &Log),
    (home, began): (usize, u64),
    seen: Seen<'_>,
    route: Option<&str>,
    (end, fallback, sent): (End, bool, usize),
) {
    let fell_back = match end {
        End::Problem(reason, _) if fallback => Some(reason),
        _ => None,
    };
    let done = Done {
        fell_back,
        fallback: fell_back.map(|_| Outcome::Success),
        sent: own_length(seen.method, end.status(), sent),
        ..Done::began(began)
    };
    log(gate, settings, home, done, end, || (seen, route, None));
}

/// Writes a line, if its outcome is logged.
pub(super) fn log<'a>(
    gate: &Gate,
    settings: &Log,
    home: usize,
    done: Done,
    end: End,
    about: impl FnOnce() -> About<'a>,
) {
    let Some(log) = &gate.reports.log else { return };
    let (outcome, reason) = outcome(&done, end);
    if !outcome.is_logged(settings) {
        return;
    }
    let times = &done.times;
    let between = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
    let now = gate.now(home);
    let total = between(times.began, now);
    let waiting = times
        .first
        .map_or(total, |first| between(times.began, first));
    let status = match end {
        _ if done.status == 0 => end.status(),
        _ => done.status,
    };
    let wall = (gate.reports.wall)();
    let (seen, route, passed) = about();
    let record = Record {
        id: seen.id,
        client: seen.client,
        method: seen.method,
        host: seen.host,
        path: seen.path,
        query: seen.query,
        route,
        upstream: passed.as_ref().map(|passed| passed.upstream),
        server: passed.and_then(|passed| passed.server),
        at: wall.checked_sub(total).unwrap_or(wall),
        status,
        attempts: done.attempts,
        waiting,
        running: total.saturating_sub(waiting),
        total,
        received: done.received,
        sent: done.sent,
        outcome,
        reason,
        fallback: done.fallback,
        cut: done.status > 0 && !done.is_whole,
    };
    log.record(home, settings, &record);
}

/// Returns the outcome of a request, and the word of the reason.
fn outcome(done: &Done, end: End) -> (Outcome, Option<&'static str>) {
    let problem = |reason: Reason| match reason.is_refusal() {
        true => (Outcome::Refused, Some(reason.word())),
        false => (Outcome::Failed, Some(reason.word())),
    };
    // The response of a fallback has the outcome of what it replaces.
    let responded = || done.fell_back.map_or((served(done.status), None), problem);
    match end {
        // The client has all of it: what happens to the connection later says nothing.
        _ if done.status > 0 && done.is_whole => responded(),
        End::Served => responded(),
        End::Local(_) => (Outcome::Success, None),
        End::Problem(reason, _) => problem(reason),
        End::Refused(word, _) => (Outcome::Refused, Some(word)),
        End::ClientLeft => (Outcome::Failed, Some("client_left")),
        End::Cut(reason) => (Outcome::Failed, Some(reason.word())),
    }
}

/// A response of 500 and above is a failure for the breaker, and so it is for the log.
fn served(status: u16) -> Outcome {
    match status {
        500.. => Outcome::Failed,
        _ => Outcome::Success,
    }
}
