//! Bulkheads: limit how many of the program's resources one dependency may use.
//!
//! There are two kinds (`kind`): `permits` limits calls on the callers' own threads, `threads` runs
//! calls on a pool of their own. In both, waiting calls are served in the order of a `queue`, which
//! defines the queue kinds, and room can be reserved for critical calls (`partition`). This module
//! uses the windows of the metrics, and no command.

mod kind;
mod partition;
pub(crate) mod permits;
mod queue;
mod threads;

pub use self::kind::Bulkhead;
pub use self::partition::{Criticality, Partitions};
pub use self::permits::{
    AdaptiveLimit, LimitAlgorithm, LimitMove, LimitReason, PermitConfig, SampleWindow,
};
pub use self::queue::QueueDiscipline;
pub use self::threads::{ConcurrencyStrategy, PoolConfig, PoolSnapshot};

pub(crate) use self::permits::{Gate, NoPermit, OnLimitMove, Place, Woken};
pub(crate) use self::threads::{Home, ThreadBulkhead};
