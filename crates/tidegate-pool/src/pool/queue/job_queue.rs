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
/// * Each stand-in that was pushed is returned once, by `pop`, `remove` or `displace`. Nothing else is
///   returned. `pop` returns a stand-in as long as there is one.
/// * No method panics, blocks or uses the pool: the pool's lock is held.
///
/// The pool trusts its queue. A queue that loses or invents a job, or that panics, ends the pool: it
/// is closed, its queued jobs fail with [`DisplacedError`](crate::DisplacedError), and those that run
/// go on. That is reported once, with what the queue did, to the pool's hook as
/// [`Unhandled::PartFailed`](tidegate_core::Unhandled::PartFailed).
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
    /// Removes and returns the job that makes room for `by`, or `None` if `by` should be refused. Only
    /// a pool with [`PoolPolicy::DropOldest`](crate::PoolPolicy::DropOldest) asks; without this method
    /// it refuses.
    fn displace(&mut self, _by: &Job) -> Option<Job> {
        None
    }
}
