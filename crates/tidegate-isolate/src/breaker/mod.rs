//! The circuit breaker: stops calls to a dependency that does not respond.
//!
//! While the breaker is closed, a call costs three loads to pass and one addition to report. State
//! changes take a short lock; listeners, which are user code, run after it is released.
//!
//! From the bottom: `word` is the atomic word that calls read; `state` defines the states that it
//! stores. `config` has the settings, `health` the results that are judged, `core` the fields that
//! the lock protects, and `ticket` the data that a call carries. `circuit_breaker` is made of
//! these. `transitions` decides when it opens and closes; `pass` is the interface for a call, and
//! `alone` the breaker of code that is no command. This module uses the windows of the metrics.
//!
//! # Invariants
//!
//! * A probe has an identity: only the calls that passed in the current half-open phase decide how
//!   it ends, and a probe that is dropped without a verdict opens the breaker again.
//! * A denied call receives no ticket, so it never counts as a result.
//! * Time is monotonic, and an argument.

mod alone;
mod circuit_breaker;
mod config;
mod core;
mod health;
mod pass;
mod state;
mod ticket;
mod transitions;
pub(crate) mod word;

pub use self::alone::{CircuitBreaker, Pass};
pub(crate) use self::circuit_breaker::Breaker;
pub use self::config::{BreakerConfig, BreakerMode, BreakerWindow};
pub(crate) use self::config::{PROBE_LIMIT, PROBES, RAMP, SUCCESSES};
pub use self::state::{BreakerState, BreakerTransition};

pub(crate) use self::state::OnTransition;
pub use self::ticket::BreakerOpenError;
pub(crate) use self::ticket::{Settlement, Ticket};

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
