//! What the work of an executor needs before it can run: which threads of which executors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::id::ExecutorId;

/// How a piece of work comes to an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The executor's own work, such as a timer of a loop, or the completion of its promise.
    Own,
    /// A task that was submitted to the executor.
    Submitted,
    /// A task that another executor gives to this one later, and runs itself if it is refused.
    Given,
}

/// One condition of a piece of work: it cannot run while the place is stuck.
#[derive(Clone, Debug)]
pub struct Need {
    place: ExecutorId,
    /// The need does not hold while this is not zero.
    unless: Option<Arc<AtomicUsize>>,
}

impl Need {
    /// One of the threads on which the tasks of `executor` can rely.
    pub fn thread_of(executor: ExecutorId) -> Self {
        Self {
            place: executor,
            unless: None,
        }
    }

    /// Any thread that the executor of `self` may have.
    pub fn of_any_thread(mut self) -> Self {
        self.place = self.place.any_thread();
        self
    }

    /// Makes the need hold only while `drivers` is zero.
    pub fn unless(mut self, drivers: &Arc<AtomicUsize>) -> Self {
        self.unless = Some(Arc::clone(drivers));
        self
    }

    /// Returns the place that is needed now.
    pub(crate) fn now(&self) -> Option<ExecutorId> {
        let drivers = self.unless.as_ref();
        let holds = drivers.is_none_or(|drivers| drivers.load(Ordering::Relaxed) == 0);
        holds.then_some(self.place)
    }
}
