//! The progress of a shutdown. The core keeps it, and `steps.rs` advances it.

use tidegate_pool::ShutdownError;

use super::report::ShutdownReport;
use super::termination::Outcome;

/// The progress of a shutdown, as the event loop's thread keeps it.
#[derive(Default)]
pub(crate) struct Progress {
    pub(super) begun: Option<ShutdownStart>,
    /// The error, if the event loop does not end as requested.
    pub(super) failed: Option<ShutdownError>,
    pub(super) over: bool,
}

pub(super) struct ShutdownStart {
    /// The number of tasks that had been started when the shutdown began.
    pub(super) started: u64,
    /// The last time at which something ran.
    pub(super) last_work: u64,
    pub(super) report: ShutdownReport,
}

impl Progress {
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the number of hooks that ran so far.
    pub(crate) fn hooks(&self) -> u64 {
        self.begun.as_ref().map_or(0, |begun| begun.report.hooks)
    }

    /// Records that the shutdown has begun. `started` returns how many tasks had been started.
    pub(super) fn begin(&mut self, now: u64, started: impl FnOnce() -> u64) -> &mut ShutdownStart {
        self.begun.get_or_insert_with(|| ShutdownStart {
            started: started(),
            last_work: now,
            report: ShutdownReport::default(),
        })
    }

    /// Returns the outcome of the shutdown.
    pub(crate) fn finish(&mut self) -> Outcome {
        let report = self.begun.take().map(|begun| begun.report);
        match self.failed.take() {
            Some(why) => Err(why),
            None => Ok(report.unwrap_or_default()),
        }
    }
}
