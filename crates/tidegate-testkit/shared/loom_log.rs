//! A log for loom models that is written without a lock.

use loom::cell::UnsafeCell;

/// The recorded numbers, in order. Written without a lock, so that loom reports two accesses
/// without a happens-before relation.
#[derive(Debug, Default)]
pub(crate) struct Log(UnsafeCell<Vec<u32>>);

// SAFETY: loom checks every access and fails the model on a race.
unsafe impl Sync for Log {}
// SAFETY: as above.
unsafe impl Send for Log {}

impl Log {
    pub(crate) fn note(&self, what: u32) {
        // SAFETY: loom fails the model before two threads access the cell at once.
        self.0.with_mut(|log| unsafe { (*log).push(what) });
    }

    pub(crate) fn get(&self) -> Vec<u32> {
        // SAFETY: loom fails the model before a read races with a write.
        self.0.with(|log| unsafe { (*log).clone() })
    }
}
