//! The handle of a worker pool.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::executor::Work;
use tidegate_core::{CancelToken, Dump, Executor, Rejected, Task};
use tidegate_promise::{Completion, Promise, SharedCompletion, promise_on};

use crate::executor::{HandedBack, ShutdownError, TaskPromise, delegate_executor};

use super::budget::{LeaseInfo, ThreadBudgetError};
use super::core::Shared;
use super::headroom::{FreeThreads, Headroom};
use super::job_handle::JobHandle;
use super::lease::Lease;
use super::limits::{PoolError, PoolLimits};
use super::metrics::PoolMetrics;
use super::queue::{Job, JobKey};
use super::shutdown_report::ShutdownReport;
use super::try_executor::TryExecutor;

/// A handle to a pool of threads for jobs that may block.
///
/// Clones are handles to the same pool. When the last handle is dropped, the pool takes no more
/// jobs, runs the accepted ones and ends. Dropping a handle never blocks.
///
/// ```
/// use std::time::Duration;
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").core(4).max(64).queue(1024).build()?;
/// let sum = pool.submit(|| 20 + 22)?;
/// assert_eq!(sum.wait()?, 42);
/// let report = pool.shutdown(Duration::from_secs(1)).wait()?;
/// assert!(report.handed_back.is_empty() && report.stuck.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorkerPool {
    pub(super) shared: Arc<Shared>,
    /// Whether the program can take what is handed back through this handle.
    is_taker: AtomicBool,
}

