//! The task of a timeout, its executor, and its hook for cancellation.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Executor, Task};

/// The task to run when a timeout expires, with options that most timeouts do not need.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tidegate_timer::{TimerTask, WheelTimer};
///
/// let timer = WheelTimer::new();
/// let (sender, receiver) = mpsc::channel();
/// let task = TimerTask::new(|| println!("too slow")).on_cancel(move || sender.send("in time").unwrap());
/// let handle = timer.schedule_task(Duration::from_secs(60), task)?;
/// handle.cancel();
/// assert_eq!(receiver.recv(), Ok("in time"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it runs only when a timer has it"]
pub struct TimerTask {
    pub(super) task: Task,
    pub(super) extras: Option<Box<Extras>>,
}

#[derive(Default)]
pub(super) struct Extras {
    pub(super) executor: Option<Arc<dyn Executor>>,
    pub(super) on_cancel: Option<Task>,
}

impl TimerTask {
    /// Creates a task that runs `run` on the timer's executor or, if the timer has none, on its
    /// thread.
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self::from(Task::new(run))
    }

    /// Runs the task on `executor` instead of the timer's executor or thread.
    pub fn on(mut self, executor: Arc<dyn Executor>) -> Self {
        self.extras().executor = Some(executor);
        self
    }

    /// Runs `hook` exactly once if the timeout is cancelled or its timer stops. A cancellation runs
    /// the hook at once, on the cancelling thread; a stop runs it on the thread that collects the
    /// unfired timeouts.
    pub fn on_cancel(mut self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.extras().on_cancel = Some(Task::new(hook));
        self
    }

    /// Returns the task itself; its executor and hook are dropped.
    pub fn into_task(self) -> Task {
        self.task
    }

    fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

impl From<Task> for TimerTask {
    fn from(task: Task) -> Self {
        Self { task, extras: None }
    }
}

impl fmt::Debug for TimerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extras = self.extras.as_deref();
        f.debug_struct("TimerTask")
            .field("task", &self.task.name())
            .field("executor", &extras.is_some_and(|it| it.executor.is_some()))
            .field(
                "on_cancel",
                &extras.is_some_and(|it| it.on_cancel.is_some()),
            )
            .finish()
    }
}
