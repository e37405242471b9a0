//! What a subscriber of `tracing` sees of calls: a span for each call, and an event for rejected
//! calls, at most one per second and command.
//!
//! A call that ends on the calling thread is in its span all the time. The span of a queued call or
//! of a future is kept with the options of the call. It is entered whenever the work is polled, and
//! for the end of the call. The job of a call on threads carries the span as every task does.

use std::fmt;

use tidegate_core::internal::trace::{self, Entered, Span};

use super::options::{CallOptions, RareOptions};
use super::shared::Shared;
use crate::error::{Cause, CommandError};
use crate::event::Event;
use crate::isolation::state::State;
use crate::request::Answer;
use crate::request::wait_graph::{self, Within};

impl State {
    /// Returns the span of a new call, if a subscriber wants it.
    #[inline]
    pub(super) fn span(&self) -> Span {
        trace::command_span(&self.key, &self.group)
    }

    /// Reports a call that a limit or the breaker rejected. Never called with a lock held.
    #[inline]
    pub(super) fn trace_rejection<E>(&self, now: u64, cause: &Cause<E>) {
        if trace::is_on() {
            self.report_rejection(now, cause);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_rejection<E>(&self, now: u64, cause: &Cause<E>) {
        let reason: &dyn fmt::Display = match cause {
            Cause::Rejected(limit) => limit,
            Cause::ShortCircuited(_) => &"its breaker is open",
            _ => return,
        };
        trace::refused(&self.rejections, now, "command", &self.key, reason);
    }
}

impl<T, E> Shared<T, E> {
    /// Makes a call that ends on this thread, in a span of its own.
    #[cold]
    #[inline(never)]
    pub(super) fn in_span(&self, call: impl FnOnce() -> Answer<T, E>) -> Answer<T, E> {
        let span = self.state.span();
        let entered = span.enter();
        let answer = call();
        drop(entered);
        span.record("outcome", outcome(&answer));
        answer
    }
}

impl<T, E> CallOptions<T, E> {
    /// Creates the span of the call and keeps it until the end of the call.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_span(&mut self, state: &State) {
        self.rare().span = state.span();
    }

    /// Returns the span of the call and forgets it.
    #[inline]
    pub(super) fn take_span(&mut self) -> Span {
        let rare = self.rare.as_mut();
        rare.map(|rare| std::mem::take(&mut rare.span))
            .unwrap_or_default()
    }

    #[inline]
    pub(super) fn has_span(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| !rare.span.is_none())
    }

    /// Enters the shared run and the span of the call, if it has them, until the result is dropped.
    #[inline]
    pub(super) fn enter_rare(&self) -> Option<Around<'_>> {
        self.rare.as_deref().map(Around::new)
    }

    /// Ends the span of the call, unless a fallback is still awaited.
    #[inline]
    pub(super) fn end_span(&mut self, answer: &Answer<T, E>) {
        if self.has_span() && !self.is_deferred() {
            self.take_span().record("outcome", outcome(answer));
        }
    }
}

/// What a poll of the work runs in: the shared run and the span of its call.
pub(super) struct Around<'a> {
    _run: Option<Within>,
    _span: Entered<'a>,
}

impl<'a> Around<'a> {
    #[cold]
    #[inline(never)]
    fn new<T, E>(rare: &'a RareOptions<T, E>) -> Self {
        Self {
            _run: rare.run.map(wait_graph::enter),
            _span: rare.span.enter(),
        }
    }

    /// Drops the value, if there is one. A plain drop would be a call in each poll.
    #[inline(always)]
    pub(super) fn leave(around: Option<Self>) {
        #[cold]
        #[inline(never)]
        fn end(_around: Around<'_>) {}

        if let Some(around) = around {
            end(around);
        }
    }
}

/// Returns the outcome of a call as the name of an event. A value of the fallback is a success, as
/// the caller sees it.
pub(super) fn outcome<T, E>(answer: &Result<T, CommandError<E>>) -> &'static str {
    match answer {
        Ok(_) => Event::Success.name(),
        Err(error) => error.cause().event().name(),
    }
}
