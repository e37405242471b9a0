//! The thread budget: who has been promised threads of a pool for as long as it lives.

use std::error::Error;
use std::fmt;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::WaitRefused;

use super::shared::Shared;

/// Threads that were promised to components.
#[derive(Debug, Default)]
pub(super) struct Budget {
    leases: Vec<(u64, Lessee)>,
    next: u64,
}

/// Who holds how many threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lessee {
    /// The component.
    pub name: String,
    /// Its threads.
    pub threads: usize,
}

impl Budget {
    pub(super) fn leased(&self) -> usize {
        self.leases.iter().map(|(_, one)| one.threads).sum()
    }

    /// Adds a lease if at least one thread of `max` stays free.
    pub(super) fn add(&mut self, lessee: Lessee, max: usize) -> Result<u64, OverBudget> {
        let total = self.leased().saturating_add(lessee.threads);
        if total >= max {
            return Err(OverBudget {
                asked: Some(lessee),
                lessees: self.lessees(),
                max,
                waits: None,
            });
        }
        let id = self.next;
        self.next += 1;
        self.leases.push((id, lessee));
        Ok(id)
    }

    /// Whether what is leased leaves a thread of `max`.
    pub(super) fn check(&self, max: usize) -> Result<(), OverBudget> {
        let leased = self.leased();
        if leased == 0 || leased < max {
            return Ok(());
        }
        Err(OverBudget {
            asked: None,
            lessees: self.lessees(),
            max,
            waits: None,
        })
    }

    /// Takes a lease back that waits leave no thread for.
    pub(super) fn undo(&mut self, id: u64, max: usize, waits: WaitRefused) -> OverBudget {
        let at = self.leases.iter().position(|(one, _)| *one == id);
        OverBudget {
            asked: at.map(|at| self.leases.remove(at).1),
            lessees: self.lessees(),
            max,
            waits: Some(waits),
        }
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.leases.retain(|(one, _)| *one != id);
    }

    pub(super) fn clear(&mut self) {
        self.leases.clear();
    }

    fn lessees(&self) -> Vec<Lessee> {
        self.leases.iter().map(|(_, one)| one.clone()).collect()
    }
}

/// Threads of a pool that a component counts on; dropping it gives them back.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").core(1).max(4).build()?;
/// let lease = pool.lease("acceptors", 2)?;
/// let error = pool.lease("selectors", 2).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "insufficient threads: selectors asks for 2, acceptors has 2, and at least one of 4 has to \
///      stay for jobs; raise `max` or lease less",
/// );
/// drop(lease);
/// assert!(pool.lease("selectors", 3).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a lease gives its threads back"]
pub struct Lease {
    pub(super) pool: Weak<Shared>,
    pub(super) id: u64,
    pub(super) threads: usize,
    /// How many of them the lessee uses now.
    pub(super) used: AtomicUsize,
}

impl Lease {
    /// The threads of this lease.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Says how the lessee's use of its threads changes, one at a time; it counts as using all of
    /// them until it says otherwise. Those that it does not use are kept out of the pool's
    /// [room](crate::Headroom::room), though they are idle or not even started: they will be
    /// wanted.
    pub(crate) fn uses(&self, one_more: bool) {
        // It may use more than it leased: those are no business of the lease's.
        let changes = match one_more {
            true => self.used.fetch_add(1, Ordering::Relaxed) < self.threads,
            false => self.used.fetch_sub(1, Ordering::Relaxed) <= self.threads,
        };
        if changes && let Some(pool) = self.pool.upgrade() {
            pool.keep_for_lessee(!one_more);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        while self.used.load(Ordering::Relaxed) < self.threads {
            self.uses(true);
        }
        if let Some(pool) = self.pool.upgrade() {
            pool.end_lease(self.id);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// Leases that would leave no thread for jobs; names who holds what.
#[derive(Clone, PartialEq, Eq)]
pub struct OverBudget {
    asked: Option<Lessee>,
    lessees: Vec<Lessee>,
    max: usize,
    /// Waits that rely on the threads.
    waits: Option<WaitRefused>,
}

impl OverBudget {
    /// Who holds leases.
    pub fn lessees(&self) -> &[Lessee] {
        &self.lessees
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("insufficient threads: ")?;
        if let Some(asked) = &self.asked {
            write!(f, "{} asks for {}, ", asked.name, asked.threads)?;
        }
        for one in &self.lessees {
            write!(f, "{} has {}, ", one.name, one.threads)?;
        }
        let max = self.max;
        match &self.waits {
            None => write!(f, "and at least one of {max} has to stay for jobs")?,
            Some(waits) => write!(f, "and jobs rely on the rest of {max}: {waits}")?,
        }
        f.write_str("; raise `max` or lease less")
    }
}

tidegate_core::debug_as_display!(OverBudget);

impl Error for OverBudget {}
