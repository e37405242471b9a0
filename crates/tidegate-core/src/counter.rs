//! A counter with a single writer.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread writes and any thread reads. An update is a load and a store, without
/// a locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `by`. Only the single writer may call this.
    #[inline(always)]
    pub fn add(&self, by: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(by),
            Ordering::Relaxed,
        );
    }

    /// Raises the counter to `value` if that is more. Only the single writer may call this.
    pub fn raise_to(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Sets the counter. Only the single writer may call this.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
