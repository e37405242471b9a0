//! The doorbell: one word that says whether a loop sleeps, and until when.
//!
//! A producer pushes and then reads the word; a loop writes the word and then checks its lanes. The
//! side that comes second sees the other (see *Ordering*), so there is no lost wake-up. The first
//! producer that finds the loop asleep resets the word and wakes the loop; later producers find it
//! awake. So there is one wakeup per sleep, however many pushes.
//!
//! # Ordering
//!
//! This is the store-buffer pattern: acquire and release are not enough. The producer's claim (the
//! compare-and-swap in `TaskLane::push` or `SignalLane::push`), its load of the word, the loop's
//! swap in [`Doorbell::arm`] and the loop's check of the lanes (`is_empty`) are all `SeqCst`, so
//! they are in one total order. If the producer's load comes before the loop's swap, its claim came
//! before the loop's check of the lane, which therefore finds it. The producer needs no fence of
//! its own, since the claim is a locked instruction already.
//!
//! The lane must count a task from its *claim* on: a loop that finds a claimed but unwritten slot
//! does not sleep, it checks again.

use std::fmt;

use crate::cache_padded::CachePadded;
use crate::sys::prim::{AtomicU64, Ordering};

/// The loop is awake and will check its lanes before it sleeps.
const AWAKE: u64 = 0;

/// One word that says whether a loop sleeps, and until when.
///
/// ```
/// use tidegate_core::internal::Doorbell;
///
/// let bell = Doorbell::new();
/// assert!(!bell.ring(), "the loop is awake: nothing to do");
/// bell.arm(u64::MAX);
/// assert!(bell.ring(), "the first one wakes the loop");
/// assert!(!bell.ring(), "the second finds it awake");
/// ```
pub struct Doorbell {
    /// [`AWAKE`], or the nanosecond at which the sleeping loop will wake up without a ring
    /// (`u64::MAX`: never).
    until: CachePadded<AtomicU64>,
}

impl Doorbell {
    /// Creates the doorbell of a loop that is awake.
    pub fn new() -> Self {
        Self {
            until: CachePadded::new(AtomicU64::new(AWAKE)),
        }
    }

    /// Announces a push. Returns `true` if the caller must wake the loop's driver.
    #[inline]
    #[must_use = "true means that the caller has to wake the loop"]
    pub fn ring(&self) -> bool {
        // ORDERING: SeqCst, the producer's load; pairs with the swap in `arm`.
        self.until.load(Ordering::SeqCst) != AWAKE && self.reset()
    }

    /// Does the same as [`Doorbell::ring`], but only if the loop would otherwise sleep past
    /// `deadline`.
    #[inline]
    #[must_use = "true means that the caller has to wake the loop"]
    pub fn ring_before(&self, deadline: u64) -> bool {
        // ORDERING: SeqCst, the producer's load; pairs with the swap in `arm`.
        let until = self.until.load(Ordering::SeqCst);
        until != AWAKE && deadline < until && self.reset()
    }

    #[cold]
    fn reset(&self) -> bool {
        // ORDERING: AcqRel: one of many ringing producers gets the old value; Acquire pairs
        // with `arm`, so that the waker which the loop prepared before sleeping is visible.
        self.until.swap(AWAKE, Ordering::AcqRel) != AWAKE
    }

    /// Announces that the loop will sleep until nanosecond `until` (at least 1). The loop must now
    /// check its lanes once more, and then either sleep or call [`Doorbell::disarm`].
    pub fn arm(&self, until: u64) {
        // ORDERING: SeqCst, the loop's announcement; pairs with the load in `ring`.
        self.until.swap(until.max(1), Ordering::SeqCst);
        crate::sys::prim::claim_fence();
    }

    /// Announces that the loop is awake. Returns `true` if no producer had rung.
    pub fn disarm(&self) -> bool {
        // ORDERING: AcqRel: Acquire pairs with the swap in `reset`, so that what the ringing
        // producer pushed is visible; Release is for the next `reset`.
        self.until.swap(AWAKE, Ordering::AcqRel) != AWAKE
    }

    /// Returns `true` if the loop is asleep or about to sleep.
    pub fn is_armed(&self) -> bool {
        self.until.load(Ordering::Relaxed) != AWAKE
    }
}

impl Default for Doorbell {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell")
            .field("armed", &self.is_armed())
            .finish()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! One wakeup per sleep, and none for a loop that wakes early enough by itself.

    use std::thread;

    use tidegate_testkit::{rounds, until};

    use super::*;
    use crate::lane::task::TaskLane;
    use crate::{Parker, Task};

    #[test]
    fn only_the_first_ring_of_a_sleep_wakes() {
        let bell = Doorbell::new();
        assert!(!bell.ring() && !bell.is_armed());
        for _ in 0..2 {
            bell.arm(u64::MAX);
            assert!(bell.is_armed());
            assert!(bell.ring());
            assert!(!bell.ring() && !bell.is_armed());
            assert!(!bell.disarm(), "it had been rung");
        }
        bell.arm(7);
        assert!(bell.disarm(), "it had not been rung");
        assert!(!bell.ring());
    }

    #[test]
    fn a_later_deadline_does_not_wake() {
        let bell = Doorbell::new();
        assert!(!bell.ring_before(1), "awake");
        bell.arm(100);
        assert!(!bell.ring_before(101) && !bell.ring_before(100));
        assert!(bell.ring_before(99));
        assert!(!bell.ring_before(1), "awake");
        bell.arm(0);
        assert!(bell.is_armed(), "a deadline of 0 is not taken for awake");
        assert!(bell.ring_before(0));
    }

    #[test]
    fn no_push_is_slept_over() {
        let (lane, mut end) = TaskLane::new(64);
        let (bell, parker) = (Doorbell::new(), Parker::new());
        let each = rounds(20_000);
        thread::scope(|scope| {
            for _ in 0..2 {
                let (lane, bell, parker) = (&lane, &bell, &parker);
                scope.spawn(move || {
                    for _ in 0..each {
                        until("the lane has room", || lane.push(Task::new(|| ())).is_ok());
                        if bell.ring() {
                            parker.unpark();
                        }
                    }
                });
            }
            let mut ran = 0;
            while ran < 2 * each {
                if end.pop().map(Task::run).is_some() {
                    ran += 1;
                    continue;
                }
                end.publish();
                bell.arm(u64::MAX);
                if end.is_empty() {
                    parker.park(None);
                }
                bell.disarm();
            }
        });
    }
}
