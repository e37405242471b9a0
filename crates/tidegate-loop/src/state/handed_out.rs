//! Tasks of a roaming loop that other threads run.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::prim::{Mutex, lock};

/// Tasks of a loop that were handed out and are not over.
#[derive(Default)]
pub(crate) struct HandedOut {
    count: Mutex<Count>,
    /// The last task handed out was the driver's. Written and read by the thread that produces.
    of_driver: AtomicBool,
}

#[derive(Default)]
struct Count {
    out: usize,
    /// The name of the one handed out last.
    last: &'static str,
    /// The loop waits for the last one.
    awaited: bool,
}

impl HandedOut {
    /// Counts a task that may outlive the turn.
    pub(crate) fn begin(&self, name: &'static str) {
        let mut count = lock(&self.count);
        count.out += 1;
        count.last = name;
    }

    /// Takes a task that is over out of the count; `true` if it was the last one and the loop waits
    /// for it.
    pub(crate) fn end(&self) -> bool {
        let mut count = lock(&self.count);
        count.out -= 1;
        count.out == 0 && std::mem::take(&mut count.awaited)
    }

    /// Returns `true` if any is out; the end of the last one then wakes the loop.
    pub(crate) fn await_last(&self) -> bool {
        let mut count = lock(&self.count);
        count.awaited = count.out > 0;
        count.awaited
    }

    /// The name of one that is out.
    pub(crate) fn any(&self) -> Option<&'static str> {
        let count = lock(&self.count);
        (count.out > 0).then_some(count.last)
    }

    /// Notes whose task was handed out last: the driver's, or a submitter's.
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
