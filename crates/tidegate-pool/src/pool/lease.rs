//! The lease: threads of a pool that a component can rely on.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use super::budget::{LeaseInfo, ThreadBudgetError};
use super::core::Shared;

/// Set in [`Lease::used`] once the threads were returned.
const ENDED: usize = 1 << (usize::BITS - 1);

/// Threads of a pool that are leased to a component. Dropping the lease returns them.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").core(1).max(4).build()?;
/// let lease = pool.lease("acceptors", 2)?;
/// let error = pool.lease("selectors", 2).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "insufficient threads: selectors requests 2, acceptors has 2, and at least one of 4 has to \
///      stay for jobs; raise `max` or lease less",
/// );
/// drop(lease);
/// assert!(pool.lease("selectors", 3).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a lease gives its threads back"]
pub struct Lease {
    pool: Weak<Shared>,
    id: u64,
    threads: usize,
    /// The number of threads that the lease holder uses now, and [`ENDED`].
    used: AtomicUsize,
}

impl Lease {
    /// Leases threads of `pool` to a component.
    pub(super) fn new(pool: &Arc<Shared>, lease: LeaseInfo) -> Result<Self, ThreadBudgetError> {
        let threads = lease.threads;
        Ok(Self {
            pool: Arc::downgrade(pool),
            id: pool.add_lease(lease)?,
            threads,
            used: AtomicUsize::new(threads),
        })
    }

    /// Returns the number of threads of this lease.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the threads now. Their holder needs no more threads, and others may keep the lease.
    #[doc(hidden)]
    pub fn end(&self) {
        let used = self.used.fetch_or(ENDED, Ordering::Relaxed);
        if used & ENDED != 0 {
            return;
        }
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        for _ in used..self.threads {
            pool.reserve_for_lease(false);
        }
        pool.end_lease(self.id);
    }

    /// Records that the lease holder uses one thread more or less. At first all leased threads
    /// count as used. Threads that are not in use are subtracted from the pool's [free
    /// threads](crate::Headroom::free_threads), even if they are idle or not started: the lease
    /// holder will need them.
    #[cfg(feature = "strategy")]
    pub(crate) fn set_in_use(&self, acquired: bool) {
        // Threads that are used beyond the lease do not count. An ended lease compares as greater.
        let changes = match acquired {
            true => self.used.fetch_add(1, Ordering::Relaxed) < self.threads,
            false => self.used.fetch_sub(1, Ordering::Relaxed) <= self.threads,
        };
        if changes && let Some(pool) = self.pool.upgrade() {
            pool.reserve_for_lease(!acquired);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
