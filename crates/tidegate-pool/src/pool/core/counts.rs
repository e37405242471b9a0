//! The counters of a pool: those under its lock, and atomic ones beside it.

use std::sync::atomic::AtomicU64;

use tidegate_core::internal::trace::EventLimit;

use crate::pool::metrics::JobTimes;

/// Counters that are accessed only with the lock held. Those that each job changes come first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) done: u64,
    pub(super) wakeups: u64,
    pub(super) most_queued: usize,
    pub(super) removed: u64,
    pub(super) displaced: u64,
    pub(super) shed: u64,
    pub(super) started_threads: u64,
    pub(super) ended_threads: u64,
    pub(super) most_threads: usize,
    pub(super) failed_starts: u64,
    pub(super) waits: JobTimes,
    pub(super) runs: JobTimes,
}

/// The times of one job.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobDuration {
    pub(super) waited: u64,
    pub(super) ran: u64,
}

impl Counts {
    /// Counts the jobs that a worker has run since its last visit to the dispatcher: none or one.
    pub(super) fn add_done(&mut self, jobs: u64, took: Option<JobDuration>) {
        self.done += jobs;
        if let Some(took) = took {
            self.waits.add(took.waited);
            self.runs.add(took.ran);
        }
    }
}

/// Atomic counters that need no lock.
#[derive(Debug, Default)]
pub(super) struct AtomicCounters {
    pub(super) refused: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) caller_ran: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) reserve_hits: AtomicU64,
    pub(super) reserve_misses: AtomicU64,
    /// For the events of refused jobs.
    pub(super) refusals: EventLimit,
}
