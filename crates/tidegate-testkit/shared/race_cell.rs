//! A cell for loom models that is written without a lock.

use loom::cell::UnsafeCell;

/// A number that is written without a lock, so that loom reports two accesses without a
/// happens-before relation.
#[derive(Debug, Default)]
pub(crate) struct RaceCell(UnsafeCell<u32>);

// SAFETY: loom checks every access and fails the model on a race.
unsafe impl Sync for RaceCell {}
// SAFETY: as above.
unsafe impl Send for RaceCell {}

impl RaceCell {
    pub(crate) fn set(&self, to: u32) {
        // SAFETY: loom fails the model before two threads access the cell at once.
        self.0.with_mut(|place| unsafe { *place = to });
    }

    pub(crate) fn get(&self) -> u32 {
        // SAFETY: loom fails the model before a read races with a write.
        self.0.with(|place| unsafe { *place })
    }
}
