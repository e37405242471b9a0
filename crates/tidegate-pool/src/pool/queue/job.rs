//! A job: a task with the data that a pool needs to queue it.

use std::fmt;

use tidegate_core::{CancelToken, Task};

use super::job_queue::JobKey;

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
    /// Whether the job is of the lane of internal jobs.
    is_internal: bool,
    /// When the job was accepted, if the pool measures times. In a stand-in: the key of its job.
    pub(crate) since: u64,
}

impl Job {
    /// Creates a job that runs `task`.
    pub fn new(task: Task) -> Self {
        Self {
            task,
            token: None,
            criticality: 0,
            is_internal: false,
            since: 0,
        }
    }

    /// Creates a job of the runtime itself.
    pub(crate) fn internal(task: Task) -> Self {
        Self {
            is_internal: true,
            ..Self::new(task)
        }
    }

    /// Returns `true` if the job is of the runtime itself, whichever way it came.
    pub(crate) fn is_internal(&self) -> bool {
        self.is_internal || self.task.is_internal()
    }

    /// Creates what the user's queue gets in place of this job. Its `since` becomes the key of the
    /// job.
    pub(crate) fn stand_in(&self) -> Self {
        Self {
            token: self.token.clone(),
            criticality: self.criticality,
            ..Self::new(Task::named(self.name(), || ()))
        }
    }

    /// Returns the key of the job for which this stands in.
    pub(crate) fn stands_for(&self) -> JobKey {
        JobKey(self.since)
    }

    /// Sets how critical the job is; higher is more critical. The default queue ignores it.
    pub fn with_criticality(mut self, criticality: u8) -> Self {
        self.criticality = criticality;
        self
    }

    /// Sets a cancellation token. Cancelling it ends a wait for a place in the queue, and prevents
    /// the job from running if it has not started. A queued job keeps its place until then, unless
    /// its [handle](crate::JobHandle::remove) removes it.
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
