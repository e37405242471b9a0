//! A value whose drop is counted.

use crate::Counter;

/// Counts its drop on a [`Counter`]: put one into a task, a queue or a closure to see when it
/// goes, and that it goes once.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::{Counter, DropCount};
///
/// let drops = Counter::new();
/// let captured = DropCount::new(&drops);
/// let task = move || {
///     let _captured = &captured;
/// };
/// task();
/// assert_eq!(drops.count(), 0);
/// drop(task);
/// assert_eq!(drops.count(), 1);
/// ```
#[derive(Debug)]
#[must_use = "it counts when it is dropped, which is at once"]
pub struct DropCount {
    drops: Counter,
}

impl DropCount {
    /// Makes a value that counts one on `drops` when it is dropped.
    pub fn new(drops: &Counter) -> Self {
        Self {
            drops: drops.clone(),
        }
    }
}

impl Drop for DropCount {
    fn drop(&mut self) {
        self.drops.hit();
    }
}
