//! An executor that runs what it has received when the test says so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::executor::{self, ExecutorId, Signal, WaitPolicy};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task};
use tidegate_testkit::until;

/// The executor. It refuses signals once it is closed.
pub(crate) struct Steps {
    id: ExecutorId,
    clock: Clock,
    signals: Mutex<VecDeque<Signal>>,
    is_closed: AtomicBool,
}

impl Steps {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            id: ExecutorId::next(),
            clock: Clock::system(),
            signals: Mutex::default(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Returns this executor as an argument for calls.
    pub(crate) fn home(self: &Arc<Self>) -> Arc<dyn Executor> {
        Arc::clone(self) as _
    }

    /// Runs what was received so far. Returns how much that was.
    pub(crate) fn run(self: &Arc<Self>) -> usize {
        let signals = std::mem::take(&mut *self.signals.lock().unwrap());
        let count = signals.len();
        self.enter(|| signals.into_iter().for_each(Signal::deliver));
        count
    }

    /// Runs `work` as if this executor ran it.
    pub(crate) fn enter<R>(self: &Arc<Self>, work: impl FnOnce() -> R) -> R {
        let _current = executor::enter(self.home(), WaitPolicy::Loop);
        work()
    }

    pub(crate) fn received(&self) -> usize {
        self.signals.lock().unwrap().len()
    }

    /// Waits until this many signals have arrived from other threads.
    pub(crate) fn await_signals(&self, count: usize) {
        until("the signals arrive", || self.received() >= count);
    }

    /// Ends the executor. What it has received is not run.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let left = std::mem::take(&mut *self.signals.lock().unwrap());
        drop(left);
    }
}

impl Executor for Steps {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, RejectReason::Unsupported))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Rejected::new(signal, RejectReason::Closed));
        }
        self.signals.lock().unwrap().push_back(signal);
        Ok(())
    }

    fn is_current(&self) -> bool {
        executor::is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "steps"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}
