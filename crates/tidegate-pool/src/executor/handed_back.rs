//! Tasks that an executor hands back when it ends.

use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_core::Task;
use tidegate_core::internal::discard_all;
use tidegate_core::internal::prim::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

use super::task_promise::drop_unstarted;

/// Tasks that a closing executor hands back, to be run elsewhere or dropped. Clones share them.
///
/// Take the tasks: from the report or the error of the shutdown, or from the executor itself with
/// its `handed_back` method. It does not matter which of them is used. Each task is taken once.
///
/// As long as a task is not taken, waiting for its completion fails with
/// [`NotStartedError`](crate::NotStartedError), and a future that is pending on the completion is
/// woken to return that error. When the last report and the last handle of the executor are
/// dropped, the completions of all remaining tasks fail with it.
///
/// The tasks of an event loop that is stuck arrive when the stuck task returns, and can be taken
/// from then on. Their listeners are called before that, when the shutdown has failed, on a
/// separate thread. A task whose waiter or listener was told of the failure does not run any more,
/// even if it is taken. A task that holds a handle of its own executor keeps itself and the executor
/// alive until it is taken or dropped; so does a call that holds its isolation. A task of an
/// [`OrderedView`](crate::OrderedView) belongs to the pool under the view.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Task;
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").max(1).build()?;
/// let (go_on, gone_on) = std::sync::mpsc::channel::<()>();
/// pool.execute(move || drop(gone_on.recv()))?; // keeps the only thread busy
/// let answer = pool.submit(|| 42)?;
/// pool.shutdown(Duration::ZERO).wait()?;
/// drop(go_on);
/// pool.handed_back().take().into_iter().for_each(Task::run);
/// assert_eq!(answer.wait()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HandedBack {
    /// One list per executor. The first one belongs to the executor that this value was created
    /// for.
    lists: Arc<[Arc<TaskList>]>,
}

/// The tasks that one executor hands back. Reports and handles share it.
#[derive(Default)]
struct TaskList {
    tasks: Mutex<Vec<Task>>,
    /// Set when the tasks are taken.
    taken: Arc<AtomicBool>,
    /// The lists of the views over the executor.
    of_views: Mutex<Vec<Arc<TaskList>>>,
}

/// The list of an executor, which may be gone.
#[derive(Clone)]
pub(crate) struct WeakHandedBack(Weak<TaskList>);

impl Default for HandedBack {
    fn default() -> Self {
        Self {
            lists: Arc::new([Arc::default()]),
        }
    }
}

impl HandedBack {
    /// Creates a value that has the tasks of all `others`. The others keep them as well: a task is
    /// gone from all of them once it is taken from one.
    #[doc(hidden)]
    pub fn of_all(others: &[Self]) -> Self {
        let mut lists = Vec::new();
        for other in others {
            lists.extend_from_slice(&other.lists);
        }
        if lists.is_empty() {
            return Self::default();
        }
        Self {
            lists: lists.into(),
        }
    }

    /// Returns the number of tasks that can be taken.
    pub fn len(&self) -> usize {
        self.lists.iter().map(|list| list.len()).sum()
    }

    /// Returns `true` if there are no tasks to take.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the tasks, oldest first. Tasks that arrive later can be taken with another call.
    pub fn take(&self) -> Vec<Task> {
        let mut all = Vec::new();
        for list in &*self.lists {
            list.take_into(&mut all);
        }
        all
    }

    /// Returns the flag that is set when tasks are taken: they may then start elsewhere.
    #[doc(hidden)]
    pub fn taken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lists[0].taken)
    }

    /// Adds tasks, and drops those of the runtime itself: of such a task, the user could only wait
    /// for its drop, and it may hold the executor whose list this is.
    #[doc(hidden)]
    pub fn add(&self, tasks: impl IntoIterator<Item = Task>) {
        let (internal, users): (Vec<_>, Vec<_>) = tasks.into_iter().partition(Task::is_internal);
        self.lists[0].lock().extend(users);
        discard_all(internal);
    }

    /// Returns a reference to the tasks of the first list that does not keep them.
    pub(crate) fn downgrade(&self) -> WeakHandedBack {
        WeakHandedBack(Arc::downgrade(&self.lists[0]))
    }
}

impl WeakHandedBack {
    /// Returns the tasks, unless nothing keeps them any more.
    pub(crate) fn upgrade(&self) -> Option<HandedBack> {
        Some(HandedBack {
            lists: Arc::new([self.0.upgrade()?]),
        })
    }

    /// Makes the list have and keep the tasks of a view, if it is not gone.
    pub(crate) fn keep(&self, of_view: &HandedBack) {
        if let Some(list) = self.0.upgrade() {
            lock(&list.of_views).extend_from_slice(&of_view.lists);
        }
    }
}

impl TaskList {
    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        lock(&self.tasks)
    }

    fn len(&self) -> usize {
        let of_views = lock(&self.of_views);
        self.lock().len() + of_views.iter().map(|list| list.len()).sum::<usize>()
    }

    fn take_into(&self, all: &mut Vec<Task>) {
        let mut tasks = self.lock();
        // An empty list is not marked as taken: a loop that is stuck may still fill it.
        if !tasks.is_empty() {
            self.taken.store(true, Ordering::Relaxed);
            all.append(&mut tasks);
        }
        drop(tasks);
        let of_views = lock(&self.of_views);
        of_views.iter().for_each(|list| list.take_into(all));
    }
}

impl Drop for TaskList {
    /// Drops the remaining tasks one by one, so that a panic in one does not affect the others.
    /// This is not done in `Drop` of the handle: if the last two handles are dropped at the same
    /// time, neither of them sees that it is the last.
    fn drop(&mut self) {
        drop_unstarted(std::mem::take(&mut *self.lock()));
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
        let [own, others] = [self, other].map(|one| one.lists.iter().map(Arc::as_ptr));
        own.eq(others)
    }
}

impl Eq for HandedBack {}
