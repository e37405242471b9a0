//! The handle of an ordered view.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Executor, Rejected, Task};
use tidegate_promise::{Completion, Promise, promise_on};

use crate::executor::{HandedBack, delegate_executor};

use super::turn::Shared;

/// Runs tasks one at a time, in order, on whichever thread of an unordered executor is free.
///
/// For work that must not overlap and does not care about its thread: a connection's handlers on
/// a pool, say. Each view has its own order and its own bound. Clones are the same view; what
/// was accepted runs even when the last one is dropped.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use tidegate_pool::OrderedView;
/// use tidegate_core::{ThreadBuilder, ThreadPerTask};
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
#[derive(Clone)]
pub struct OrderedView {
    shared: Arc<Shared>,
}

impl OrderedView {
    pub(super) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs `run` after everything that this thread gave the view before.
    ///
    /// # Errors
    ///
    /// The closure's task, when the view is full or the executor below refuses.
    ///
    /// # Threads
    ///
    /// From any thread; `run` runs on a thread of the executor below, never at the same time as
    /// another task of this view. A panic in it is told to that executor and hurts nobody.
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.shared.submit(Task::new(run))
    }

    /// A promise whose listeners run in this view's order.
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::<Shared>::clone(&self.shared))
    }

    /// Whether the calling thread is the one that runs this view's tasks right now.
    pub fn is_current(&self) -> bool {
        self.shared.is_current()
    }

    /// The view's name.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Tasks accepted and not started.
    pub fn pending_tasks(&self) -> usize {
        self.shared.pending_tasks()
    }

    /// Tasks and signals that panicked so far.
    pub fn panics(&self) -> u64 {
        self.shared.panics()
    }

    /// Tasks that were accepted and will not run, because the executor below ended or dropped
    /// the view's turn. Once there is one the view is closed.
    pub fn handed_back(&self) -> HandedBack {
        self.shared.handed_back()
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
