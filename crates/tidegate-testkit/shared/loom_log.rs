//! A log that models write without a lock.

use loom::cell::UnsafeCell;

/// What ran, in order. Written without a lock, so loom reports any two writers without order.
#[derive(Debug, Default)]
pub(crate) struct Log(UnsafeCell<Vec<u32>>);

// SAFETY: loom checks every access and fails the model on a race.
unsafe impl Sync for Log {}
// SAFETY: as above.
unsafe impl Send for Log {}

impl Log {
    pub(crate) fn note(&self, what: u32) {
        // SAFETY: loom fails the model before two threads are in here.
        self.0.with_mut(|log| unsafe { (*log).push(what) });
    }

    pub(crate) fn get(&self) -> Vec<u32> {
        // SAFETY: loom fails the model before a reader meets a writer.
        self.0.with(|log| unsafe { (*log).clone() })
    }
}
