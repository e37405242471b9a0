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
        let (mut sum, mut handed_back) = (Self::default(), Vec::new());
        for report in reports {
            sum.ran += report.ran;
            sum.cancelled += report.cancelled;
            sum.dropped += report.dropped;
            sum.hooks += report.hooks;
            handed_back.push(report.handed_back.clone());
        }
        sum.handed_back = HandedBack::of_all(&handed_back);
        sum
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
