//! A test executor that runs a job only when the test calls it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tidegate_core::executor::{ExecutorId, Signal, WaitPolicy, enter};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, Unhandled};
use tidegate_pool::{FreeThreads, Headroom, TryExecutor};
use tidegate_testkit::Log;

/// Stores submitted jobs: in one queue those for any thread, in another those for idle reserved
/// threads.
pub(crate) struct ManualExecutor {
    queue: Mutex<VecDeque<Task>>,
    reserved_jobs: Mutex<VecDeque<Task>>,
    /// The number of idle reserved threads.
    reserve: AtomicUsize,
    /// The number of threads that may still start.
    may_start: AtomicUsize,
    refuses: AtomicBool,
    /// The reported number of finished jobs.
    finished_jobs: AtomicU64,
    /// The number of calls of `try_execute`.
    tried: AtomicUsize,
    clock: Clock,
    id: ExecutorId,
    /// The reports of unhandled events.
    pub(crate) unhandled: Log<String>,
}

impl ManualExecutor {
    pub(crate) fn new(reserve: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            reserved_jobs: Mutex::default(),
            reserve: AtomicUsize::new(reserve),
            may_start: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            finished_jobs: AtomicU64::new(0),
            tried: AtomicUsize::new(0),
            clock: Clock::system(),
            id: ExecutorId::next(),
            unhandled: Log::new(),
        })
    }

    pub(crate) fn set_reserve(&self, threads: usize) {
        self.reserve.store(threads, Ordering::Relaxed);
    }

    pub(crate) fn set_may_start(&self, threads: usize) {
        self.may_start.store(threads, Ordering::Relaxed);
    }

    /// Increases the reported number of finished jobs.
    pub(crate) fn ended(&self, jobs: u64) {
        self.finished_jobs.fetch_add(jobs, Ordering::Relaxed);
    }

    /// Sets whether everything is refused from now on.
    pub(crate) fn refuse(&self, yes: bool) {
        self.refuses.store(yes, Ordering::Relaxed);
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.lock().unwrap().len()
    }

    /// Returns the number of jobs that reserved threads have received and not started.
    pub(crate) fn reserved_jobs(&self) -> usize {
        self.reserved_jobs.lock().unwrap().len()
    }

    pub(crate) fn tried(&self) -> usize {
        self.tried.load(Ordering::Relaxed)
    }

    /// Runs the next job of the reserved threads, on another thread. Returns `false` if there is
    /// none.
    pub(crate) fn run_reserved(self: &Arc<Self>) -> bool {
        let task = self.reserved_jobs.lock().unwrap().pop_front();
        let Some(task) = task else { return false };
        self.run(task);
        self.reserve.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Runs the next job of the queue, on another thread. Returns `false` if there is none.
    pub(crate) fn run_queued(self: &Arc<Self>) -> bool {
        let task = self.queue.lock().unwrap().pop_front();
        task.map(|task| self.run(task)).is_some()
    }

    /// Runs jobs until there are none left.
    pub(crate) fn settle(self: &Arc<Self>) {
        while self.run_reserved() || self.run_queued() {}
    }

    /// Drops all pending jobs, like a pool that ends.
    pub(crate) fn drop_all(&self) {
        drop(std::mem::take(&mut *self.queue.lock().unwrap()));
        drop(std::mem::take(&mut *self.reserved_jobs.lock().unwrap()));
    }

    /// Runs the next job on this thread, like a thread of the executor. Returns `false` if there
    /// is none.
    pub(crate) fn work(self: &Arc<Self>) -> bool {
        let reserved_jobs = self.reserved_jobs.lock().unwrap().pop_front();
        if let Some(task) = reserved_jobs {
            self.run_here(task);
            self.reserve.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let queued = self.queue.lock().unwrap().pop_front();
        queued.map(|task| self.run_here(task)).is_some()
    }

    fn run(self: &Arc<Self>, task: Task) {
        elsewhere(|| self.run_here(task));
    }

    fn run_here(self: &Arc<Self>, task: Task) {
        let _mark = enter(self.clone(), WaitPolicy::Free);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.run()));
        if ran.is_err() {
            self.unhandled.push("on the executor".to_owned());
        }
    }
}

/// Runs `work` on a new thread and waits for it.
pub(crate) fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

impl Executor for ManualExecutor {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Rejected::new(task, RejectReason::Full));
        }
        self.queue.lock().unwrap().push_back(task);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, RejectReason::Unsupported))
    }

    fn is_current(&self) -> bool {
        tidegate_core::executor::is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "manual"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.unhandled.push(what.to_string());
    }
}

impl Headroom for ManualExecutor {
    fn free_threads(&self) -> FreeThreads {
        FreeThreads {
            idle: self.reserve.load(Ordering::Relaxed),
            may_start: self.may_start.load(Ordering::Relaxed),
            places: usize::from(!self.refuses.load(Ordering::Relaxed)),
        }
    }

    fn finished_jobs(&self) -> u64 {
        self.finished_jobs.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> usize {
        self.queued()
    }
}

impl TryExecutor for ManualExecutor {
    fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.tried.fetch_add(1, Ordering::Relaxed);
        let less = |threads: usize| threads.checked_sub(1);
        let refuses = self.refuses.load(Ordering::Relaxed);
        let relaxed = Ordering::Relaxed;
        if refuses || self.reserve.fetch_update(relaxed, relaxed, less).is_err() {
            return Err(Rejected::new(task, RejectReason::Busy));
        }
        self.reserved_jobs.lock().unwrap().push_back(task);
        Ok(())
    }
}
