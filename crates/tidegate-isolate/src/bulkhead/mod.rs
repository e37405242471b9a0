//! Bulkheads: how much of the program one dependency may hold.

mod gate;
mod limit;
mod pools;
mod queue;
mod sampler;
mod threads;
mod waiter;

pub use self::gate::{Criticality, Partitions, PermitConfig};
pub use self::limit::{AdaptiveLimit, LimitAlgorithm, SampleWindow};
pub use self::queue::Discipline;

pub use self::threads::PoolSnapshot;

pub(crate) use self::gate::Gate;
pub(crate) use self::pools::Pools;
pub(crate) use self::threads::ThreadBulkhead;
pub(crate) use self::waiter::Place;
