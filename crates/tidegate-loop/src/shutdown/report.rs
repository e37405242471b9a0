//! The report of an event loop's shutdown.

use std::fmt;

use tidegate_pool::HandedBack;

/// The report of an event loop's shutdown. Clones share the handed-back tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Tasks that ran after the shutdown was requested.
    pub ran: u64,
    /// Scheduled tasks that were cancelled.
    pub cancelled: u64,
    /// Futures that were dropped before they were ready.
    pub dropped: u64,
    /// Shutdown hooks that ran.
    pub hooks: u64,
    /// Tasks that were accepted and had not started by the deadline.
    pub handed_back: HandedBack,
}

impl ShutdownReport {
    /// Returns the sum of the reports of several event loops.
    pub(crate) fn sum(reports: &[Self]) -> Self {
        let total = |count: fn(&Self) -> u64| reports.iter().map(count).sum();
        Self {
            ran: total(|report| report.ran),
            cancelled: total(|report| report.cancelled),
            dropped: total(|report| report.dropped),
            hooks: total(|report| report.hooks),
            handed_back: HandedBack::of_all(reports.iter().map(|report| &report.handed_back)),
        }
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tasks and {} hooks run, {} timers cancelled, {} futures dropped, {} tasks handed back",
            self.ran,
            self.hooks,
            self.cancelled,
            self.dropped,
            self.handed_back.len()
        )
    }
}
