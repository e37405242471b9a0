//! The trait of a queue, which decides the order of waiting jobs. Users may implement it.

use super::job::Job;

/// Identifies a job in its queue. The queue decides what the number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobKey(pub u64);

/// The result of [`JobQueue::pop`].
#[derive(Debug)]
pub enum Popped {
    /// A job to run.
    Run(Job),
    /// A job that the queue sheds, for instance because it has waited too long. It is dropped, and
    /// its completion fails with [`DisplacedError`](crate::DisplacedError).
    Shed(Job),
}

/// The order in which waiting jobs run.
///
/// The queue does not limit its length. When a job arrives, the pool compares [`JobQueue::len`]
/// with its current bound. A bound that is lowered below the queue's length only keeps new jobs
/// out. Every method is called with the pool's lock held, so it must be quick and must not call the
/// pool.
///
/// ```
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
///
/// /// Newest first.
/// #[derive(Default)]
/// struct Stack(JobList);
///
/// impl JobQueue for Stack {
///     fn push(&mut self, job: Job) -> JobKey { self.0.push_back(job) }
///     fn pop(&mut self) -> Option<Popped> { self.0.pop_back().map(Popped::Run) }
///     fn remove(&mut self, key: JobKey) -> Option<Job> { self.0.remove(key) }
///     fn displace(&mut self, _by: &Job) -> Option<Job> { self.0.pop_front() }
///     fn len(&self) -> usize { self.0.len() }
/// }
///
/// let pool = WorkerPool::builder("workers").queue_of(Stack::default()).build()?;
/// assert_eq!(pool.submit(|| 7)?.wait()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait JobQueue: Send + 'static {
    /// Adds a job. The key is valid until the job is removed. It must not identify another job as
    /// long as a caller may still hold it.
    fn push(&mut self, job: Job) -> JobKey;
    /// Removes and returns the next job.
    fn pop(&mut self) -> Option<Popped>;
    /// Removes and returns the job with this key, or `None` if it is no longer queued.
    fn remove(&mut self, key: JobKey) -> Option<Job>;
    /// Removes and returns the job that makes room for `by`, or `None` if `by` should be refused.
    fn displace(&mut self, by: &Job) -> Option<Job>;
    /// Returns the number of queued jobs.
    fn len(&self) -> usize;
    /// Returns `true` if no job is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
