//! The order in which jobs wait: a small trait that users may implement.

use super::job::Job;

/// Names a job in the queue that it was put into; the queue decides what the number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobKey(pub u64);

/// What a queue gives a worker.
#[derive(Debug)]
pub enum Popped {
    /// A job to run.
    Run(Job),
    /// A job that the queue gives up, because it has waited too long for instance. It is
    /// dropped, and its completion fails as [`Displaced`](crate::Displaced).
    Shed(Job),
}

/// The order in which waiting jobs are run.
///
/// How many may wait is the pool's business: it asks for [`JobQueue::len`] when a job comes and
/// compares it with its live bound, so a bound that is lowered below what waits only keeps new
/// jobs out. Every method is called with the pool's lock held: be quick, and do not call the
/// pool.
///
/// ```
/// use tidegate_pool::{Job, JobKey, JobList, JobQueue, Popped, WorkerPool};
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
    /// Puts a job in. The key stays good until the job is out, and means no other job for as
    /// long as anybody may remember it.
    fn push(&mut self, job: Job) -> JobKey;
    /// Takes the job that is next.
    fn pop(&mut self) -> Option<Popped>;
    /// Takes out a job by its key; `None` if it is not there any more.
    fn remove(&mut self, key: JobKey) -> Option<Job>;
    /// Takes out the job that has to make room for `by`; `None` if `by` is the one to refuse.
    fn displace(&mut self, by: &Job) -> Option<Job>;
    /// How many jobs wait.
    fn len(&self) -> usize;
    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
