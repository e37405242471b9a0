//! The handle of an ordered view.

use std::fmt;
use std::sync::Arc;

use tidegate_core::executor::Work;
use tidegate_core::{Executor, Rejected, Task};
use tidegate_promise::{Completion, Promise, promise_on};

use crate::executor::{HandedBack, TaskPromise, delegate_executor};

use super::turn::Shared;

/// Runs tasks one at a time and in order, on any free thread of an unordered executor.
///
/// Use a view for work that must not overlap but may run on any thread, such as the handlers of a
/// connection on a pool. Each view has its own order and its own bound. Clones are the same view.
/// Accepted tasks run even if the last clone is dropped.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use tidegate_pool::OrderedView;
/// use tidegate_core::ThreadBuilder;
/// use tidegate_core::thread::ThreadPerTask;
///
/// let threads = ThreadPerTask::new(ThreadBuilder::new("job"));
/// let view = OrderedView::over(Arc::new(threads))?;
/// let (tx, rx) = mpsc::channel();
/// for number in 0..3 {
///     let tx = tx.clone();
///     view.execute(move || tx.send(number).unwrap())?;
/// }
/// drop(tx);
/// assert_eq!(rx.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OrderedView {
    pub(super) shared: Arc<Shared>,
}

impl OrderedView {
    pub(super) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs `run` after all tasks that this thread submitted to the view before.
    ///
    /// # Errors
    ///
    /// Returns the closure's task if the view is full or the underlying executor refuses. From the
    /// shutdown of a pool on, all its views refuse with `RejectReason::Closed`, like the pool.
    ///
    /// # Threads
    ///
    /// Can be called from any thread. `run` runs on a thread of the underlying executor, never at
    /// the same time as another task of this view. A panic in `run` is reported to that executor
    /// and affects no other task.
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.shared.submit(Task::new(run))
    }

    /// Runs `run` like [`OrderedView::execute`] and returns a completion for its result. Its listeners
    /// run in this view's order. Cancelling it before `run` has started prevents it from running.
    ///
    /// # Errors
    ///
    /// As for [`OrderedView::execute`].
    pub fn submit<T, F>(&self, run: F) -> Result<Completion<T>, Rejected<Task>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, completion) = TaskPromise::of(&self.shared, Work::Submitted);
        let task = Task::labelled::<F, _>(move || answer.run(run));
        self.shared.submit(task).map(|()| completion)
    }

    /// Creates a promise whose listeners run in this view's order.
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::<Shared>::clone(&self.shared))
    }

    /// Returns `true` if the calling thread is running this view's tasks right now.
    pub fn is_current(&self) -> bool {
        self.shared.is_current()
    }

    /// Returns the view's name.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Returns the number of tasks that were accepted and have not started.
    pub fn pending_tasks(&self) -> usize {
        self.shared.pending_tasks()
    }

    /// Returns how many tasks and signals have panicked so far.
    pub fn panics(&self) -> u64 {
        self.shared.panics()
    }

    /// Returns how many scheduled tasks were refused when they were due.
    pub fn refused_tasks(&self) -> u64 {
        self.shared.refused_tasks()
    }

    /// Returns the tasks that were accepted and will not run because the underlying executor ended
    /// while the view ran another one, or because the view's turn was dropped. If there is such a
    /// task, the view is closed.
    ///
    /// If the view runs on a pool, these tasks are also among those that the *pool* hands back. They
    /// are dropped with the last report and the last handle of the pool, unless they were taken. Over
    /// another executor they are dropped with the last clone of the view; a task that holds the view
    /// then keeps it alive until the task is taken.
    ///
    /// A view that waits for a thread when its pool ends is one task of the pool. That task runs all
    /// tasks of the view in order. If it is dropped, or run by a thread of the pool that has ended,
    /// they are here.
    pub fn handed_back(&self) -> HandedBack {
        self.shared.handed_back()
    }
}

impl Clone for OrderedView {
    fn clone(&self) -> Self {
        self.shared.add_handle();
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for OrderedView {
    fn drop(&mut self) {
        self.shared.drop_handle();
    }
}

delegate_executor!(OrderedView);

impl fmt::Debug for OrderedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedView")
            .field("name", &self.name())
            .field("pending_tasks", &self.pending_tasks())
            .finish_non_exhaustive()
    }
}
