//! What models write without a lock.

use loom::cell::UnsafeCell;

/// A place that is written without a lock: loom reports two users without an order between them.
#[derive(Debug, Default)]
pub(crate) struct Place(UnsafeCell<u32>);

// SAFETY: loom checks every access and fails the model on a race.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    pub(crate) fn set(&self, to: u32) {
        // SAFETY: loom fails the model before two threads are in here.
        self.0.with_mut(|place| unsafe { *place = to });
    }

    pub(crate) fn get(&self) -> u32 {
        // SAFETY: loom fails the model before a reader meets a writer.
        self.0.with(|place| unsafe { *place })
    }
}
