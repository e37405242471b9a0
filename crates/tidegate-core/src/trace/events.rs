//! The events and spans of all crates, in one place: their names and fields are stable, and a
//! table in the guide lists them.

use std::fmt;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Level, event};

use super::guard::{ask, is_muted};
use super::limit::EventLimit;
use super::span::{Origin, Span, is_on, wants_spans};

/// What an event says about an unhandled error.
#[derive(Debug)]
pub struct UnhandledFields<'a> {
    /// The executor, timer or isolation where it happened.
    pub source: &'a str,
    /// Its kind, as one word.
    pub kind: &'static str,
    /// The name of the task, if it is about one.
    pub task: Option<&'a str>,
    /// The number of reports left out, if it is about that.
    pub left_out: Option<u64>,
}

/// Reports an unhandled error to the subscriber, and in the span, of the thread where it happened.
/// Returns `false` if there is no subscriber or it panics: the caller reports the error elsewhere.
#[cold]
pub fn unhandled_error(
    origin: &Origin,
    fields: &UnhandledFields<'_>,
    error: &dyn fmt::Display,
) -> bool {
    if !origin.has_subscriber() {
        return false;
    }
    let received = ask(|| {
        origin.with(|parent| {
            event!(
                name: "unhandled_error",
                target: "tidegate::unhandled",
                parent: parent,
                Level::ERROR,
                source = fields.source,
                kind = fields.kind,
                task = fields.task,
                left_out = fields.left_out,
                "{error}"
            );
        });
    });
    received.is_some()
}

/// Reports tasks that kept an event loop for `elapsed`: their number, and the name of the last one.
#[cold]
pub fn slow_task(
    limit: &EventLimit,
    now: u64,
    event_loop: &str,
    (tasks, task): (u64, &str),
    elapsed: Duration,
) {
    let Some(left_out) = limited(limit, now) else {
        return;
    };
    let _ = ask(|| {
        event!(
            name: "slow_task",
            target: "tidegate::loop",
            Level::WARN,
            event_loop,
            task,
            tasks,
            elapsed_ms = millis(elapsed),
            left_out,
            "tasks kept their event loop for long"
        );
    });
}

/// Reports an event loop that a watchdog found stuck, for `stalled` so far.
#[cold]
pub fn loop_stalled(event_loop: &str, task: &str, stalled: Duration) {
    if !is_on() {
        return;
    }
    let _ = ask(|| {
        event!(
            name: "loop_stalled",
            target: "tidegate::loop",
            Level::WARN,
            event_loop,
            task,
            stalled_ms = millis(stalled),
            "an event loop is stuck"
        );
    });
}

/// Reports that an event loop that was stuck goes on.
#[cold]
pub fn loop_recovered(event_loop: &str, task: &str, stalled: Duration) {
    if !is_on() {
        return;
    }
    let _ = ask(|| {
        event!(
            name: "loop_recovered",
            target: "tidegate::loop",
            Level::INFO,
            event_loop,
            task,
            stalled_ms = millis(stalled),
            "an event loop that was stuck goes on"
        );
    });
}

/// Reports that the breaker `breaker` went from one state to another. `is_open` is `true` if it
/// now denies calls.
#[cold]
pub fn breaker_changed(breaker: &str, from: &str, to: &str, is_open: bool) {
    if !is_on() {
        return;
    }
    let _ = ask(|| match is_open {
        true => event!(
            name: "breaker_changed",
            target: "tidegate::breaker",
            Level::WARN,
            breaker,
            from,
            to,
            "a breaker opened"
        ),
        false => event!(
            name: "breaker_changed",
            target: "tidegate::breaker",
            Level::INFO,
            breaker,
            from,
            to,
            "a breaker changed its state"
        ),
    });
}

/// Reports that `name`, which is a `kind` (a command, pool or event loop), refused work.
#[cold]
pub fn refused(
    limit: &EventLimit,
    now: u64,
    kind: &'static str,
    name: &str,
    reason: &dyn fmt::Display,
) {
    let Some(left_out) = limited(limit, now) else {
        return;
    };
    let _ = ask(|| {
        event!(
            name: "refused",
            target: "tidegate::refused",
            Level::WARN,
            kind,
            name,
            reason = %reason,
            left_out,
            "work was refused"
        );
    });
}

/// Reports that a server cannot accept connections at `address`. Returns `true` if a subscriber has
/// received the event, or receives the number of those that are left out.
#[cold]
pub fn accept_failed(
    limit: &EventLimit,
    now: u64,
    address: &dyn fmt::Display,
    error: &dyn fmt::Display,
) -> bool {
    let Some(left_out) = limited(limit, now) else {
        return is_on();
    };
    let received = ask(|| {
        event!(
            name: "accept_failed",
            target: "tidegate::net",
            Level::WARN,
            address = %address,
            error = %error,
            left_out,
            "a connection could not be accepted"
        );
    });
    received.is_some()
}

/// Returns the span of one call of a command, if a subscriber wants it. Its field `outcome` is
/// set at the end of the call.
#[inline]
pub fn command_span(command: &str, group: &str) -> Span {
    if !wants_spans() {
        return Span::none();
    }
    Span::of(|| {
        tracing::debug_span!(
            target: "tidegate::command",
            "command",
            command,
            group,
            outcome = Empty
        )
    })
}

/// Returns the span of one connection, if a subscriber wants it. `side` is `server` or `client`. It
/// has no parent: a connection outlives the request that opened it.
#[inline]
pub fn connection_span(side: &'static str, id: u64, peer: Option<&dyn fmt::Display>) -> Span {
    if !wants_spans() {
        return Span::none();
    }
    Span::of(|| {
        let peer = peer.map(tracing::field::display);
        tracing::debug_span!(
            target: "tidegate::connection",
            parent: None,
            "connection",
            side,
            id,
            peer
        )
    })
}

/// Returns the number of events left out before this one, or `None` if this one is left out too
/// or there is no subscriber.
fn limited(limit: &EventLimit, now: u64) -> Option<u64> {
    if !is_on() {
        return None;
    }
    if is_muted() {
        limit.leave_out();
        return None;
    }
    limit.pass(now)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
