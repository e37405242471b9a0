//! A counter with one writer.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread writes and any thread reads: a load and a store, no locked
/// instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `by`; by the one writer only.
    #[inline(always)]
    pub fn add(&self, by: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(by),
            Ordering::Relaxed,
        );
    }

    /// Sets it to `value` if that is more; by the one writer only.
    pub fn raise_to(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Sets it; by the one writer only.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it holds.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
