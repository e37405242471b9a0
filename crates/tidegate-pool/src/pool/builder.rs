//! The builder of a worker pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::FastClock;
use tidegate_core::{Clock, OnUnhandled, Rejected, Task, ThreadBuilder, Unhandled};

use super::core::{OnDisplaced, OnLow, Parts, Shared, ThreadLender, UserLane, run_worker};
use super::handle::WorkerPool;
use super::limits::{PoolError, PoolLimits};
use super::policy::PoolPolicy;
use super::queue::{JobList, JobQueue, UsersQueue};
use super::raw::Growth;

/// A builder for a [`WorkerPool`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_pool::{PoolPolicy, WorkerPool};
///
/// let pool = WorkerPool::builder("workers")
///     .core(4)
///     .max(64)
///     .queue(1024)
///     .keep_alive(Duration::from_secs(10))
///     .policy(PoolPolicy::Fail)
///     .build()?;
/// assert_eq!(pool.name(), "workers");
/// let error = WorkerPool::builder("none").max(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "a pool needs at least one thread; raise `max`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct WorkerPoolBuilder {
    name: String,
    clock: Clock,
    limits: PoolLimits,
    core: Option<usize>,
    reserved: Option<usize>,
    queue: UserLane,
    policy: PoolPolicy,
    threads: Option<ThreadBuilder>,
    lender: Option<ThreadLender>,
    on_unhandled: OnUnhandled,
    on_low: Option<OnLow>,
    on_displaced: Option<OnDisplaced>,
    times: bool,
}

impl WorkerPool {
    /// Creates a builder for a pool called `name`.
    pub fn builder(name: impl Into<String>) -> WorkerPoolBuilder {
        WorkerPoolBuilder::new(name)
    }
}

impl WorkerPoolBuilder {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            clock: Clock::system(),
            limits: PoolLimits::default(),
            core: None,
            reserved: None,
            queue: UserLane::BuiltIn(Box::new(JobList::default())),
            policy: PoolPolicy::default(),
            threads: None,
            lender: None,
            times: false,
            on_unhandled: OnUnhandled::default(),
            on_low: None,
            on_displaced: None,
        }
    }

    /// Sets how many threads stay alive while idle. They start when they are needed. The default is
    /// [`PoolLimits::DEFAULT_CORE`], or the maximum if that is less.
    pub fn core(mut self, threads: usize) -> Self {
        self.core = Some(threads);
        self
    }

    /// Sets the maximum number of threads.
    pub fn max(mut self, threads: usize) -> Self {
        self.limits.max = threads;
        self
    }

    /// Sets how many user jobs may wait. With 0 a job is refused unless a thread can take it at
    /// once.
    pub fn queue(mut self, jobs: usize) -> Self {
        self.limits.queue = jobs;
        self
    }

    /// Replaces the default queue, which is first in, first out. See [`JobQueue`] for its contract.
    pub fn queue_of(mut self, queue: impl JobQueue) -> Self {
        self.queue = UserLane::Users(UsersQueue::new(queue));
        self
    }

    /// Replaces the default queue by one that owns its jobs and keeps its contract: what it does is not
    /// checked.
    #[doc(hidden)]
    pub fn built_in_queue(mut self, queue: impl JobQueue) -> Self {
        self.queue = UserLane::BuiltIn(Box::new(queue));
        self
    }

    /// Sets the number of reserved threads. The default is [`PoolLimits::usual_reserve`].
    pub fn reserved(mut self, threads: usize) -> Self {
        self.reserved = Some(threads);
        self
    }

    /// Sets how long a thread above the core size may be idle before it ends; zero means for ever.
    pub fn keep_alive(mut self, idle: Duration) -> Self {
        self.limits.keep_alive = idle;
        self
    }

    /// Sets whether the pool starts threads or queues jobs first when all threads are busy.
    pub fn growth(mut self, growth: Growth) -> Self {
        self.limits.growth = growth;
        self
    }

    /// Sets the number of free threads at which the pool counts as low on threads.
    pub fn low_threads(mut self, threads: usize) -> Self {
        self.limits.low = threads;
        self
    }

    /// Sets all limits at once.
    pub fn limits(mut self, limits: PoolLimits) -> Self {
        self.core = Some(limits.core);
        self.reserved = Some(limits.reserved);
        self.limits = limits;
        self
    }

    /// Sets what happens to a user job for which there is neither a thread nor a place in the
    /// queue.
    pub fn policy(mut self, policy: PoolPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how the pool's threads are started.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Borrows threads from an executor instead of starting them. `lend` accepts a task and runs it
    /// once, on a thread that may block and is not the caller's, or returns it. The pool gives a
    /// thread back as soon as it has no job for it.
    #[doc(hidden)]
    pub fn borrow_threads(
        mut self,
        lend: impl Fn(Task) -> Result<(), Rejected<Task>> + Send + Sync + 'static,
    ) -> Self {
        self.lender = Some(Arc::new(lend));
        self
    }

    /// Sets the clock that measures idle times and deadlines.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Sets a hook that receives the panics of jobs and listeners. It is called with the pool's
    /// name, on the hook's own thread; see [`OnUnhandled`].
    pub fn on_unhandled(self, hook: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.report_to(OnUnhandled::new(hook))
    }

    /// Sets a hook that may be shared with other executors. The default is [`OnUnhandled::default`].
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.on_unhandled = hook;
        self
    }

    /// Sets a hook that is called with `true` when the pool becomes low on threads and with `false`
    /// when it no longer is. It runs on the thread of the submitter or worker that caused the
    /// change and must not block.
    pub fn on_low_threads(mut self, hook: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.on_low = Some(Arc::new(hook));
        self
    }

    /// Passes displaced jobs to `hook` instead of dropping them. It runs on the thread that displaced
    /// the job, without a lock, and must not block.
    #[doc(hidden)]
    pub fn on_displaced(mut self, hook: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.on_displaced = Some(Arc::new(hook));
        self
    }

    /// Measures how long jobs wait and run, for [`PoolMetrics`](crate::PoolMetrics). This reads a
    /// [`FastClock`] three times per job; without it, no clock is read.
    pub fn measure_times(mut self) -> Self {
        self.times = true;
        self
    }

    /// Builds the pool. Threads start with the first jobs.
    ///
    /// # Errors
    ///
    /// [`PoolError`] if the settings contradict each other.
    pub fn build(self) -> Result<WorkerPool, PoolError> {
        let mut limits = self.limits;
        limits.core = self
            .core
            .unwrap_or(PoolLimits::DEFAULT_CORE.min(limits.max));
        limits.reserved = self
            .reserved
            .unwrap_or_else(|| PoolLimits::usual_reserve(limits.max));
        limits.check()?;
        if let PoolPolicy::Backoff { attempts: 0, .. } = self.policy {
            return Err(PoolError::NoAttempts);
        }
        let threads = self
            .threads
            .unwrap_or_else(|| ThreadBuilder::new(&*self.name));
        let shared = Shared::new(Parts {
            times: self.times.then(|| FastClock::new(&self.clock)),
            threads: threads.or_report_to(&self.on_unhandled),
            lender: self.lender,
            body: run_worker,
            name: self.name,
            clock: self.clock,
            limits,
            queue: self.queue,
            policy: self.policy,
            on_unhandled: self.on_unhandled,
            on_low: self.on_low,
            on_displaced: self.on_displaced,
        });
        Ok(WorkerPool::from_shared(shared))
    }
}

impl fmt::Debug for WorkerPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPoolBuilder")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
