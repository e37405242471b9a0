//! The report of a pool's end.

use std::fmt;

use crate::executor::HandedBack;

/// What a pool did while it shut down. Clones share the tasks that were handed back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Jobs that ended after the shutdown began.
    pub ran: u64,
    /// Scheduled tasks that were cancelled, including those of the pool's ordered views.
    pub cancelled: u64,
    /// Jobs that were accepted and had not started at the deadline.
    pub handed_back: HandedBack,
    /// Jobs that had not returned at the deadline. Each thread ends when its job returns.
    pub stuck: Vec<StuckJob>,
}

/// A job that did not return in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckJob {
    /// The name of its thread.
    pub thread: String,
    /// The job's name.
    pub task: &'static str,
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} jobs ended in the shutdown, {} handed back",
            self.ran,
            self.handed_back.len()
        )?;
        if self.cancelled > 0 {
            write!(f, ", {} timers cancelled", self.cancelled)?;
        }
        for stuck in &self.stuck {
            write!(f, ", `{}` still runs on {}", stuck.task, stuck.thread)?;
        }
        Ok(())
    }
}
