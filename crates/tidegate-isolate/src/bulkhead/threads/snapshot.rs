//! A snapshot of a pool's figures, as plain data.

use std::fmt;

use super::config::PoolConfig;
use crate::key::Key;

/// The figures of a pool at one moment.
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
/// assert!(pools[0].to_string().starts_with("prices: "));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The key of the pool.
    pub key: Key,
    /// The settings in force.
    pub config: PoolConfig,
    /// Threads that are running a call.
    pub active: usize,
    /// The largest number of calls of all commands of the pool that ran at the same time within the
    /// window.
    pub peak: u64,
    /// The current number of threads.
    pub threads: usize,
    /// The largest number of threads since the pool was created.
    pub largest: usize,
    /// The number of threads that are kept alive.
    pub core: usize,
    /// The largest number of threads allowed.
    pub max: usize,
    /// Calls that wait for a thread.
    pub queued: usize,
    /// Calls accepted so far.
    pub accepted: u64,
    /// Calls whose work has ended so far.
    pub completed: u64,
    /// Calls that ran, in the window.
    pub executed: u64,
    /// Calls that were rejected, in the window.
    pub rejected: u64,
    /// Calls that timed out while they waited for a thread, in the window.
    pub expired: u64,
    /// Calls that ran.
    pub executed_total: u64,
    /// Calls that were rejected.
    pub rejected_total: u64,
    /// Calls that timed out while they waited for a thread.
    pub expired_total: u64,
    /// Threads that are held by work whose caller has given up.
    pub overstaying: usize,
    /// Which part of the program broke its contract, and how, if that closed the pool; see
    /// [`ConcurrencyStrategy`](crate::ConcurrencyStrategy).
    pub failed_part: Option<String>,
}

/// One line for people.
impl fmt::Display for PoolSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key, active, max, ..
        } = self;
        write!(f, "{key}: {active} of {max} threads active")?;
        let parts = [
            (self.queued as u64, "queued"),
            (self.overstaying as u64, "overstaying"),
            (self.executed, "executed"),
            (self.rejected, "rejected"),
            (self.expired, "expired in the queue"),
        ];
        for (count, what) in parts {
            write!(f, ", {count} {what}")?;
        }
        if let Some(reason) = &self.failed_part {
            write!(f, "; closed: {reason}")?;
        }
        Ok(())
    }
}
