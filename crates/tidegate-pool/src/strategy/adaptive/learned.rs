//! The cost of tasks by class, learned without a clock.
//!
//! If the monitor had to take the producer over, the task took longer than a tick. If its thread
//! came back before another thread took the producer, the task was shorter than a wake-up. Each
//! take-over adds much to the weight of the task's class, and each short task subtracts a little. A
//! class whose weight reaches a limit is long: its tasks get a thread at once.
//!
//! Classes share a small table, indexed by a hash of their number. Two classes with the same index
//! count as one, which costs speed but never loses a task.

use std::sync::atomic::{AtomicU8, Ordering};

/// Entries in the table; a power of two.
const PLACES: usize = 64;
/// The weight that one take-over adds.
const TAKEN_OVER: u8 = 8;
/// The weight from which on a class is long.
const LONG: u8 = 16;
/// The maximum weight.
const MOST: u8 = 64;

/// The weight of each class: how slow its tasks have been.
#[derive(Debug)]
pub(crate) struct Learned {
    weights: [AtomicU8; PLACES],
}

impl Default for Learned {
    fn default() -> Self {
        Self {
            weights: [const { AtomicU8::new(0) }; PLACES],
        }
    }
}

impl Learned {
    /// Returns `true` if tasks of this class should get a thread at once.
    pub(crate) fn is_long(&self, class: usize) -> bool {
        self.at(class).load(Ordering::Relaxed) >= LONG
    }

    /// Records that the producer was taken over while a task of this class ran.
    pub(crate) fn was_long(&self, class: usize) {
        let weight = self.at(class);
        let more = weight.load(Ordering::Relaxed).saturating_add(TAKEN_OVER);
        weight.store(more.min(MOST), Ordering::Relaxed);
    }

    /// Records that a task of this class ended before another thread took the producer.
    pub(crate) fn was_short(&self, class: usize) {
        let weight = self.at(class);
        let before = weight.load(Ordering::Relaxed);
        if before > 0 {
            weight.store(before - 1, Ordering::Relaxed);
        }
    }

    fn at(&self, class: usize) -> &AtomicU8 {
        // Classes are addresses of statics, so their low bits are equal.
        let mixed = (class as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.weights[(mixed >> 58) as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    //! Take-overs make a class long, and enough short tasks make it short again.

    use super::*;

    #[test]
    fn two_take_overs_make_a_class_long_and_short_runs_undo_it() {
        let learned = Learned::default();
        learned.was_long(640);
        assert!(!learned.is_long(640));
        learned.was_long(640);
        assert!(learned.is_long(640));
        learned.was_short(640);
        assert!(!learned.is_long(640));
        for _ in 0..40 {
            learned.was_long(640);
        }
        for _ in 0..=(MOST - LONG) {
            assert!(learned.is_long(640));
            learned.was_short(640);
        }
        assert!(!learned.is_long(640));
    }

    #[test]
    fn a_class_that_was_never_long_stays_at_nothing() {
        let learned = Learned::default();
        learned.was_short(64);
        learned.was_long(64);
        learned.was_long(64);
        assert!(learned.is_long(64));
    }
}
