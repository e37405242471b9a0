//! The report of a pool's end.

use std::fmt;

use tidegate_promise::SharedCompletion;

use crate::executor::{HandedBack, ShutdownError};

/// The completion of a pool's end.
pub type Stopped = SharedCompletion<ShutdownReport, ShutdownError>;

/// What a pool did while it stopped. Clones share the tasks that were handed back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Jobs that ended after the pool was asked to stop.
    pub ran: u64,
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
            "{} jobs run, {} handed back",
            self.ran,
            self.handed_back.len()
        )?;
        for stuck in &self.stuck {
            write!(f, ", `{}` still runs on {}", stuck.task, stuck.thread)?;
        }
        Ok(())
    }
}
