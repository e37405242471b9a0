//! Bulkheads: how much of the program one dependency may hold.

mod gate;
mod holds;
mod home;
mod limit;
mod partition;
mod pools;
mod queue;
mod sampler;
mod threads;
mod waiter;

pub use self::gate::PermitConfig;
pub use self::limit::{AdaptiveLimit, LimitAlgorithm, SampleWindow};
pub use self::partition::{Criticality, Partitions};
pub use self::queue::Discipline;

pub use self::threads::PoolSnapshot;

pub(crate) use self::gate::{Gate, Woken};
pub(crate) use self::pools::Pools;
pub(crate) use self::threads::ThreadBulkhead;
pub(crate) use self::waiter::Place;
