//! The circuit breaker: stops calling what does not answer.
//!
//! While it is closed, a call costs two loads to pass and one addition to report. State changes
//! take a short lock; what a user gave is called after it is released.
//!
//! From the bottom: `word` is the atomic word that calls look at; `state` draws the states over it;
//! `config` has the settings, `health` the calls that are judged, `core` what the lock guards,
//! `ticket` what a call carries. `circuit_breaker` is made of these. `transitions` says when it opens
//! and closes; `pass` is what a call uses. Knows the windows of the metrics.
//!
//! # Invariants
//!
//! * A probe has an identity: only the calls that were let through in this half-open phase decide
//!   how it ends, and one that is dropped without a verdict opens the breaker again.
//! * A denied call never changes anything.
//! * Time is monotonic, and an argument.

mod circuit_breaker;
mod config;
mod core;
mod health;
mod pass;
mod state;
mod ticket;
mod transitions;
pub(crate) mod word;

pub use self::circuit_breaker::CircuitBreaker;
pub use self::config::{BreakerConfig, BreakerMode, BreakerWindow};
pub use self::pass::Pass;
pub use self::state::{BreakerState, Transition};
pub use self::ticket::Open;

pub(crate) use self::state::OnTransition;
pub(crate) use self::ticket::{Ticket, Verdict};

#[cfg(test)]
mod tests;
