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
/// The pool keeps the jobs. Its queue gets a stand-in for each of them, with the same name,
/// criticality and token and with an empty task, and returns the stand-in of the job that is next.
/// The queue does not limit its length: the pool compares the number of jobs with its current bound.
///
/// # Contract
///
/// * Each stand-in that was pushed is returned once, by `pop`, `remove` or `displace`, and `len` is
///   the number of those that were not returned.
/// * A method takes less than a second while other threads need the queue.
///
/// A queue that breaks this contract, or that panics, is not used any more: the jobs then run in the
/// order of their arrival. That is reported to the pool's hook as
/// [`Unhandled::PartFailed`](tidegate_core::Unhandled::PartFailed). No job is lost.
///
/// # Threads
///
/// The methods are called by one thread at a time, with no lock of the pool held, and may use the
/// pool: by a worker that is to run the next job, and, for [`JobQueue::displace`], by a submitter.
/// The queue therefore hears of a job when a thread is free for the next one.
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
    /// Adds a job. The key is valid until the job is returned.
    fn push(&mut self, job: Job) -> JobKey;
    /// Removes and returns the next job, or `None` if no job is queued.
    fn pop(&mut self) -> Option<Popped>;
    /// Removes and returns the job with this key, because it has left.
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
