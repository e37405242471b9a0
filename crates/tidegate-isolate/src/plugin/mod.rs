//! Plug-in points: user code that a program adds around every call. Several plug-ins of each kind
//! are allowed. They are called in the order in which they were added, and a panic in one does not
//! stop the others.
//!
//! There is one file for each kind; `plugins` holds and calls all of them. This module uses keys,
//! events and the transitions of a breaker.

mod hook;
mod plugins;
mod propagator;
mod publisher;

pub use self::hook::{CallStage, Hook};
pub use self::propagator::{Install, Propagator, Restore};
pub use self::publisher::MetricsPublisher;

pub(crate) use self::plugins::Plugins;
