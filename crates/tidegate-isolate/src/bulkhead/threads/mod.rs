//! The thread bulkhead: a worker pool of its own for the commands of one pool key.
//!
//! `thread_bulkhead` is the pool with its limits and counters. `job_queue` is the order in which
//! calls wait for a thread. `strategy` has the parts that a program supplies instead of the built-in
//! ones. `home` checks a wait for a call of the pool.
//! `snapshot` reports the pool's figures, and `config` has the settings.

mod config;
mod home;
mod job_queue;
mod snapshot;
mod strategy;
mod thread_bulkhead;

pub use self::config::PoolConfig;
pub use self::snapshot::PoolSnapshot;
pub use self::strategy::ConcurrencyStrategy;

pub(crate) use self::home::Home;
pub(crate) use self::thread_bulkhead::ThreadBulkhead;
