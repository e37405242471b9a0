//! The permits bulkhead: limits the number of concurrent calls on the callers' own threads.
//!
//! `gate` takes and returns the permits. `overstaying` counts the calls that hold one although their
//! outcome was reported. `waiter` is a call that waits for a permit, `waiter_word`
//! decides how its wait ends, and `wait_graph` rejects a wait that would deadlock. `estimator` computes an adaptive limit (`limit`) from
//! latencies that `sampler` collects, and `moves` tells listeners of its changes. `config` has the settings.

mod config;
mod estimator;
mod gate;
mod limit;
mod moves;
mod overstaying;
mod sampler;
mod wait_graph;
mod waiter;
pub(crate) mod waiter_word;

pub use self::config::PermitConfig;
pub use self::limit::{AdaptiveLimit, LimitAlgorithm, SampleWindow};
pub use self::moves::{LimitMove, LimitReason};

pub(crate) use self::gate::{Gate, Woken};
pub(crate) use self::moves::OnLimitMove;
pub(crate) use self::waiter::{NoPermit, Place};

#[cfg(test)]
mod overload_tests;
#[cfg(test)]
mod tests;
