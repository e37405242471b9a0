//! Events and spans for the crate `tracing`: the only place that knows it.
//!
//! | file | what |
//! |---|---|
//! | `guard.rs` | how a subscriber is called: contained, and not from within itself |
//! | `limit.rs` | [`EventLimit`]: at most one event per second, with the number left out |
//! | `span.rs` | [`Span`], which travels with tasks; [`Origin`], for reports by another thread |
//! | `events.rs` | one function per event, one constructor per span |
//! | `off.rs` | the same names without the feature `tracing`: nothing at all |
//!
//! A subscriber is user code. It runs on the thread that emits, so no function of this module is
//! called with a lock held, nor on a thread on which other work depends, except under [`mute`]. Its
//! panics are contained: the event is lost, the caller goes on. Without a subscriber each of these
//! functions is one relaxed load ([`is_on`]).
//!
//! Models and schedules have no subscriber, so `off.rs` stands in there.

#[cfg(all(feature = "tracing", not(any(tidegate_loom, tidegate_shuttle))))]
mod events;
#[cfg(all(feature = "tracing", not(any(tidegate_loom, tidegate_shuttle))))]
mod guard;
mod limit;
#[cfg(not(all(feature = "tracing", not(any(tidegate_loom, tidegate_shuttle)))))]
mod off;
#[cfg(all(feature = "tracing", not(any(tidegate_loom, tidegate_shuttle))))]
mod span;

#[cfg(all(feature = "tracing", not(any(tidegate_loom, tidegate_shuttle))))]
pub use self::{
    events::{
        UnhandledFields, accept_failed, breaker_changed, command_span, connection_span,
        loop_recovered, loop_stalled, refused, slow_task, unhandled_error,
    },
    guard::{Muted, mute},
    span::{Entered, Origin, Span, is_on, wants_spans},
};

#[cfg(not(all(feature = "tracing", not(any(tidegate_loom, tidegate_shuttle)))))]
pub use self::off::{
    Entered, Muted, Origin, Span, UnhandledFields, accept_failed, breaker_changed, command_span,
    connection_span, is_on, loop_recovered, loop_stalled, mute, refused, slow_task,
    unhandled_error, wants_spans,
};

pub use self::limit::EventLimit;

/// The names for the other crates, which know this module as `internal::trace`.
pub mod api {
    pub use super::{
        Entered, EventLimit, Muted, Origin, Span, UnhandledFields, accept_failed, breaker_changed,
        command_span, connection_span, is_on, loop_recovered, loop_stalled, mute, refused,
        slow_task, unhandled_error, wants_spans,
    };
}
