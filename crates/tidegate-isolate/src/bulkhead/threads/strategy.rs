//! The parts of a pool that a program supplies: its queue, and where its threads come from.

use std::sync::Arc;

use tidegate_core::{Rejected, Task, ThreadBuilder};

use super::call_queue::CallQueue;

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
    pub(super) queue: Option<Box<dyn CallQueue>>,
    pub(super) threads: Option<ThreadBuilder>,
    pub(super) executor: Option<Lend>,
}

/// Accepts a task and runs it, or returns it.
pub(super) type Lend = Arc<dyn Fn(Task) -> Result<(), Rejected<Task>> + Send + Sync>;

impl ConcurrencyStrategy {
    /// Sets the queue in which calls wait for a thread. The pool's bound applies to it; the pool's
    /// `discipline` does not. See [`CallQueue`] for its contract.
    pub fn queue(mut self, queue: impl CallQueue) -> Self {
        self.queue = Some(Box::new(queue));
        self
    }

    /// Sets how the threads of the pool are started: their names, stacks, hooks, or a function of
    /// your own ([`ThreadBuilder::spawner`]).
    ///
    /// The function runs each job once, on a thread of its own, or returns an error. If it gives no
    /// thread, a call without another thread is rejected with
    /// [`Rejection::NoThread`](crate::Rejection::NoThread), and the failure is reported.
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
    /// [`Rejection::NoThread`](crate::Rejection::NoThread). If it never runs a task, the call times
    /// out. Both are reported.
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
