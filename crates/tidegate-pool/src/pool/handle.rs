//! The handle of a worker pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{CancelToken, Executor, Rejected, Task};
use tidegate_promise::{Completion, Promise, promise_on};

use crate::executor::delegate_executor;

use super::answer::Answer;
use super::budget::{Lessee, OverBudget};
use super::core::Shared;
use super::headroom::{Headroom, Room};
use super::job_handle::JobHandle;
use super::lease::Lease;
use super::limits::{PoolError, PoolLimits};
use super::metrics::PoolMetrics;
use super::queue::{Job, JobKey};
use super::stop_report::Stopped;
use super::try_executor::TryExecutor;

/// A handle to a pool of threads for jobs that may block.
///
/// Clones are handles to the same pool. When the last handle is dropped the pool takes no more
/// jobs, runs what it has accepted and ends; nothing blocks.
///
/// ```
/// use std::time::Duration;
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").core(4).max(64).queue(1024).build()?;
/// let sum = pool.submit(|| 20 + 22)?;
/// assert_eq!(sum.wait()?, 42);
/// let report = pool.stop(Duration::from_secs(1)).wait()?;
/// assert!(report.handed_back.is_empty() && report.stuck.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorkerPool {
    shared: Arc<Shared>,
}

impl WorkerPool {
    pub(super) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs `run` on a thread of the pool.
    ///
    /// # Errors
    ///
    /// The closure's task, when there is neither a thread nor room (after what the
    /// [`PoolPolicy`](crate::PoolPolicy) tried), or when the pool was stopped.
    ///
    /// # Threads
    ///
    /// From any thread. Waits only where the policy is to back off. A panic of `run` is reported
    /// to `on_unhandled` and does not hurt the thread.
    #[inline]
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.execute_task(Task::new(run))
    }

    /// [`WorkerPool::execute`] for a task made before, with a name or a kind of its own.
    ///
    /// # Errors
    ///
    /// As for [`WorkerPool::execute`].
    #[inline]
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected<Task>> {
        Executor::execute(&*self.shared, task)
    }

    /// Runs `run` on a thread of the pool and answers with what it returns.
    ///
    /// Cancelling the completion before `run` has started keeps it from running; it keeps its
    /// place in the queue until its turn. To free the place at once, make the job with
    /// [`WorkerPool::job`] and take it out by the handle that [`WorkerPool::enqueue`] answers.
    ///
    /// # Errors
    ///
    /// As for [`WorkerPool::execute`].
    #[inline]
    pub fn submit<T, F>(&self, run: F) -> Result<Completion<T>, Rejected<Task>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (job, completion) = self.job(run);
        match self.shared.submit(job) {
            Ok(_) => Ok(completion),
            Err(refused) => Err(refused.map(Job::into_task)),
        }
    }

    /// A job that answers with what `run` returns, to be given to [`WorkerPool::enqueue`].
    #[inline]
    pub fn job<T, F>(&self, run: F) -> (Job, Completion<T>)
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, completion) = Answer::of(&self.shared);
        let task = Task::labelled::<F, _>(move || answer.run(run));
        (Job::new(task), completion)
    }

    /// Accepts a job and answers with the handle that takes it back while it waits.
    ///
    /// # Errors
    ///
    /// The job, as for [`WorkerPool::execute`].
    pub fn enqueue(&self, job: impl Into<Job>) -> Result<JobHandle, Rejected<Job>> {
        let key = self.shared.submit(job.into())?;
        Ok(JobHandle::new(&self.shared, key))
    }

    /// Accepts a job and says under which key it waits; `None` if a thread has it. Less than
    /// [`WorkerPool::enqueue`]: whoever keeps the pool can take the job out with
    /// [`WorkerPool::take_back`].
    ///
    /// # Errors
    ///
    /// The job, as for [`WorkerPool::execute`].
    pub fn place(&self, job: impl Into<Job>) -> Result<Option<JobKey>, Rejected<Job>> {
        self.shared.submit(job.into())
    }

    /// Takes a job back that waits under this key; `None` if it has started, or was taken out or
    /// displaced before.
    pub fn take_back(&self, key: JobKey) -> Option<Task> {
        Some(self.shared.remove(key)?.into_task())
    }

    /// Says, from inside a job of this pool, that the job ends as soon as this returns, but for
    /// telling somebody so. In a pool without a queue one job may then wait for its thread:
    /// whoever hears of the end and comes with the next job at once is not refused because the
    /// thread is still on its way. Does nothing elsewhere, and nothing the second time.
    pub fn about_to_end(&self) {
        self.shared.about_to_end();
    }

    /// Accepts a task of the runtime's own: runs before user jobs and is never refused for want
    /// of room.
    ///
    /// # Errors
    ///
    /// The task, when the pool has ended, or has no thread and can start none.
    pub fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.submit_internal(task)
    }

    /// Gives `task` to a thread that already waits; see [`TryExecutor::try_execute`].
    ///
    /// # Errors
    ///
    /// The task, when no thread waits, or the pool has no reserve.
    pub fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.try_execute(task)
    }

    /// Starts threads until there are as many as stay; answers how many there are.
    pub fn prestart(&self) -> usize {
        self.shared.prestart()
    }

    /// Changes every limit in one step and answers with what they were before. Idle threads
    /// above the new maximum end at once, busy ones after their job; jobs that wait above the
    /// new bound stay.
    ///
    /// # Errors
    ///
    /// [`PoolError`] when the limits contradict each other or the leases, or when jobs of the pool
    /// wait for each other and rely on more threads; nothing is changed.
    pub fn resize(&self, limits: PoolLimits) -> Result<PoolLimits, PoolError> {
        self.shared.resize(limits)
    }

    /// The limits in force.
    pub fn limits(&self) -> PoolLimits {
        self.shared.limits()
    }

    /// Promises `threads` threads to the component `name`, which will keep them busy: at least
    /// one must stay for jobs.
    ///
    /// # Errors
    ///
    /// [`OverBudget`], which names each lessee, also when jobs of the pool wait for each other and
    /// rely on more threads; the budget is then as it was.
    pub fn lease(&self, name: impl Into<String>, threads: usize) -> Result<Lease, OverBudget> {
        let name = name.into();
        Lease::new(&self.shared, Lessee { name, threads })
    }

    pub(super) fn lease_for_life(&self, lessee: Lessee) -> Result<(), PoolError> {
        let leased = self.shared.add_lease(lessee);
        leased.map(drop).map_err(PoolError::OverBudget)
    }

    /// Takes no more jobs and ends. What was accepted runs until `timeout` has passed; then what
    /// has not started is handed back, and what has not returned is reported. After half of the
    /// time [`WorkerPool::stop_token`] is tripped. A second call can only make it earlier.
    ///
    /// # Threads
    ///
    /// From any thread, also one of the pool's; never blocks.
    pub fn stop(&self, timeout: Duration) -> Stopped {
        self.shared.stop(timeout)
    }

    /// The end of the pool, for whoever wants to know.
    pub fn stopped(&self) -> Stopped {
        self.shared.stopped()
    }

    /// Tripped when running jobs should stop: jobs that take long look at it.
    pub fn stop_token(&self) -> CancelToken {
        self.shared.stop_token()
    }

    /// A promise whose listeners run on the pool.
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::<Shared>::clone(&self.shared))
    }

    /// Whether the calling thread is one of the pool's.
    pub fn is_current(&self) -> bool {
        self.shared.is_current()
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// The room at this moment; takes no lock.
    pub fn room(&self) -> Room {
        self.shared.room()
    }

    /// Whether few or no threads are left for new jobs.
    pub fn is_low_on_threads(&self) -> bool {
        self.shared.is_low_on_threads()
    }

    /// A look at the pool.
    pub fn metrics(&self) -> PoolMetrics {
        self.shared.metrics()
    }
}

impl Clone for WorkerPool {
    fn clone(&self) -> Self {
        self.shared.add_handle();
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.drop_handle();
    }
}

delegate_executor!(WorkerPool);

impl Headroom for WorkerPool {
    fn room(&self) -> Room {
        self.shared.room()
    }

    fn has_thread(&self) -> bool {
        self.shared.has_thread()
    }

    fn moves(&self) -> u64 {
        self.shared.moves()
    }

    fn waiting(&self) -> usize {
        self.shared.waiting()
    }
}

impl TryExecutor for WorkerPool {
    fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.try_execute(task)
    }

    fn lease_threads(&self, who: &str, threads: usize) -> Result<Option<Lease>, OverBudget> {
        self.lease(who, threads).map(Some)
    }
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = self.shared.tally();
        f.debug_struct("WorkerPool")
            .field("name", &self.name())
            .field("threads", &tally.threads)
            .field("queued", &tally.queued)
            .finish_non_exhaustive()
    }
}
