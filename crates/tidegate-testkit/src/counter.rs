//! A shared counter that threads can wait on.

use std::sync::Arc;
use std::time::Duration;

use crate::watched::{WATCHDOG, Watched};

/// Counts events on any thread. Clones share the same counter.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Counter;
///
/// let runs = Counter::new();
/// for _ in 0..3 {
///     std::thread::spawn(runs.hits());
/// }
/// runs.wait_for(3);
/// assert_eq!(runs.count(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Counter {
    count: Arc<Watched<u64>>,
}

impl Counter {
    /// Creates a counter at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a counter at zero, and returns it twice: one for a test, the other for what it
    /// observes.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let counter = Self::new();
        (counter.clone(), counter)
    }

    /// Returns a closure that counts its calls.
    pub fn hits(&self) -> impl Fn() + Clone + Send + Sync + use<> {
        let counter = self.clone();
        move || counter.note()
    }

    /// Increments the counter and returns the new count, which no other call returns.
    pub fn hit(&self) -> u64 {
        self.count.update(|count| {
            *count += 1;
            *count
        })
    }

    /// Counts one event, for a closure that returns nothing.
    pub fn note(&self) {
        self.hit();
    }

    /// Blocks until the count is at least `count`.
    ///
    /// # Panics
    ///
    /// If the count is still lower after [`WATCHDOG`]. The message contains the count.
    #[track_caller]
    pub fn wait_for(&self, count: u64) {
        self.wait_at_most(WATCHDOG, count);
    }

    /// Returns the current count.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.read(|&count| count)
    }

    #[track_caller]
    pub(crate) fn wait_at_most(&self, limit: Duration, wanted: u64) {
        self.count.wait_until(
            limit,
            |&count| count >= wanted,
            |count| format!("the counter stopped at {count} of {wanted}"),
        );
    }
}
