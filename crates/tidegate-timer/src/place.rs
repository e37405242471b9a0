//! Putting a timeout that other threads may reset into a wheel.

use crate::key::KeySlot;
use crate::raw::TimeoutCell;
use crate::wheel::Wheel;

/// Puts a timeout where `deadline` says, wherever it was before, and again if another thread gave
/// it an earlier deadline meanwhile. `key` is where its key is kept; `entry` makes the wheel's
/// entry if there is none yet.
///
/// Called by the owner of the wheel: [`WheelTimer`](crate::WheelTimer), or a loop.
#[inline]
pub fn place<E, T>(
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
