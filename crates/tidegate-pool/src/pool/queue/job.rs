//! A job: a task on its way through a pool.

use std::fmt;

use tidegate_core::{CancelToken, Task};

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
    pub(crate) since: u64,
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
    /// [`JobHandle::remove_on`](crate::JobHandle::remove_on).
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
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}
