//! Tasks that an executor hands back when it ends.

use std::fmt;
use std::sync::{Arc, PoisonError};

use tidegate_core::Task;
use tidegate_core::internal::prim::{AtomicBool, Mutex, MutexGuard, Ordering};

use super::task_promise::drop_unstarted;

/// Tasks that a closing event loop hands back, to be run elsewhere or dropped. Clones share them.
///
/// Take the tasks. As long as a task is not taken, waiting for its completion fails with
/// [`NotStartedError`](crate::NotStartedError), and a future that is pending on the completion is
/// woken to return that error. When the last report is dropped, the completions of all remaining
/// tasks fail with it. The tasks of an event loop that is stuck cannot be taken in time, so their
/// listeners are called at once, on a separate thread. A task that holds a handle of its own loop
/// keeps itself and the loop alive until it is taken or dropped.
#[derive(Clone)]
pub struct HandedBack {
    /// One entry per event loop. The first entry belongs to the loop that this value was created
    /// for.
    inner: Arc<Mutex<Vec<HandedBackTasks>>>,
}

impl Default for HandedBack {
    fn default() -> Self {
        Self {
            inner: Arc::new(Mutex::new(vec![HandedBackTasks::default()])),
        }
    }
}

impl HandedBack {
    /// Returns the number of tasks that can be taken.
    pub fn len(&self) -> usize {
        self.lock().iter().map(|parcel| parcel.tasks.len()).sum()
    }

    /// Returns `true` if there are no tasks to take.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the tasks, oldest first.
    pub fn take(&self) -> Vec<Task> {
        let mut all = Vec::new();
        for parcel in &mut *self.lock() {
            // An empty entry is not marked as taken: a loop that is stuck may still fill it.
            if !parcel.tasks.is_empty() {
                parcel.taken.store(true, Ordering::Relaxed);
                all.append(&mut parcel.tasks);
            }
        }
        all
    }

    /// Returns the flag that is set when tasks are taken: they may then start elsewhere.
    #[doc(hidden)]
    pub fn taken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lock()[0].taken)
    }

    /// Moves the tasks of `other` into this value. This does not count as taking them.
    #[doc(hidden)]
    pub fn gather(&self, other: &Self) {
        let moved = |parcel: &mut HandedBackTasks| HandedBackTasks {
            tasks: std::mem::take(&mut parcel.tasks),
            taken: Arc::clone(&parcel.taken),
        };
        let parcels: Vec<_> = other.lock().iter_mut().map(moved).collect();
        self.lock().extend(parcels);
    }

    /// Adds tasks.
    #[doc(hidden)]
    pub fn add(&self, tasks: impl IntoIterator<Item = Task>) {
        self.lock()[0].tasks.extend(tasks);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<HandedBackTasks>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HandedBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedBack")
            .field("tasks", &self.len())
            .finish()
    }
}

impl PartialEq for HandedBack {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for HandedBack {}

/// The tasks that one event loop hands back.
#[derive(Default)]
struct HandedBackTasks {
    tasks: Vec<Task>,
    /// Set when the tasks are taken.
    taken: Arc<AtomicBool>,
}

impl Drop for HandedBackTasks {
    /// Drops the remaining tasks one by one, so that a panic in one does not affect the others.
    /// This is not done in `Drop` of the handle: if the last two handles are dropped at the same
    /// time, neither of them sees that it is the last.
    fn drop(&mut self) {
        drop_unstarted(std::mem::take(&mut self.tasks));
    }
}
