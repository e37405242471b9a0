//! How a pool is doing, as plain data.

use super::config::PoolConfig;
use crate::key::Key;

/// How a pool is doing at one moment.
///
/// ```
/// use tidegate_isolate::{Command, Isolation, PoolConfig};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> = Command::builder("prices")
///     .group("catalog")
///     .threads(PoolConfig::default())
///     .build(&isolation)?;
/// prices.run(|_| Ok(1)).unwrap();
/// let pools = isolation.pool_snapshots();
/// assert_eq!((pools[0].key.as_str(), pools[0].executed), ("prices", 1));
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The key of the pool.
    pub key: Key,
    /// The settings in force.
    pub config: PoolConfig,
    /// Threads that run something.
    pub active: usize,
    /// The most calls that ran at the same time, of all commands of the pool, in the window.
    pub peak: u64,
    /// Threads.
    pub threads: usize,
    /// The most threads that there ever were.
    pub largest: usize,
    /// Threads that are kept.
    pub core: usize,
    /// The most threads that there may be.
    pub max: usize,
    /// Calls that wait for a thread.
    pub queued: usize,
    /// Calls accepted so far.
    pub accepted: u64,
    /// Calls whose work has ended so far.
    pub completed: u64,
    /// Calls that ran, in the window.
    pub executed: u64,
    /// Calls that were refused, in the window.
    pub rejected: u64,
    /// Calls whose time was over while they waited, in the window.
    pub expired: u64,
    /// Calls that ran.
    pub executed_total: u64,
    /// Calls that were refused.
    pub rejected_total: u64,
    /// Calls whose time was over while they waited.
    pub expired_total: u64,
    /// Threads that are held by work whose caller has gone.
    pub overstaying: usize,
}
