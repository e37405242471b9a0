//! The [`Executor`] trait: the small interface of a place where tasks run. The crates below the
//! pool and the loop, such as the promise crate, know pools and loops only by this trait.

use std::any::Any;
use std::sync::Arc;

use super::id::ExecutorId;
use super::needs::{Need, Work};
use super::rejected::Rejected;
use super::watch_list::WatchList;
use crate::raw::signal::Signal;
use crate::{Clock, OnUnhandled, Task, Unhandled, WaitRefusedError};

/// A place where tasks run: an event loop, a pool, or a view over a pool.
///
/// `execute` takes tasks that users submit and may refuse them. `signal` takes work that was
/// accepted earlier and only needs a notification (a completed promise, a woken future); it refuses
/// only when the executor has terminated, or cannot start the thread that it needs.
///
/// ```
/// use tidegate_core::{Executor, Task, ThreadBuilder};
/// use tidegate_core::thread::ThreadPerTask;
///
/// let threads = ThreadPerTask::new(ThreadBuilder::new("job"));
/// let (tx, rx) = std::sync::mpsc::channel();
/// threads.execute(Task::new(move || tx.send(1).unwrap())).unwrap();
/// assert_eq!(rx.recv(), Ok(1));
/// ```
pub trait Executor: Send + Sync + 'static {
    /// Accepts `task`, which will then run exactly once or be handed back at shutdown.
    ///
    /// # Errors
    ///
    /// The task itself, when the executor is full or closed.
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>>;

    /// Accepts a task of the runtime itself, such as the task that makes a pool thread the producer
    /// of a strategy, or the start of a loop. An executor with a lane for such tasks never refuses
    /// them because it is full, and runs them as long as it has a thread, even after its shutdown;
    /// any other executor treats them like all tasks.
    ///
    /// # Errors
    ///
    /// The task itself, when the executor has ended, or is full and has no such lane.
    fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.execute(task)
    }

    /// Accepts `task` like [`Executor::execute`], or refuses it at once: does not wait for room, and
    /// does not run this task or another one on the calling thread. An executor without a policy
    /// for refused tasks need not implement it.
    ///
    /// # Errors
    ///
    /// The task itself, when the executor is full or closed.
    #[doc(hidden)]
    fn offer_task(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.execute(task)
    }

    /// Returns what this executor shares with the ordered views over it. Its type belongs to the
    /// crate of the pool. `None` if it shares nothing.
    #[doc(hidden)]
    fn shared_with_views(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Accepts `signal`, which will be delivered on this executor.
    ///
    /// # Errors
    ///
    /// The signal itself, when this executor has terminated or cannot start a thread for it.
    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>>;

    /// Returns `true` if the calling thread is running this executor's work right now.
    fn is_current(&self) -> bool;

    /// Returns this executor's identity.
    fn id(&self) -> ExecutorId;

    /// Returns this executor's name in errors and reports.
    fn name(&self) -> &str;

    /// Returns the clock by which this executor waits.
    fn clock(&self) -> &Clock;

    /// Returns how many tasks of this executor can run at the same time; a loop runs one.
    fn width(&self) -> usize {
        1
    }

    /// Returns how many threads this executor may have in all, with those on which its tasks cannot
    /// rely. The default is the width.
    #[doc(hidden)]
    fn most_threads(&self) -> usize {
        self.width()
    }

    /// Returns what `work` of this executor needs before it can run, for the check for a circular
    /// wait. The default is one of its threads.
    #[doc(hidden)]
    fn needs(&self, work: Work) -> Vec<Need> {
        let _ = work;
        vec![Need::thread_of(self.id())]
    }

    /// Returns `true` if accepted tasks that have not started will never start: the executor has
    /// ended or its shutdown was given up, and in both cases no caller has taken the tasks to run
    /// them elsewhere. A waiter for such a task gets an error. The default is `false`.
    fn has_abandoned_tasks(&self) -> bool {
        false
    }

    /// Returns what waits for tasks that this executor may never start. `None` if it hands out no
    /// completions of tasks.
    #[doc(hidden)]
    fn watch_list(&self) -> Option<&Arc<WatchList>> {
        None
    }

    /// Called before the calling thread waits for something of this executor. The returned guard is
    /// held until the wait ends. Not called for a wait that skips the check for a circular wait. An
    /// executor implements this to refuse a deadlock that the wait record (module `wait`) cannot
    /// detect.
    ///
    /// # Errors
    ///
    /// A [`WaitRefusedError`] when the wait would never end.
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        Ok(None)
    }

    /// Receives errors that no other code handles: a panicking listener, or a listener that ran on
    /// another thread because this executor did not take its signal. Called on the thread where the
    /// error happened, with no lock held. The default reports to [`OnUnhandled::default`].
    fn unhandled(&self, what: &Unhandled<'_>) {
        OnUnhandled::default().report(self.name(), what);
    }
}
