//! Bulkheads: how much of the program one dependency may hold.
//!
//! There are two kinds (`kind`): `permits` bound calls on the callers' own threads, `threads` run
//! them on a pool of their own. Both keep callers waiting in the order of a `queue`, where a queue
//! kind is added, and reserve room for important calls (`partition`). Knows the windows of the
//! metrics, and no command.

mod kind;
mod partition;
mod permits;
mod queue;
mod threads;

pub use self::kind::Bulkhead;
pub use self::partition::{Criticality, Partitions};
pub use self::permits::{AdaptiveLimit, LimitAlgorithm, PermitConfig, SampleWindow};
pub use self::queue::Discipline;
pub use self::threads::{PoolConfig, PoolSnapshot};

pub(crate) use self::permits::{Gate, Place, Woken};
pub(crate) use self::threads::{Home, ThreadBulkhead, WaitCheck};
