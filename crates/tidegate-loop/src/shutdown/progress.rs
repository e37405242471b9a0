//! How far a loop has come with its end. Kept by its core, moved on by `steps.rs`.

use tidegate_pool::ShutdownError;

use super::report::ShutdownReport;
use super::termination::Outcome;

/// The loop's side of its own end.
#[derive(Default)]
pub(crate) struct Progress {
    pub(super) begun: Option<Begun>,
    /// Why the loop ends otherwise than asked.
    pub(super) failed: Option<ShutdownError>,
    pub(super) over: bool,
}

pub(super) struct Begun {
    /// Tasks that had been started when the end began.
    pub(super) started: u64,
    /// The last moment at which something ran.
    pub(super) last_work: u64,
    pub(super) report: ShutdownReport,
}

impl Progress {
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Hooks run so far.
    pub(crate) fn hooks(&self) -> u64 {
        self.begun.as_ref().map_or(0, |begun| begun.report.hooks)
    }

    /// Notes that the end has begun; `started` tells how many tasks had been started.
    pub(super) fn begin(&mut self, now: u64, started: impl FnOnce() -> u64) -> &mut Begun {
        self.begun.get_or_insert_with(|| Begun {
            started: started(),
            last_work: now,
            report: ShutdownReport::default(),
        })
    }

    /// How the loop ended.
    pub(crate) fn finish(&mut self) -> Outcome {
        let report = self.begun.take().map(|begun| begun.report);
        match self.failed.take() {
            Some(why) => Err(why),
            None => Ok(report.unwrap_or_default()),
        }
    }
}
