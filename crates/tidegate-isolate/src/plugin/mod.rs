//! Plug-in points: what a program adds around every call. Several of each are allowed; they are
//! called in the order in which they were added, and one that panics does not stop the rest.
//!
//! One file for each kind; `plugins` holds all of them and calls them. Knows keys, events and the
//! transitions of a breaker.

mod hook;
mod plugins;
mod propagator;
mod publisher;

pub use self::hook::{Hook, Stage};
pub use self::propagator::{Install, Propagator, Restore};
pub use self::publisher::MetricsPublisher;

pub(crate) use self::plugins::Plugins;
