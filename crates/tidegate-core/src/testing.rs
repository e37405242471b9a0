//! Helpers of this crate's unit tests; other test helpers are in the testkit crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::executor::ExecutorId;
use crate::raw::signal::Signal;
use crate::wait::change_width;
use crate::{Clock, Executor, RejectReason, Rejected, Task};

/// An executor that runs nothing and only has a name, an identity and a width.
pub(crate) struct StubExecutor {
    name: &'static str,
    id: ExecutorId,
    width: AtomicUsize,
    /// The width after the first read of the width.
    narrows_to: Option<usize>,
    clock: Clock,
}

impl StubExecutor {
    pub(crate) fn new(name: &'static str, width: usize) -> Arc<Self> {
        Self::narrowing(name, width, None)
    }

    /// Creates an executor whose width changes just after it was read for the first time.
    pub(crate) fn narrowing(
        name: &'static str,
        width: usize,
        narrows_to: Option<usize>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            id: ExecutorId::next(),
            width: AtomicUsize::new(width),
            narrows_to,
            clock: Clock::system(),
        })
    }

    /// Creates an executor with the identity of the end of `of`.
    pub(crate) fn end_of(of: &Self) -> Arc<Self> {
        Arc::new(Self {
            name: of.name,
            id: of.id.end(),
            width: AtomicUsize::new(1),
            narrows_to: None,
            clock: Clock::system(),
        })
    }
}

impl Executor for StubExecutor {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, RejectReason::Unsupported))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, RejectReason::Unsupported))
    }

    fn is_current(&self) -> bool {
        crate::executor::is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        let width = self.width.load(Ordering::Relaxed);
        if let Some(narrow) = self.narrows_to.filter(|narrow| *narrow != width) {
            let apply = || self.width.store(narrow, Ordering::Relaxed);
            change_width(self.id, narrow, narrow, apply).expect("no wait relies on more");
        }
        width
    }
}
