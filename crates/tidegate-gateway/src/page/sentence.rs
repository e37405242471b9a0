//! One sentence per route: what holds it back now.
//!
//! The reasons are those of `Tidegate-Refused` and `Tidegate-Failed`. The sentence is about the one
//! with the most calls in the window; a state that refuses everything comes first.

use std::time::Duration;

use super::figures::{Counts, Figures};
use super::reports::{ServerReport, UpstreamReport};
use crate::command::Reason;

/// A limit that is in use to this share is nearly reached.
const NEARLY: f64 = 0.9;
/// A route of which a smaller share is refused or fails still does well.
const MUCH_PERCENT: u64 = 5;

/// How a route is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// It has no calls.
    Idle,
    /// Nothing holds it back.
    Ok,
    /// Something will hold it back soon, or holds back a little.
    Busy,
    /// Calls are refused or fail.
    Bad,
}

impl Level {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ok => "ok",
            Self::Busy => "busy",
            Self::Bad => "bad",
        }
    }
}

/// What holds a route back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) level: Level,
    /// Why most calls of those that are refused or fail do so, if that is known.
    pub(crate) reason: Option<Reason>,
    /// Whether most of them fail.
    pub(crate) is_failing: bool,
}

/// What is known besides the figures of the route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around<'a> {
    /// The upstream of the route.
    pub(crate) upstream: Option<&'a UpstreamReport>,
    /// Since when the reason has been the same, in milliseconds since 1970.
    pub(crate) since_ms: Option<u64>,
    /// The last move of the adaptive limit: from, to, why.
    pub(crate) moved: Option<(usize, usize, &'a str)>,
}

/// Decides how a route is doing.
pub(crate) fn verdict(figures: &Figures, upstream: Option<&UpstreamReport>) -> Verdict {
    let because = |level, reason| Verdict {
        level,
        reason: Some(reason),
        is_failing: false,
    };
    if figures.forced == 1 || (figures.forced == 0 && matches!(figures.breaker, Some(1 | 2))) {
        return because(Level::Bad, Reason::Breaker);
    }
    if is_without_server(upstream) {
        return because(Level::Bad, Reason::NoServer);
    }
    if figures.forced == 0 && figures.breaker == Some(3) {
        return because(Level::Busy, Reason::Breaker);
    }
    if let Some((reason, count)) = most(figures) {
        let calls = figures.window.calls();
        let level = match count * 100 {
            // It was open, and calls pass again.
            _ if reason == Some(Reason::Breaker) => Level::Busy,
            share if share >= calls * MUCH_PERCENT => Level::Bad,
            share if share < calls && !matches!(reason, Some(Reason::Limit | Reason::Rate)) => {
                Level::Ok
            }
            _ => Level::Busy,
        };
        return Verdict {
            level,
            reason,
            is_failing: true,
        };
    }
    let is_full = figures.waiting > 0 || figures.in_flight as f64 >= figures.limit as f64 * NEARLY;
    if figures.limit > 0 && is_full {
        return because(Level::Busy, Reason::Limit);
    }
    let level = match (figures.window.calls(), figures.overstaying, figures.forced) {
        (_, 0, 0) if figures.in_flight == 0 && figures.window.calls() == 0 => Level::Idle,
        (_, 0, 0) => Level::Ok,
        _ => Level::Busy,
    };
    Verdict {
        level,
        reason: None,
        is_failing: false,
    }
}

/// Returns the sentence of a verdict.
pub(crate) fn sentence(verdict: Verdict, figures: &Figures, around: Around<'_>) -> String {
    let since = around.since_ms.map(clock).unwrap_or_default();
    let since = match since.is_empty() {
        true => since,
        false => format!(" since {since}"),
    };
    match verdict.reason {
        Some(Reason::Breaker) => breaker(figures, &since),
        Some(Reason::NoServer) => no_server(around.upstream, &since),
        Some(Reason::Limit) => limit(figures, around, &since),
        Some(Reason::Rate) => format!(
            "refusing {}{since}: the rate limit is reached",
            share(figures.window.rate, &figures.window)
        ),
        Some(Reason::Timeout) => timeout(figures, around, &since),
        Some(reason) => format!(
            "{} fail{since}: {}",
            share(figures.window.failed, &figures.window),
            reason.word()
        ),
        None if verdict.is_failing => {
            let failed = share(figures.window.failed, &figures.window);
            format!("{failed} fail{since}")
        }
        None => quiet(verdict.level, figures),
    }
}

/// Returns the reason with the most calls, if it is known, and their number.
fn most(figures: &Figures) -> Option<(Option<Reason>, u64)> {
    let window = &figures.window;
    let reasons = [
        (Some(Reason::Limit), window.limit),
        (Some(Reason::Breaker), window.breaker),
        (Some(Reason::Rate), window.rate),
        (Some(Reason::Timeout), window.timeout),
        (why_failed(figures), window.failed),
    ];
    let found = reasons.into_iter().filter(|(_, count)| *count > 0);
    // The first one of equal ones.
    found.rev().max_by_key(|(_, count)| *count)
}

/// Returns why most calls fail, if the gateway has counted that.
fn why_failed(figures: &Figures) -> Option<Reason> {
    let failures = [Reason::Connect, Reason::Closed, Reason::BadResponse];
    let counted = |reason: &Reason| {
        let all = &figures.route.reasons;
        let found = all.iter().find(|(word, _)| *word == reason.word());
        found.map_or(0, |(_, count)| *count)
    };
    let most = failures.into_iter().max_by_key(|reason| counted(reason));
    most.filter(|reason| counted(reason) > 0)
}

