//! The handle that removes an accepted job from the queue.

use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_core::Task;

use super::core::Shared;
use super::queue::JobKey;

/// Removes an accepted job from a pool's queue, as long as the job is queued.
///
/// ```
/// use std::sync::mpsc;
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::queue::Job;
/// use tidegate_core::Task;
///
/// let pool = WorkerPool::builder("workers").core(1).max(1).build()?;
/// let (go_on, gone_on) = mpsc::channel::<()>();
/// pool.execute(move || drop(gone_on.recv()))?; // keeps the only thread busy
/// let queued = pool.enqueue(Job::new(Task::named("late", || ())))?;
/// let task = queued.remove().expect("it has not started");
/// assert_eq!(task.name(), "late");
/// assert!(queued.remove().is_none());
/// drop(go_on);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct JobHandle {
    pool: Weak<Shared>,
    /// `None` if the job was never queued.
    key: Option<JobKey>,
}

impl JobHandle {
    pub(super) fn new(pool: &Arc<Shared>, key: Option<JobKey>) -> Self {
        Self {
            pool: Arc::downgrade(pool),
            key,
        }
    }

    /// Removes the job from the queue and frees its place, in constant time with the default queue.
    /// Returns `None` if the job has started, or was removed or displaced before.
    pub fn remove(&self) -> Option<Task> {
        let pool = self.pool.upgrade()?;
        Some(pool.remove(self.key?)?.into_task())
    }

    /// Returns `true` if the job was queued when it was accepted.
    pub fn was_queued(&self) -> bool {
        self.key.is_some()
    }
}

impl fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("was_queued", &self.was_queued())
            .finish_non_exhaustive()
    }
}
