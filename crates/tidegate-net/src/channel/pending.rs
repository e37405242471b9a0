//! How much is pending on a channel, for all threads.
//!
//! Handles add what they queue. The loop takes it, works, and corrects the sum at the end of its
//! turn. The sum is one word, so a write is never missing in it while the loop takes the write, and
//! of two changes the later one sees both.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The counted sizes of what is pending.
#[derive(Default)]
pub(super) struct Pending {
    /// What the loop had at the end of its last turn, and what was added since.
    sum: AtomicUsize,
    /// The part that the loop had at the end of its last turn; written by the loop alone.
    on_loop: AtomicUsize,
    /// The part that the loop has taken in this turn; written by the loop alone.
    taken: AtomicUsize,
}

impl Pending {
    #[inline]
    pub(super) fn get(&self) -> usize {
        self.sum.load(Ordering::Relaxed)
    }

    /// Returns what the loop had at the end of its last turn.
    #[inline]
    pub(super) fn on_loop(&self) -> usize {
        self.on_loop.load(Ordering::Relaxed)
    }

    /// Returns what was added and the loop has not taken. Called on the loop.
    #[inline]
    pub(super) fn coming(&self) -> usize {
        self.get().saturating_sub(self.known())
    }

    fn known(&self) -> usize {
        self.on_loop() + self.taken.load(Ordering::Relaxed)
    }

    /// Adds a write. Returns how much is pending with it.
    #[inline]
    pub(super) fn add(&self, counts: usize) -> usize {
        self.sum.fetch_add(counts, Ordering::Relaxed) + counts
    }

    /// Records that the loop has taken a write. It stays pending until the end of the turn.
    #[inline]
    pub(super) fn take(&self, counts: usize) {
        let taken = self.taken.load(Ordering::Relaxed) + counts;
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// Ends the turn of the loop, which has `now`.
    #[inline]
    pub(super) fn publish(&self, now: usize) {
        let before = self.known();
        self.on_loop.store(now, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.sum
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Ends a turn of the loop that leaves nothing else to publish.
    #[inline]
    pub(super) fn forget_taken(&self) {
        if self.taken.load(Ordering::Relaxed) > 0 {
            self.publish(self.on_loop());
        }
    }

    /// Forgets everything, because the channel is closed and nothing more is added.
    pub(super) fn clear(&self) {
        for one in [&self.sum, &self.on_loop, &self.taken] {
            one.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::model;

    use super::*;

    #[test]
    fn a_write_is_counted_from_its_addition_until_the_loop_has_sent_it() {
        model(0..200, |rng| {
            let pending = Pending::default();
            let (mut coming, mut taken, mut on_loop) = (Vec::new(), 0, 0);
            for _ in 0..100 {
                match rng.below(4) {
                    0 | 1 => {
                        let size = rng.index(1_000);
                        coming.push(size);
                        let sum = coming.iter().sum::<usize>() + taken + on_loop;
                        assert_eq!(pending.add(size), sum);
                    }
                    2 if !coming.is_empty() => {
                        let size = coming.remove(0);
                        pending.take(size);
                        taken += size;
                    }
                    _ if taken == 0 || rng.below(2) == 0 => {
                        (on_loop, taken) = (rng.index(1_000), 0);
                        pending.publish(on_loop);
                    }
                    _ => {
                        taken = 0;
                        pending.forget_taken();
                    }
                }
                let queued: usize = coming.iter().sum();
                assert_eq!(pending.get(), queued + taken + on_loop);
                assert_eq!((pending.coming(), pending.on_loop()), (queued, on_loop));
            }
            pending.clear();
            assert_eq!((pending.get(), pending.coming()), (0, 0));
        });
    }
}
