//! The thread budget: which components have leased how many threads of a pool.

use std::error::Error;
use std::fmt;

use tidegate_core::WaitRefusedError;

/// The leases of a pool.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    leases: Vec<(u64, LeaseInfo)>,
    next: u64,
}

/// The holder of a lease and the number of its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// The name of the component.
    pub name: String,
    /// The number of threads that it leased.
    pub threads: usize,
}

impl Budget {
    pub(crate) fn leased(&self) -> usize {
        self.leases.iter().map(|(_, one)| one.threads).sum()
    }

    /// Adds a lease if at least one thread of `max` stays free.
    pub(crate) fn add(&mut self, lease: LeaseInfo, max: usize) -> Result<u64, ThreadBudgetError> {
        let total = self.leased().saturating_add(lease.threads);
        if total >= max {
            return Err(ThreadBudgetError {
                asked: Some(lease),
                leases: self.leases(),
                max,
                waits: None,
            });
        }
        let id = self.next;
        self.next += 1;
        self.leases.push((id, lease));
        Ok(id)
    }

    /// Checks that the leases leave at least one thread of `max` free.
    pub(crate) fn check(&self, max: usize) -> Result<(), ThreadBudgetError> {
        let leased = self.leased();
        if leased == 0 || leased < max {
            return Ok(());
        }
        Err(ThreadBudgetError {
            asked: None,
            leases: self.leases(),
            max,
            waits: None,
        })
    }

    /// Removes a lease again, because running waits rely on its threads. Returns the error for the
    /// caller.
    pub(crate) fn undo(
        &mut self,
        id: u64,
        max: usize,
        waits: WaitRefusedError,
    ) -> ThreadBudgetError {
        let at = self.leases.iter().position(|(one, _)| *one == id);
        ThreadBudgetError {
            asked: at.map(|at| self.leases.remove(at).1),
            leases: self.leases(),
            max,
            waits: Some(waits),
        }
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.leases.retain(|(one, _)| *one != id);
    }

    pub(crate) fn clear(&mut self) {
        self.leases.clear();
    }

    pub(crate) fn leases(&self) -> Vec<LeaseInfo> {
        self.leases.iter().map(|(_, one)| one.clone()).collect()
    }
}

/// The error of leases that would leave no thread for jobs. It names each lease holder.
#[derive(Clone, PartialEq, Eq)]
pub struct ThreadBudgetError {
    asked: Option<LeaseInfo>,
    leases: Vec<LeaseInfo>,
    max: usize,
    /// Waits that rely on the threads.
    waits: Option<WaitRefusedError>,
}

impl ThreadBudgetError {
    /// Returns the holders of all leases.
    pub fn leases(&self) -> &[LeaseInfo] {
        &self.leases
    }
}

impl fmt::Display for ThreadBudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("insufficient threads: ")?;
        if let Some(asked) = &self.asked {
            write!(f, "{} requests {}, ", asked.name, asked.threads)?;
        }
        for one in &self.leases {
            write!(f, "{} has {}, ", one.name, one.threads)?;
        }
        let max = self.max;
        match &self.waits {
            None => write!(f, "and at least one of {max} has to stay for jobs")?,
            Some(_) => write!(f, "and waiting jobs rely on the rest of {max}")?,
        }
        f.write_str("; raise `max` or lease less")
    }
}

tidegate_core::debug_as_display!(ThreadBudgetError);

impl Error for ThreadBudgetError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.waits.as_ref().map(|waits| waits as _)
    }
}
