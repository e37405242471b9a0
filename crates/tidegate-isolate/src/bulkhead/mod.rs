//! Bulkheads: how much of the program one dependency may hold.

mod gate;
mod limit;
mod queue;

pub use self::gate::{Criticality, Partitions, PermitConfig};
pub use self::limit::{AdaptiveLimit, LimitAlgorithm, SampleWindow};
pub use self::queue::Discipline;

pub(crate) use self::gate::Gate;
