//! The permits bulkhead: so many calls at a time, on the callers' own threads.
//!
//! `gate` takes and gives back the permits; `waiter` is a call that waits for one, and `wait_graph`
//! refuses a wait that could never end. `limit` computes an adaptive limit from latencies, which
//! `sampler` gathers. `config` has the settings.

mod config;
mod gate;
mod limit;
mod sampler;
mod wait_graph;
mod waiter;

pub use self::config::PermitConfig;
pub use self::limit::{AdaptiveLimit, LimitAlgorithm, SampleWindow};

pub(crate) use self::gate::{Gate, Woken};
pub(crate) use self::waiter::Place;

#[cfg(test)]
mod tests;
