//! The tasks of a roaming loop that currently run on other threads.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::internal::prim::{Mutex, lock};

/// Counts the tasks that were handed out to other threads and have not ended.
#[derive(Default)]
pub(crate) struct HandedOut {
    count: Mutex<Count>,
    /// `true` if the last task handed out was the driver's. Only the producing thread writes it.
    of_driver: AtomicBool,
}

#[derive(Default)]
struct Count {
    tasks: usize,
    /// The name of the task that was handed out last.
    last: &'static str,
    /// `true` if the event loop waits for the last of these tasks to end.
    awaited: bool,
}

impl HandedOut {
    /// Counts a task that may outlive the turn.
    pub(crate) fn begin(&self, name: &'static str) {
        let mut count = lock(&self.count);
        count.tasks += 1;
        count.last = name;
    }

    /// Removes an ended task from the count. Returns `true` if it was the last one and the event
    /// loop waits for it.
    pub(crate) fn end(&self) -> bool {
        let mut count = lock(&self.count);
        count.tasks -= 1;
        count.tasks == 0 && std::mem::take(&mut count.awaited)
    }

    /// Returns `true` if any task is out. The end of the last one then wakes the event loop.
    pub(crate) fn await_last(&self) -> bool {
        let mut count = lock(&self.count);
        count.awaited = count.tasks > 0;
        count.awaited
    }

    /// Returns the name of a task that is out.
    pub(crate) fn any(&self) -> Option<&'static str> {
        let count = lock(&self.count);
        (count.tasks > 0).then_some(count.last)
    }

    /// Returns the number of tasks that are out, and the name of the one that was handed out last.
    pub(crate) fn now(&self) -> (usize, &'static str) {
        let count = lock(&self.count);
        (count.tasks, count.last)
    }

    /// Records the origin of the task that was handed out last: the driver, or a submitter.
    #[inline]
    pub(crate) fn set_of_driver(&self, yes: bool) {
        self.of_driver.store(yes, Ordering::Relaxed);
    }

    /// Returns `true` if the task handed out last was the driver's.
    #[inline]
    pub(crate) fn is_of_driver(&self) -> bool {
        self.of_driver.load(Ordering::Relaxed)
    }
}
