//! The permits bulkhead: limits the number of concurrent calls on the callers' own threads.
//!
//! `gate` takes and returns the permits. `overstaying` counts the calls that hold one although their
//! outcome was reported. `waiter` is a call that waits for a permit, `waiter_word`
//! decides how its wait ends, and `wait_graph` rejects a wait that would deadlock. `limit` computes an adaptive limit from
//! latencies that `sampler` collects. `config` has the settings.

mod config;
mod gate;
mod limit;
mod overstaying;
mod sampler;
mod wait_graph;
mod waiter;
pub(crate) mod waiter_word;

pub use self::config::PermitConfig;
pub use self::limit::{AdaptiveLimit, LimitAlgorithm, SampleWindow};

pub(crate) use self::gate::{Gate, Woken};
pub(crate) use self::waiter::Place;

#[cfg(test)]
mod tests;
