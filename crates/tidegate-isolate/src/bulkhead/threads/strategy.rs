//! The parts of a pool that a program supplies: its queue, and where its threads come from.

use std::sync::Arc;

use tidegate_core::{Rejected, Task, ThreadBuilder};
use tidegate_pool::WorkerPoolBuilder;
use tidegate_pool::queue::JobQueue;

/// The parts of a pool that replace the built-in ones; see
/// [`IsolationBuilder::concurrency_strategy`](crate::IsolationBuilder::concurrency_strategy). A part
/// that is not set is the built-in one.
///
/// ```
/// use tidegate_core::ThreadBuilder;
/// use tidegate_isolate::{Command, ConcurrencyStrategy, Isolation, PoolConfig};
///
/// let isolation = Isolation::builder()
///     .concurrency_strategy(|pool| {
///         let threads = ThreadBuilder::new(format!("calls-{pool}")).stack_size(256 * 1024);
///         ConcurrencyStrategy::default().threads(threads)
///     })
///     .build()?;
/// let prices: Command<String, String> = Command::builder("prices")
///     .group("catalog")
///     .threads(PoolConfig::default())
///     .build(&isolation)?;
/// let name = prices.run(|_cancel| Ok(std::thread::current().name().unwrap_or("?").to_owned()));
/// assert!(name.unwrap().starts_with("calls-prices"));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Default)]
pub struct ConcurrencyStrategy {
    pub(super) queue: Option<SetQueue>,
    pub(super) threads: Option<ThreadBuilder>,
    pub(super) executor: Option<Lend>,
}

/// Sets the queue of a pool.
pub(super) type SetQueue = Box<dyn FnOnce(WorkerPoolBuilder) -> WorkerPoolBuilder + Send>;

/// Accepts a task and runs it, or returns it.
pub(super) type Lend = Arc<dyn Fn(Task) -> Result<(), Rejected<Task>> + Send + Sync>;

impl ConcurrencyStrategy {
    /// Sets the queue in which calls wait for a thread. The pool's bound applies to it; the pool's
    /// `discipline` does not. See [`JobQueue`] for its contract. The criticality of a job is that of
    /// its call: `Criticality::Critical as u8` is the highest one.
    ///
    /// A queue that breaks its contract ends the pool: its calls are rejected with
    /// [`Rejection::Closed`](crate::Rejection::Closed). That is reported with the name of the pool
    /// ([`IsolationBuilder::on_unhandled`](crate::IsolationBuilder::on_unhandled),
    /// [`PoolSnapshot::failed_part`](crate::PoolSnapshot::failed_part)). All other pools go on.
    ///
    /// ```
    /// use tidegate_isolate::{Command, ConcurrencyStrategy, Isolation, PoolConfig};
    /// use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
    ///
    /// /// The newest call first.
    /// #[derive(Default)]
    /// struct Stack(JobList);
    ///
    /// impl JobQueue for Stack {
    ///     fn push(&mut self, call: Job) -> JobKey { self.0.push_back(call) }
    ///     fn pop(&mut self) -> Option<Popped> { self.0.pop_back().map(Popped::Run) }
    ///     fn remove(&mut self, key: JobKey) -> Option<Job> { self.0.remove(key) }
    /// }
    ///
    /// let isolation = Isolation::builder()
    ///     .concurrency_strategy(|pool| match &**pool {
    ///         "prices" => ConcurrencyStrategy::default().queue(Stack::default()),
    ///         _ => ConcurrencyStrategy::default(), // the built-in parts
    ///     })
    ///     .build()?;
    /// let prices: Command<u32, String> = Command::builder("prices")
    ///     .group("catalog")
    ///     .threads(PoolConfig { core: 2, queue: 100, ..PoolConfig::default() })
    ///     .build(&isolation)?;
    /// assert_eq!(prices.run(|_cancel| Ok(42)), Ok(42));
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn queue(mut self, queue: impl JobQueue) -> Self {
        self.queue = Some(Box::new(|pool| pool.queue_of(queue)));
        self
    }

    /// Sets how the threads of the pool are started: their names, stacks, hooks, or a function of
    /// your own ([`ThreadBuilder::spawner`]).
    ///
    /// The function runs each job once, on a thread of its own, or returns an error. If it returns an
    /// error, a call without another thread is rejected with
    /// [`Rejection::NoThread`](crate::Rejection::NoThread), and the failure is reported. A job that it
    /// accepts and drops, or runs on the thread that asks, ends the pool, as a queue that breaks its
    /// contract does.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Runs the calls on an executor instead of threads of the pool's own: a task of the executor
    /// runs calls until none waits. At most as many tasks are given to it as the pool may have
    /// threads.
    ///
    /// `execute` runs each task that it accepts once, on a thread that may block and is not the
    /// caller's, or returns it. If it refuses, a call without another thread is rejected with
    /// [`Rejection::NoThread`](crate::Rejection::NoThread), and the refusal is reported. A task that it
    /// accepts and drops ends the pool, as a queue that breaks its contract does.
    ///
    /// ```
    /// use tidegate_isolate::{Command, ConcurrencyStrategy, Isolation, PoolConfig};
    /// use tidegate_pool::WorkerPool;
    ///
    /// let shared = WorkerPool::builder("shared").build()?;
    /// let isolation = Isolation::builder()
    ///     .concurrency_strategy(move |_pool| {
    ///         let shared = shared.clone();
    ///         ConcurrencyStrategy::default().executor(move |task| shared.execute_task(task))
    ///     })
    ///     .build()?;
    /// let prices: Command<u32, String> = Command::builder("prices")
    ///     .group("catalog")
    ///     .threads(PoolConfig { core: 2, ..PoolConfig::default() }) // at most two at a time
    ///     .build(&isolation)?;
    /// assert_eq!(prices.run(|_cancel| Ok(42)), Ok(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn executor(
        mut self,
        execute: impl Fn(Task) -> Result<(), Rejected<Task>> + Send + Sync + 'static,
    ) -> Self {
        self.executor = Some(Arc::new(execute));
        self
    }
}

debug_fields!(ConcurrencyStrategy, this =>
    queue: this.queue.is_some(), threads: this.threads, executor: this.executor.is_some());
