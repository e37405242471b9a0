//! A value that counts its drop.

use crate::Counter;

/// Increments a [`Counter`] when it is dropped. Put it into a task, a queue or a closure to check
/// when that is dropped, and that it is dropped once.
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
    /// Creates a value that increments `drops` when it is dropped.
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
