//! What is known of the cost of tasks, by class, without a clock.
//!
//! A class that the monitor had to take the producer from costs more than a tick; one whose thread
//! came back before anybody else took the producer costs less than a wakeup. A few of the first
//! kind in a row make a class long: its tasks get a thread at once. As many of the second kind
//! make it short again.
//!
//! Classes share a small table by a hash of their number: two of them in one place are one class.
//! That costs speed, never a task.

use std::sync::atomic::{AtomicU8, Ordering};

/// Places in the table; a power of two.
const PLACES: usize = 64;
/// What one take-over adds.
const TAKEN_OVER: u8 = 8;
/// From here on a class is long.
const LONG: u8 = 16;
/// Where it stops growing.
const MOST: u8 = 64;

/// How long the tasks of each class have been.
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
    /// Whether tasks of this class should have a thread at once.
    pub(crate) fn is_long(&self, class: usize) -> bool {
        self.at(class).load(Ordering::Relaxed) >= LONG
    }

    /// The producer was taken over while such a task ran.
    pub(crate) fn was_long(&self, class: usize) {
        let weight = self.at(class);
        let more = weight.load(Ordering::Relaxed).saturating_add(TAKEN_OVER);
        weight.store(more.min(MOST), Ordering::Relaxed);
    }

    /// Such a task was over before anybody took the producer.
    pub(crate) fn was_short(&self, class: usize) {
        let weight = self.at(class);
        let before = weight.load(Ordering::Relaxed);
        if before > 0 {
            weight.store(before - 1, Ordering::Relaxed);
        }
    }

    fn at(&self, class: usize) -> &AtomicU8 {
        // Classes are addresses of statics: the low bits are the same for all.
        let mixed = (class as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.weights[(mixed >> 58) as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    //! A class is long after take-overs, and short again after as much of the contrary.

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