impl WorkerPool {
    pub(super) fn from_shared(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            is_taker: AtomicBool::new(true),
        }
    }

    /// Runs `run` on a thread of the pool.
    ///
    /// # Errors
    ///
    /// Returns the closure's task if there is neither a thread nor a place in the queue (after the
    /// [`PoolPolicy`](crate::PoolPolicy) was applied), or if the pool was stopped.
    ///
    /// # Threads
    ///
    /// Can be called from any thread. It waits only if the policy is to back off. A panic of `run`
    /// is reported to `on_unhandled` and does not end the thread.
    #[inline]
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.execute_task(Task::new(run))
    }

    /// Like [`WorkerPool::execute`], for an existing task that has its own name or kind.
    ///
    /// # Errors
    ///
    /// As for [`WorkerPool::execute`].
    #[inline]
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected<Task>> {
        Executor::execute(&*self.shared, task)
    }

    /// Runs `run` on a thread of the pool and returns a completion for its result.
    ///
    /// Cancelling the completion before `run` has started prevents it from running, but the job
    /// keeps its place in the queue until a worker reaches it. To free the place at once, create
    /// the job with [`WorkerPool::job`] and remove it with the handle that [`WorkerPool::enqueue`]
    /// returns.
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

    /// Creates a job for [`WorkerPool::enqueue`], and the completion for the result of `run`.
    #[inline]
    pub fn job<T, F>(&self, run: F) -> (Job, Completion<T>)
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, completion) = TaskPromise::of(&self.shared, Work::Submitted);
        let task = Task::labelled::<F, _>(move || answer.run(run));
        (Job::new(task), completion)
    }

    /// Accepts a job and returns a handle that can remove the job while it is queued.
    ///
    /// # Errors
    ///
    /// The job, as for [`WorkerPool::execute`].
    pub fn enqueue(&self, job: impl Into<Job>) -> Result<JobHandle, Rejected<Job>> {
        let key = self.shared.submit(job.into())?;
        Ok(JobHandle::new(&self.shared, key))
    }

    /// Accepts a job and returns the key under which it is queued, or `None` if a thread has it.
    /// This is cheaper than [`WorkerPool::enqueue`]; the caller removes the job with
    /// [`WorkerPool::take_back`].
    ///
    /// # Errors
    ///
    /// The job, as for [`WorkerPool::execute`].
    #[doc(hidden)]
    pub fn place(&self, job: impl Into<Job>) -> Result<Option<JobKey>, Rejected<Job>> {
        self.shared.submit(job.into())
    }

    /// Removes the job that is queued under `key`. Returns `None` if the job has started, or was
    /// removed or displaced before.
    #[doc(hidden)]
    pub fn take_back(&self, key: JobKey) -> Option<Task> {
        Some(self.shared.remove(key)?.into_task())
    }

    /// Announces, from inside a job of this pool, that the job ends as soon as this call returns,
    /// except for notifying its waiter. In a pool without a queue, one job may then wait for this
    /// thread. So a waiter that submits its next job immediately is not refused because the thread
    /// has not come back yet. Has no effect outside a job of this pool, or when called a second
    /// time in the same job.
    #[doc(hidden)]
    pub fn about_to_end(&self) {
        self.shared.about_to_end();
    }

    /// Accepts a task of the runtime itself. It runs before user jobs and is never refused because
    /// the queue is full.
    ///
    /// # Errors
    ///
    /// Returns the task if the pool has ended, or if it has no thread and cannot start one.
    #[doc(hidden)]
    pub fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.submit_internal(task)
    }

    /// Gives `task` to a thread that is already idle; see [`TryExecutor::try_execute`].
    ///
    /// # Errors
    ///
    /// Returns the task if no thread is idle, or if the pool has no reserved threads.
    pub fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.try_execute(task)
    }

    /// Starts threads up to the core size. Returns the number of threads.
    pub fn prestart(&self) -> usize {
        self.shared.prestart()
    }

    /// Changes every limit in one step and returns the previous limits. Idle threads above the new
    /// maximum end at once, busy ones after their current job. Queued jobs above the new bound stay
    /// queued.
    ///
    /// # Errors
    ///
    /// [`PoolError`] if the limits contradict each other or the leases, or if jobs of the pool wait
    /// for each other and rely on more threads. Nothing is changed then.
    pub fn resize(&self, limits: PoolLimits) -> Result<PoolLimits, PoolError> {
        self.shared.resize(limits)
    }

    /// Changes the limits like [`WorkerPool::resize`], for a caller that holds a lock: runs no user
    /// code. The caller then calls [`WorkerPool::start_for_waiting`] without the lock.
    ///
    /// # Errors
    ///
    /// As for [`WorkerPool::resize`].
    #[doc(hidden)]
    pub fn set_limits(&self, limits: PoolLimits) -> Result<PoolLimits, PoolError> {
        self.shared.set_limits(limits)
    }

    /// Starts threads for the queued jobs, as the limits allow. May call the spawner of the threads.
    #[doc(hidden)]
    pub fn start_for_waiting(&self) {
        self.shared.start_for_all_waiting();
    }

    /// Returns the current limits.
    pub fn limits(&self) -> PoolLimits {
        self.shared.limits()
    }

    /// Leases `threads` threads to the component `name`, which will keep them busy. At least one
    /// thread must remain for jobs.
    ///
    /// # Errors
    ///
    /// [`ThreadBudgetError`], which names each lease holder. Also returned if jobs of the pool wait
    /// for each other and rely on more threads. The budget is unchanged then.
    pub fn lease(
        &self,
        name: impl Into<String>,
        threads: usize,
    ) -> Result<Lease, ThreadBudgetError> {
        let name = name.into();
        Lease::new(&self.shared, LeaseInfo { name, threads })
    }

    /// Shuts the pool down: it takes no more jobs and ends. Scheduled tasks that are not due yet are
    /// cancelled. Accepted jobs run until `timeout` has passed. Then jobs that have not started are
    /// handed back, and jobs that have not returned are reported. Strategies over the pool get the
    /// threads that they have asked for, when running jobs return. After half of `timeout`,
    /// [`WorkerPool::shutdown_token`] is cancelled. A second call can only make the deadline
    /// earlier.
    ///
    /// # Threads
    ///
    /// Can be called from any thread, including threads of the pool. Never blocks. A job must not wait
    /// for the end of its own pool: that wait is refused as a deadlock.
    pub fn shutdown(&self, timeout: Duration) -> SharedCompletion<ShutdownReport, ShutdownError> {
        self.shared.shutdown(timeout)
    }

    /// Returns a completion for the end of the pool.
    pub fn termination(&self) -> SharedCompletion<ShutdownReport, ShutdownError> {
        self.shared.termination()
    }

    /// Returns the jobs that the pool accepted and will not start because it has ended. They are the
    /// same jobs as those of the shutdown's report: each can be taken once, run elsewhere, and then
    /// completes its completion. Empty before the pool has ended.
    pub fn handed_back(&self) -> HandedBack {
        self.shared.handed_back()
    }

    /// Says that the program cannot reach this handle any more, and so takes nothing through it. The
    /// handle still keeps the pool open. If it was the last taker, what an ended pool has handed back
    /// is dropped on this thread. A later clone of the handle is a taker again.
    #[doc(hidden)]
    pub fn stop_taking(&self) {
        if self.is_taker.swap(false, Ordering::Relaxed) {
            self.shared.drop_taker();
        }
    }

    /// Returns the token that is cancelled when running jobs should stop. Long-running jobs check
    /// it.
    pub fn shutdown_token(&self) -> CancelToken {
        self.shared.shutdown_token()
    }

    /// Creates a promise whose listeners run on the pool.
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::<Shared>::clone(&self.shared))
    }

    /// Returns `true` if the calling thread belongs to the pool.
    pub fn is_current(&self) -> bool {
        self.shared.is_current()
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Returns the free threads and places of the pool at this moment. Takes no lock.
    pub fn free_threads(&self) -> FreeThreads {
        self.shared.free_threads()
    }

    /// Returns `true` if few or no threads are left for new jobs.
    pub fn is_low_on_threads(&self) -> bool {
        self.shared.is_low_on_threads()
    }

    /// Returns which part of the program broke its contract, and how, if that closed the pool: its
    /// [queue](crate::queue::JobQueue), or what gives it its threads.
    pub fn failed_part(&self) -> Option<&str> {
        self.shared.failed_part()
    }

    /// Returns a snapshot of the pool's metrics.
    pub fn metrics(&self) -> PoolMetrics {
        self.shared.metrics()
    }

    /// Returns the state of the pool as a tree: its limits, its queue, and each thread with the job
    /// that it runs.
    ///
    /// The thread of a job shows `for`, how long the job has run, if the pool [measures
    /// times](crate::WorkerPoolBuilder::measure_times). Otherwise it shows `for_at_least`, how long
    /// dumps have seen it in the same job.
    ///
    /// ```
    /// use tidegate_pool::WorkerPool;
    ///
    /// let pool = WorkerPool::builder("workers").core(1).max(4).build()?;
    /// pool.submit(|| ())?.wait()?;
    /// println!("{}", pool.dump());
    /// assert_eq!(pool.dump().find("threads").unwrap().total(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Threads
    ///
    /// Can be called from any thread, also from a job. Never waits: if the pool's lock is not free within a moment, the dump lacks the limits and says so.
    pub fn dump(&self) -> Dump {
        self.shared.dump()
    }
}

impl Clone for WorkerPool {
    fn clone(&self) -> Self {
        self.shared.add_handle();
        Self::from_shared(Arc::clone(&self.shared))
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.drop_handle();
        self.stop_taking();
    }
}

delegate_executor!(WorkerPool);

impl Headroom for WorkerPool {
    fn free_threads(&self) -> FreeThreads {
        self.shared.free_threads()
    }

    fn has_thread(&self) -> bool {
        self.shared.has_thread()
    }

    fn finished_jobs(&self) -> u64 {
        self.shared.finished_jobs()
    }

    fn waiting(&self) -> usize {
        self.shared.waiting()
    }
}

impl TryExecutor for WorkerPool {
    fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.try_execute(task)
    }

    fn lease_threads(
        &self,
        holder: &str,
        threads: usize,
    ) -> Result<Option<Lease>, ThreadBudgetError> {
        self.lease(holder, threads).map(Some)
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
