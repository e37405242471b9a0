//! An unordered pool to test with.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tidegate_core::executor::{ExecutorId, Signal, WaitPolicy, enter, is_current};
use tidegate_core::thread::ThreadHandle;
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, ThreadBuilder, Unhandled};
use tidegate_pool::OrderedView;
use tidegate_testkit::Log;

/// An unordered pool: one queue, several threads.
pub(crate) struct Pool {
    pub(crate) core: Arc<PoolCore>,
    threads: Vec<ThreadHandle>,
}

pub(crate) struct PoolCore {
    id: ExecutorId,
    clock: Clock,
    width: usize,
    queue: Mutex<PoolQueue>,
    changed: Condvar,
    pub(crate) unhandled: Log<String>,
    /// Calls of `execute` that were accepted.
    accepted: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct PoolQueue {
    pub(crate) work: VecDeque<Work>,
    /// The maximum number of queued tasks; signals are always accepted.
    pub(crate) bound: Option<usize>,
    closed: bool,
    /// While set, no thread takes any work.
    pub(crate) held: bool,
}

pub(crate) enum Work {
    Task(Task),
    Signal(Signal),
}

impl Pool {
    pub(crate) fn new(width: usize) -> Self {
        let core = Arc::new(PoolCore {
            id: ExecutorId::next(),
            clock: Clock::system(),
            width,
            queue: Mutex::default(),
            changed: Condvar::new(),
            unhandled: Log::new(),
            accepted: AtomicUsize::new(0),
        });
        let builder = ThreadBuilder::new("pool");
        let threads = (0..width).map(|_| {
            let core = Arc::clone(&core);
            builder
                .spawn(move || core.drive())
                .expect("the system has a thread")
        });
        let threads = threads.collect();
        Self { core, threads }
    }

    pub(crate) fn executor(&self) -> Arc<dyn Executor> {
        Arc::clone(&self.core) as _
    }

    pub(crate) fn view(&self) -> OrderedView {
        OrderedView::over(self.executor()).expect("a pool is not ordered")
    }

    /// Changes the settings of the queue.
    pub(crate) fn set(&self, change: impl FnOnce(&mut PoolQueue)) {
        change(&mut self.core.queue.lock().expect("no task runs under the lock"));
        self.core.changed.notify_all();
    }

    pub(crate) fn accepted(&self) -> usize {
        self.core.accepted.load(Ordering::SeqCst)
    }

    /// Runs all remaining work and ends the threads.
    pub(crate) fn end(&mut self) {
        self.set(|queue| (queue.closed, queue.held) = (true, false));
        for thread in self.threads.drain(..) {
            assert!(thread.join().unwrap());
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end();
    }
}

impl PoolCore {
    fn drive(self: Arc<Self>) {
        let _mark = enter(Arc::clone(&self) as _, WaitPolicy::Free);
        while let Some(work) = self.next() {
            match work {
                Work::Task(task) => task.run(),
                Work::Signal(signal) => signal.deliver(),
            }
        }
    }

    fn next(&self) -> Option<Work> {
        let mut queue = self.queue.lock().expect("no task runs under the lock");
        loop {
            if !queue.held
                && let Some(work) = queue.work.pop_front()
            {
                return Some(work);
            }
            if queue.closed {
                return None;
            }
            queue = self
                .changed
                .wait(queue)
                .expect("no task runs under the lock");
        }
    }
}

impl Executor for PoolCore {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        let mut queue = self.queue.lock().expect("no task runs under the lock");
        if queue.closed {
            return Err(Rejected::new(task, RejectReason::Closed));
        }
        if queue.bound.is_some_and(|bound| queue.work.len() >= bound) {
            return Err(Rejected::new(task, RejectReason::Full));
        }
        queue.work.push_back(Work::Task(task));
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_one();
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        let mut queue = self.queue.lock().expect("no task runs under the lock");
        if queue.closed {
            return Err(Rejected::new(signal, RejectReason::Closed));
        }
        queue.work.push_back(Work::Signal(signal));
        self.changed.notify_one();
        Ok(())
    }

    fn is_current(&self) -> bool {
        is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "pool"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.width
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.unhandled.push(what.to_string());
    }
}
