//! The threads of a pool: what each of them runs.
//!
//! The list has a lock of its own, so that a dump finds the threads also if the pool's lock is taken.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::{Running, RunningTask};

use crate::pool::queue::Job;
use crate::pool::raw::WorkerSlot;

/// The threads of a pool, from the moment that they are counted.
#[derive(Default)]
pub(super) struct Workers {
    entries: Mutex<Vec<Arc<WorkerEntry>>>,
}

/// One thread of a pool, started or about to start.
#[derive(Default)]
pub(crate) struct WorkerEntry {
    pub(super) worker_slot: Arc<WorkerSlot<Job>>,
    /// Shows the job from the moment that it can no longer be handed back until it is counted.
    pub(super) running: Arc<Running>,
    /// The thread's name, once the thread runs.
    pub(super) thread: OnceLock<String>,
    /// When the current job began, if the pool measures times; 0 if not known.
    pub(super) began: AtomicU64,
    /// What has become of the request for the thread: a step of `start`.
    pub(super) start: AtomicU8,
    /// The job that the last dump saw, and when the first dump saw it.
    seen: Mutex<Option<(u64, u64)>>,
}

impl Workers {
    /// Adds a thread. Called with the pool's lock held.
    pub(super) fn add(&self) -> Arc<WorkerEntry> {
        let entry = Arc::<WorkerEntry>::default();
        lock(&self.entries).push(Arc::clone(&entry));
        entry
    }

    /// Removes a thread that has ended or could not be started. Called with the pool's lock held.
    pub(super) fn remove(&self, entry: &Arc<WorkerEntry>) {
        lock(&self.entries).retain(|one| !Arc::ptr_eq(one, entry));
    }

    /// Returns all threads, oldest first.
    pub(super) fn list(&self) -> Vec<Arc<WorkerEntry>> {
        lock(&self.entries).clone()
    }
}

impl WorkerEntry {
    /// Returns for how many nanoseconds dumps have seen the thread in `task`, up to `now`.
    pub(super) fn seen_for(&self, task: &RunningTask, now: u64) -> u64 {
        let mut seen = lock(&self.seen);
        match *seen {
            Some((sequence, since)) if sequence == task.sequence => now.saturating_sub(since),
            _ => {
                *seen = Some((task.sequence, now));
                0
            }
        }
    }

    /// Returns for how many nanoseconds the current job has run, if the pool measures times.
    pub(super) fn ran_for(&self, now: u64) -> Option<u64> {
        match self.began.load(Ordering::Relaxed) {
            0 => None,
            began => Some(now.saturating_sub(began)),
        }
    }
}