fn is_without_server(upstream: Option<&UpstreamReport>) -> bool {
    upstream.is_some_and(|one| {
        !one.servers.is_empty() && !one.servers.iter().any(ServerReport::takes_requests)
    })
}

fn breaker(figures: &Figures, since: &str) -> String {
    let window = &figures.window;
    let refused = share(window.breaker, window);
    if figures.forced == 1 {
        return format!("refusing all requests{since}: an operator forces the breaker open");
    }
    let failed = window.failed + window.timeout;
    let why = match failed {
        0 => String::new(),
        _ => format!(", {failed} calls of the last seconds failed or timed out"),
    };
    match figures.breaker {
        Some(2) => format!("refusing {refused}{since}: the breaker probes whether calls work"),
        Some(3) => format!("the breaker lets a rising share of the calls pass{since}"),
        Some(1) => format!("refusing {refused}{since}: the breaker is open{why}"),
        _ => format!("refused {refused} until just now: the breaker was open{why}"),
    }
}

pub(super) fn no_server(upstream: Option<&UpstreamReport>, since: &str) -> String {
    let Some(upstream) = upstream else {
        return format!("refusing{since}: no server takes requests");
    };
    let count = |is: fn(&ServerReport) -> bool| {
        let servers = upstream.servers.iter();
        servers.filter(|server| is(server)).count()
    };
    let not_found = match count(|server| !server.is_found) {
        0 => String::new(),
        some => format!(", {some} not found"),
    };
    format!(
        "refusing all requests{since}: no server of {} takes requests ({} down, {} drained{not_found})",
        upstream.name,
        count(|server| !server.is_up && server.is_found),
        count(|server| server.is_draining)
    )
}

fn limit(figures: &Figures, around: Around<'_>, since: &str) -> String {
    let Figures {
        limit,
        in_flight,
        waiting,
        ..
    } = *figures;
    let refused = figures.window.limit;
    let mut text = match (refused, waiting) {
        (0, 0) => format!("nearly full{since}: {in_flight} of {limit} in use"),
        (0, _) => format!("{waiting} wait{since}: {in_flight} of {limit} in use"),
        _ => format!(
            "refusing {}{since}: the limit is {limit} and {} in use",
            share(refused, &figures.window),
            are(in_flight, limit)
        ),
    };
    text.push_str(&busiest(figures, around.upstream));
    if let Some((from, to, why)) = around.moved.filter(|_| figures.is_adaptive) {
        let how = if to < from { "fell" } else { "rose" };
        let why = match why {
            "" => String::new(),
            why => format!(", {why}"),
        };
        text.push_str(&format!("; the limit last {how} from {from} to {to}{why}"));
    }
    text.push_str(&overstaying(figures, "; "));
    text
}

fn timeout(figures: &Figures, around: Around<'_>, since: &str) -> String {
    let share = share(figures.window.timeout, &figures.window);
    let after = match figures.timeout {
        Some(after) => format!(" after {}", short(after)),
        None => String::new(),
    };
    let server = busiest(figures, around.upstream);
    let held = overstaying(figures, "; ");
    format!("{share} time out{after}{since}{server}{held}")
}

fn quiet(level: Level, figures: &Figures) -> String {
    let held = overstaying(figures, "");
    match level {
        _ if figures.forced == 2 => "an operator forces the breaker closed".to_owned(),
        Level::Idle => "no calls".to_owned(),
        _ if !held.is_empty() => held,
        _ => "nothing holds it back".to_owned(),
    }
}

/// Names the server that has most of the requests of a route that is full.
fn busiest(figures: &Figures, upstream: Option<&UpstreamReport>) -> String {
    let servers = upstream.map(|one| one.servers.as_slice());
    let Some(servers) = servers.filter(|servers| servers.len() > 1) else {
        return String::new();
    };
    let all: usize = servers.iter().map(|server| server.in_flight).sum();
    let busiest = servers.iter().max_by_key(|server| server.in_flight);
    match busiest {
        Some(server) if figures.in_flight > 0 && server.in_flight * 2 > all => {
            format!(
                "; {} of {all} wait for {}",
                server.in_flight, server.address
            )
        }
        _ => String::new(),
    }
}

/// Says how many calls hold their permits although they have ended for their clients.
fn overstaying(figures: &Figures, before: &str) -> String {
    let oldest = match figures.oldest {
        Some(oldest) => format!(", the oldest for {}", short(oldest)),
        None => String::new(),
    };
    match figures.overstaying {
        0 => String::new(),
        1 => format!("{before}1 call overstays{oldest}"),
        many => format!("{before}{many} calls overstay{oldest}"),
    }
}

fn are(in_flight: usize, limit: usize) -> String {
    match in_flight >= limit {
        true => format!("all {limit} are"),
        false => format!("{in_flight} are"),
    }
}

/// Returns a share in percent.
fn share(part: u64, window: &Counts) -> String {
    match (part, part * 100 / window.calls().max(1)) {
        (1.., 0) => "less than 1 %".to_owned(),
        (_, share) => format!("{} %", share.min(100)),
    }
}

/// Returns a time as people write it.
fn short(time: Duration) -> String {
    let millis = time.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..120_000 => format!("{:.1} s", time.as_secs_f64()),
        _ => format!("{} min", millis / 60_000),
    }
}

/// Returns the time of day, in UTC.
pub(crate) fn clock(time_ms: u64) -> String {
    let seconds = time_ms / 1000 % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02} UTC", seconds % 60)
}
