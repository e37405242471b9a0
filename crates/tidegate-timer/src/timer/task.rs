//! What a timeout runs, where, and what it runs instead when it is cancelled.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Executor, Task};

/// What to run when a timeout expires, with what most timeouts do not need.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tidegate_timer::{TimerTask, WheelTimer};
///
/// let timer = WheelTimer::new();
/// let (told, heard) = mpsc::channel();
/// let task = TimerTask::new(|| println!("too slow")).on_cancel(move || told.send("in time").unwrap());
/// let handle = timer.add(Duration::from_secs(60), task)?;
/// handle.cancel();
/// assert_eq!(heard.recv(), Ok("in time"));
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
    /// Runs `run`, on the timer's executor or, if it has none, on its own thread.
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self::from(Task::new(run))
    }

    /// Runs it on `executor` instead of where the timer runs the others.
    pub fn on(mut self, executor: Arc<dyn Executor>) -> Self {
        self.extras().executor = Some(executor);
        self
    }

    /// Runs `hook` if the timeout is cancelled or its timer stops: at once, on the thread that
    /// does it, exactly once.
    pub fn on_cancel(mut self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.extras().on_cancel = Some(Task::new(hook));
        self
    }

    /// The task itself; what was said beside it is dropped.
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
