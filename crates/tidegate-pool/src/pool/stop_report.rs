//! What a pool reports of its end.

use std::fmt;

use tidegate_promise::SharedCompletion;

use crate::executor::{HandedBack, ShutdownError};

/// The end of a pool, for whoever wants to know.
pub type Stopped = SharedCompletion<StopReport, ShutdownError>;

/// What a pool did on its way out. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Jobs that ran to their end after the pool was asked to stop.
    pub ran: u64,
    /// Jobs that were accepted and had not started at the deadline.
    pub handed_back: HandedBack,
    /// Jobs that had not returned at the deadline. Their threads end when they do.
    pub stuck: Vec<StuckJob>,
}

/// A job that did not return in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckJob {
    /// Its thread.
    pub thread: String,
    /// The job's name.
    pub task: &'static str,
}

impl fmt::Display for StopReport {
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
