//! The one small trait through which every lower crate knows a place where tasks run.

use std::any::Any;

use super::id::ExecutorId;
use super::rejected::Rejected;
use crate::{Clock, OnUnhandled, Signal, Task, Unhandled, WaitRefused};

/// A place where tasks run: an event loop, a pool, a view over one.
///
/// `execute` takes what users submit and may refuse it. `signal` takes what was accepted
/// earlier and only has to be told (a completed promise, a woken future); it refuses only when
/// the place is gone for good.
///
/// ```
/// use tidegate_core::{Executor, Task, ThreadPerTask, ThreadBuilder};
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
    /// The task itself, when the place is full or closed.
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>>;

    /// Accepts a task of the runtime's own, such as a helper that is to produce, or the start of a
    /// loop. An executor with a lane for those refuses none for want of room; any other takes it
    /// like the rest.
    ///
    /// # Errors
    ///
    /// The task itself, when the executor has ended, or is full and has no such lane.
    fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.execute(task)
    }

    /// Accepts `signal`, which will be delivered on this executor.
    ///
    /// # Errors
    ///
    /// The signal itself, when this executor has terminated.
    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>>;

    /// Whether the calling thread is running this executor's work right now.
    fn is_current(&self) -> bool;

    /// This executor's identity.
    fn id(&self) -> ExecutorId;

    /// What this executor is called in errors and reports.
    fn name(&self) -> &str;

    /// The clock by which this executor waits.
    fn clock(&self) -> &Clock;

    /// How many of its tasks can run at the same time; a loop runs one.
    fn width(&self) -> usize {
        1
    }

    /// Whether tasks that it accepted and has not begun will not begin here: it has ended, or its
    /// end was given up, and nobody has taken them. Whoever waits for such a task hears so. Never,
    /// by default.
    fn has_left_tasks(&self) -> bool {
        false
    }

    /// Called before the calling thread waits for something of this executor; what it returns is held
    /// for as long as the wait lasts. For an executor that knows more of who waits for whom than the
    /// record of waits does.
    ///
    /// # Errors
    ///
    /// A [`WaitRefused`] when the wait would never end.
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefused> {
        Ok(None)
    }

    /// Hears of what nobody else handles: a panicking listener, a listener that had to run
    /// elsewhere. Called on the thread where it happened, with no lock held. By default it goes to
    /// [`OnUnhandled::stderr`].
    fn unhandled(&self, what: &Unhandled<'_>) {
        OnUnhandled::stderr().tell(self.name(), what);
    }
}
