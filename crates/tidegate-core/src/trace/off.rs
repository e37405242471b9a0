//! Stands in for the other files if there is no `tracing`: every type is empty, every function
//! does nothing.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::limit::EventLimit;

/// What an event would say about an unhandled error.
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

/// No span.
#[derive(Clone, Debug, Default)]
pub struct Span;

impl Span {
    /// Returns no span.
    pub const fn none() -> Self {
        Self
    }

    /// Returns no span.
    #[inline(always)]
    pub fn current() -> Self {
        Self
    }

    /// Returns `true`.
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        true
    }

    /// Does nothing.
    #[inline(always)]
    pub fn enter(&self) -> Entered<'_> {
        Entered(PhantomData)
    }

    /// Does nothing.
    #[inline(always)]
    pub fn record(&self, _field: &'static str, _value: &str) {}
}

/// The time in no span.
#[must_use = "the span is left when this is dropped"]
#[derive(Debug)]
pub struct Entered<'a>(PhantomData<&'a ()>);

impl Drop for Entered<'_> {
    /// Does nothing. Code that drops it early means the span that it would leave.
    #[inline(always)]
    fn drop(&mut self) {}
}

/// No subscriber and no span.
#[derive(Debug, Default)]
pub struct Origin;

impl Origin {
    /// Returns no subscriber and no span.
    pub fn current() -> Self {
        Self
    }
}

/// The time in which nothing would be reported.
#[must_use = "the thread reports again when this is dropped"]
#[derive(Debug)]
pub struct Muted;

impl Drop for Muted {
    /// Does nothing. Code that drops it early means the thread that would report again.
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Does nothing.
#[inline(always)]
pub fn mute() -> Muted {
    Muted
}

/// Returns `false`.
#[inline(always)]
pub fn is_on() -> bool {
    false
}

/// Returns `false`.
#[inline(always)]
pub fn wants_spans() -> bool {
    false
}

/// Returns `false`: there is no subscriber.
#[inline(always)]
pub fn unhandled_error(
    _origin: &Origin,
    _fields: &UnhandledFields<'_>,
    _error: &dyn fmt::Display,
) -> bool {
    false
}

/// Does nothing.
#[inline(always)]
pub fn slow_task(
    _: &EventLimit,
    _now: u64,
    _event_loop: &str,
    _tasks: (u64, &str),
    _elapsed: Duration,
) {
}

/// Does nothing.
#[inline(always)]
pub fn loop_stalled(_event_loop: &str, _task: &str, _stalled: Duration) {}

/// Does nothing.
#[inline(always)]
pub fn loop_recovered(_event_loop: &str, _task: &str, _stalled: Duration) {}

/// Does nothing.
#[inline(always)]
pub fn breaker_changed(_breaker: &str, _from: &str, _to: &str, _is_open: bool) {}

/// Does nothing.
#[inline(always)]
pub fn refused(
    _: &EventLimit,
    _now: u64,
    _kind: &'static str,
    _name: &str,
    _reason: &dyn fmt::Display,
) {
}

/// Does nothing.
#[inline(always)]
pub fn accept_failed(
    _: &EventLimit,
    _now: u64,
    _address: &dyn fmt::Display,
    _error: &dyn fmt::Display,
) -> bool {
    false
}

/// Returns no span.
#[inline(always)]
pub fn command_span(_command: &str, _group: &str) -> Span {
    Span
}

/// Returns no span.
#[inline(always)]
pub fn connection_span(_side: &'static str, _id: u64, _peer: Option<&dyn fmt::Display>) -> Span {
    Span
}
