//! A job: a task on its way through a pool, and the handle that takes it back out.

use std::fmt;
use std::sync::Weak;

use tidegate_core::{CancelHook, CancelToken, Task};

use super::queue::JobKey;
use super::shared::Shared;

/// A task with what a queue and a policy may want to know of it.
///
/// ```
/// use tidegate_pool::Job;
/// use tidegate_core::{CancelToken, Task};
///
/// let token = CancelToken::new();
/// let job = Job::new(Task::named("report", || ())).class(2).token(&token);
/// assert_eq!((job.name(), job.criticality()), ("report", 2));
/// ```
#[must_use = "a job does nothing until it is given to a pool"]
pub struct Job {
    task: Task,
    token: Option<CancelToken>,
    class: u8,
    /// When it was accepted, in a pool that measures times.
    pub(super) since: u64,
}

impl Job {
    /// A job that runs `task`.
    pub fn new(task: Task) -> Self {
        Self {
            task,
            token: None,
            class: 0,
            since: 0,
        }
    }

    /// How critical the job is; more is more. The default queue does not look.
    pub fn class(mut self, class: u8) -> Self {
        self.class = class;
        self
    }

    /// Ends waits for a place when the token is tripped, and keeps the job from running if that
    /// happens before it starts. To take it out of the queue at once, see
    /// [`JobHandle::remove_on`].
    pub fn token(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.clone());
        self
    }

    /// The task's name.
    pub fn name(&self) -> &'static str {
        self.task.name()
    }

    /// What was given to [`Job::class`]; 0 otherwise.
    pub fn criticality(&self) -> u8 {
        self.class
    }

    /// Whether the job's token was tripped.
    pub fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// The task itself.
    pub fn into_task(self) -> Task {
        self.task
    }

    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    pub(super) fn cancel_token(&self) -> Option<&CancelToken> {
        self.token.as_ref()
    }
}

impl From<Task> for Job {
    fn from(task: Task) -> Self {
        Self::new(task)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name())
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

/// Takes an accepted job back out of a pool's queue, as long as it lies there.
///
/// ```
/// use std::sync::mpsc;
/// use tidegate_pool::{Job, WorkerPool};
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
    pub(super) pool: Weak<Shared>,
    /// `None`: it never lay in the queue.
    pub(super) key: Option<JobKey>,
}

impl JobHandle {
    /// Takes the job out of the queue, in constant time with the default queue, and frees its
    /// place. `None` if it has started, or was taken out or displaced before.
    pub fn remove(&self) -> Option<Task> {
        let pool = self.pool.upgrade()?;
        Some(pool.remove(self.key?)?.into_task())
    }

    /// Takes the job out and drops it when `token` is tripped, on the thread that trips it. Hold
    /// the answer for as long as this is wanted.
    pub fn remove_on(&self, token: &CancelToken) -> CancelHook {
        let handle = self.clone();
        token.on_cancel(move || drop(handle.remove()))
    }

    /// Whether the job had to wait for a thread when it was accepted.
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
