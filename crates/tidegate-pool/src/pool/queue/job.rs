//! A job: a task with the data that a pool needs to queue it.

use std::fmt;

use tidegate_core::{CancelToken, Task};

/// A task, its criticality and its cancellation token.
///
/// ```
/// use tidegate_pool::queue::Job;
/// use tidegate_core::{CancelToken, Task};
///
/// let token = CancelToken::new();
/// let job = Job::new(Task::named("report", || ())).with_criticality(2).token(&token);
/// assert_eq!((job.name(), job.criticality()), ("report", 2));
/// ```
#[must_use = "a job does nothing until it is given to a pool"]
pub struct Job {
    task: Task,
    token: Option<CancelToken>,
    criticality: u8,
    /// When the job was accepted, if the pool measures times.
    pub(crate) since: u64,
}

impl Job {
    /// Creates a job that runs `task`.
    pub fn new(task: Task) -> Self {
        Self {
            task,
            token: None,
            criticality: 0,
            since: 0,
        }
    }

    /// Sets how critical the job is; higher is more critical. The default queue ignores it.
    pub fn with_criticality(mut self, criticality: u8) -> Self {
        self.criticality = criticality;
        self
    }

    /// Sets a cancellation token. Cancelling it ends a wait for a place in the queue, and prevents
    /// the job from running if it has not started. To also remove the job from the queue at once,
    /// see [`JobHandle::remove_on_cancel`](crate::JobHandle::remove_on_cancel).
    pub fn token(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.clone());
        self
    }

    /// Returns the task's name.
    pub fn name(&self) -> &'static str {
        self.task.name()
    }

    /// Returns the value given to [`Job::with_criticality`], or 0.
    pub fn criticality(&self) -> u8 {
        self.criticality
    }

    /// Returns `true` if the job's token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns the task.
    pub fn into_task(self) -> Task {
        self.task
    }

    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    pub(crate) fn cancel_token(&self) -> Option<&CancelToken> {
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
            .field("criticality", &self.criticality)
            .finish_non_exhaustive()
    }
}
