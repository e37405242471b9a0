//! Spans that travel, and origins of reports. Every call of a subscriber goes through `guard.rs`.

use std::fmt;

use tracing::dispatcher;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::NoSubscriber;

use super::guard::{ask, tell_end};
use crate::contain::contain;

/// Returns `true` if there may be a subscriber. One relaxed load.
#[inline(always)]
pub fn is_on() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Returns `true` if there may be a subscriber that wants the spans of this library, whose level is
/// DEBUG. One relaxed load.
#[inline(always)]
pub fn wants_spans() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// A span of `tracing` whose subscriber may panic in each of its methods, or no span.
///
/// Dropping it calls the subscriber, so it is never dropped with a lock held.
#[derive(Default)]
pub struct Span {
    /// Never a disabled span: that one is `None`. In a box, so that what carries a span is one word
    /// larger and not five.
    inner: Option<Box<tracing::Span>>,
}

impl Span {
    /// Returns no span.
    pub const fn none() -> Self {
        Self { inner: None }
    }

    /// Returns the span in which this thread is, or no span.
    #[inline]
    pub fn current() -> Self {
        match is_on() {
            true => Self::of(tracing::Span::current),
            false => Self::none(),
        }
    }

    /// Returns the span that `make` makes, or no span if the subscriber does not want it or
    /// panics, or if this thread reports nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn of(make: impl FnOnce() -> tracing::Span) -> Self {
        let made = ask(make);
        // A disabled span has no subscriber, so dropping it here calls none.
        let wanted = made.filter(|span| span.id().is_some());
        Self {
            inner: wanted.map(Box::new),
        }
    }

    /// Returns `true` if there is no span.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.inner.is_none()
    }

    /// Enters the span on this thread until the result is dropped.
    #[inline]
    pub fn enter(&self) -> Entered<'_> {
        match &self.inner {
            None => Entered { span: None },
            Some(span) => Entered::new(span),
        }
    }

    /// Sets a field that the span was made with and that had no value yet.
    #[inline]
    pub fn record(&self, field: &'static str, value: &str) {
        if let Some(span) = &self.inner {
            record(span, field, value);
        }
    }
}

/// Not inlined, so that the code that drops a value with a span stays small.
#[cold]
#[inline(never)]
fn close(span: Box<tracing::Span>) {
    tell_end(|| drop(span));
}

#[cold]
#[inline(never)]
fn record(span: &tracing::Span, field: &'static str, value: &str) {
    let _ = ask(|| {
        span.record(field, value);
    });
}

impl Clone for Span {
    fn clone(&self) -> Self {
        match &self.inner {
            None => Self::none(),
            Some(span) => Self::of(|| tracing::Span::clone(span)),
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(span) = self.inner.take() {
            close(span);
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.inner.as_ref().and_then(|span| span.id());
        f.debug_tuple("Span")
            .field(&id.map(|id| id.into_u64()))
            .finish()
    }
}

/// The time in a span. Dropping it leaves the span.
#[must_use = "the span is left when this is dropped"]
#[derive(Debug)]
pub struct Entered<'a> {
    span: Option<&'a tracing::Span>,
}

impl<'a> Entered<'a> {
    #[cold]
    #[inline(never)]
    fn new(span: &'a tracing::Span) -> Self {
        let enter = || span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
        // A span that was not entered is not left.
        let entered = ask(enter).is_some();
        Self {
            span: entered.then_some(span),
        }
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(span) = self.span {
            leave(span);
        }
    }
}

#[cold]
#[inline(never)]
fn leave(span: &tracing::Span) {
    tell_end(|| {
        span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
    });
}

/// The subscriber and the span of a thread, kept so that another thread can report as if from
/// there.
///
/// Dropping it may call the subscriber, so it is never dropped with a lock held.
#[derive(Debug, Default)]
pub struct Origin {
    subscriber: Option<tracing::Dispatch>,
    span: Span,
}

impl Origin {
    /// Returns the span of this thread, and its subscriber: its own, else that of the process,
    /// else none.
    pub fn current() -> Self {
        let subscriber = contain(|| {
            dispatcher::get_default(|dispatch| {
                (!dispatch.is::<NoSubscriber>()).then(|| dispatch.clone())
            })
        });
        Self {
            subscriber: subscriber.ok().flatten(),
            span: Span::current(),
        }
    }

    /// Returns `true` if there is a subscriber.
    pub fn has_subscriber(&self) -> bool {
        self.subscriber.is_some()
    }

    /// Runs `emit` with this subscriber as the thread's, and with the id of the span.
    pub(super) fn with(&self, emit: impl FnOnce(Option<tracing::span::Id>)) {
        let parent = self.span.inner.as_ref().and_then(|span| span.id());
        if let Some(subscriber) = &self.subscriber {
            dispatcher::with_default(subscriber, || emit(parent));
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // The last handle drops the subscriber.
        if let Some(subscriber) = self.subscriber.take() {
            tell_end(|| drop(subscriber));
        }
    }
}

#[cfg(test)]
mod tests {
    //! What holds without a subscriber; `tests/tracing.rs` has one.

    use super::*;

    #[test]
    fn without_a_subscriber_there_is_no_span() {
        let span = Span::current();
        assert!(span.is_none() && span.clone().is_none());
        drop(span.enter());
        span.record("outcome", "success");
        assert_eq!(format!("{span:?}"), "Span(None)");
    }
}
