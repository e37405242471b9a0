//! Tasks that an executor gives back when it ends.

use std::fmt;
use std::sync::{Arc, PoisonError};

use tidegate_core::Task;
use tidegate_core::prim::{AtomicBool, Mutex, MutexGuard, Ordering};

use super::answer::drop_untaken;

/// Tasks that a closing loop gives back, to be run elsewhere or dropped. Clones share them.
///
/// Take them: a wait for a submission that nobody has taken fails with
/// [`NeverBegun`](crate::NeverBegun), a future that is pending on it is woken to hear so, and its
/// completion fails with that when the last report goes. Of a loop that is stuck nothing can be
/// taken in time: listeners are told at once, on a thread of their own. A task
/// that holds a handle of its own loop keeps both until then.
#[derive(Clone)]
pub struct HandedBack {
    /// One for each loop; the first one is of the loop that this was made for.
    inner: Arc<Mutex<Vec<Parcel>>>,
}

impl Default for HandedBack {
    fn default() -> Self {
        Self {
            inner: Arc::new(Mutex::new(vec![Parcel::default()])),
        }
    }
}

impl HandedBack {
    /// How many tasks there are to take.
    pub fn len(&self) -> usize {
        self.lock().iter().map(|parcel| parcel.tasks.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the tasks, oldest first.
    pub fn take(&self) -> Vec<Task> {
        let mut all = Vec::new();
        for parcel in &mut *self.lock() {
            // One that is empty may be filled later, by a loop that is stuck.
            if !parcel.tasks.is_empty() {
                parcel.taken.store(true, Ordering::Relaxed);
                all.append(&mut parcel.tasks);
            }
        }
        all
    }

    /// What says whether somebody took tasks: they are then no longer left.
    #[doc(hidden)]
    pub fn taken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lock()[0].taken)
    }

    /// Moves the tasks of another here; they are not taken by that.
    #[doc(hidden)]
    pub fn gather(&self, other: &Self) {
        let moved = |parcel: &mut Parcel| Parcel {
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

    fn lock(&self) -> MutexGuard<'_, Vec<Parcel>> {
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

/// What one loop hands back.
#[derive(Default)]
struct Parcel {
    tasks: Vec<Task>,
    /// Set when somebody takes them.
    taken: Arc<AtomicBool>,
}

impl Drop for Parcel {
    /// Tasks that nobody took are dropped one by one: a panic in one does not keep the others.
    /// Here and not with the handle: of two last handles that go at once, neither is alone.
    fn drop(&mut self) {
        drop_untaken(std::mem::take(&mut self.tasks));
    }
}
