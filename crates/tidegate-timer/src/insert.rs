//! Inserts a timeout that other threads may reset into a wheel.

use crate::key::KeySlot;
use crate::raw::TimeoutCell;
use crate::wheel::Wheel;

/// Inserts a timeout into the wheel at `deadline`, or moves it there if the wheel already has it.
/// Repeats this if another thread set an earlier deadline in the meantime. `key` stores the
/// timeout's key; `entry` creates the wheel entry if the timeout has none yet.
///
/// Called by the owner of the wheel, an event loop.
#[inline]
pub fn insert_timeout<E, T>(
    wheel: &mut Wheel<E>,
    cell: &TimeoutCell<T>,
    key: &KeySlot,
    mut deadline: u64,
    entry: impl Fn() -> E,
) {
    loop {
        match key.get() {
            Some(key) => {
                wheel.reset(key, deadline);
            }
            None => key.set(wheel.insert(deadline, entry())),
        }
        match cell.arm(deadline) {
            Some(sooner) => deadline = sooner,
            None => return,
        }
    }
}
