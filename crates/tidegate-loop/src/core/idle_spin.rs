//! How long an event loop spins before it sleeps, and when it pauses behind a fast producer.
//!
//! Waking a sleeping thread costs far more than a hand-off between two threads that are awake. So
//! an idle event loop first spins on its lane: longer if that has paid off lately, hardly at all if
//! it has not. An event loop that consumes each task right after a fast producer wrote it makes
//! both fetch every cache line from the other. A short pause lets it take a whole batch of tasks
//! instead.

use tidegate_core::internal::prim::{spin_loop, yield_now};
use tidegate_core::internal::usable_cpus;

/// The maximum number of spins before the event loop sleeps: some tens of microseconds.
const LOOKS: u32 = 2048;
/// The minimum number of spins.
const FEWEST: u32 = LOOKS / 32;
/// The number of unsuccessful waits after which the number of spins returns to the maximum, because
/// the load may have changed.
const FRESH_START: u32 = 16;
/// How often an idle event loop on a single CPU yields before it sleeps.
const YIELDS: u32 = 3;
/// A task that arrives within `CLOSE` spins after the lane was empty came right behind the last
/// one. `HEELS` such arrivals in a row mean that the event loop runs right behind a producer.
const CLOSE: u32 = 4;
const HEELS: u32 = 8;
/// Spins of a pause behind a producer: a few microseconds.
const PAUSE: u32 = 300;

/// The adaptive spin time of an event loop.
#[derive(Debug)]
pub(crate) struct IdleSpin {
    looks: u32,
    /// Unsuccessful waits so far.
    vain: u32,
    /// How many times in a row a task arrived right after the lane was empty.
    close: u32,
    /// `true` on a single CPU: no producer can run while this thread spins.
    alone: bool,
}

impl IdleSpin {
    pub(crate) fn new() -> Self {
        Self {
            looks: LOOKS,
            vain: 0,
            close: 0,
            alone: usable_cpus() == 1,
        }
    }

    /// Spins for a while. Returns `true` as soon as `ready` does.
    pub(crate) fn look_on(&mut self, mut ready: impl FnMut() -> bool) -> bool {
        if self.alone {
            return (0..YIELDS).any(|_| {
                yield_now();
                ready()
            });
        }
        for look in 0..self.looks {
            spin_loop();
            if ready() {
                self.close = if look < CLOSE { self.close + 1 } else { 0 };
                self.looks = (self.looks * 2).min(LOOKS);
                return true;
            }
        }
        self.vain = self.vain.wrapping_add(1);
        self.looks = if self.vain.is_multiple_of(FRESH_START) {
            LOOKS
        } else {
            (self.looks / 2).max(FEWEST)
        };
        false
    }

    /// Returns `true` if the event loop runs right behind a producer.
    pub(crate) fn is_at_heels(&self) -> bool {
        self.close >= HEELS
    }

    /// Pauses for a moment. Returns `true` if `ready` does so afterwards.
    pub(crate) fn hang_back(&mut self, ready: impl FnOnce() -> bool) -> bool {
        if self.alone {
            return false;
        }
        for _ in 0..PAUSE {
            std::hint::spin_loop();
        }
        let ready = ready();
        if !ready {
            self.close = 0;
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    //! How the spin time follows the results.

    use super::*;

    fn idle_spin() -> IdleSpin {
        IdleSpin {
            alone: false,
            ..IdleSpin::new()
        }
    }

    #[test]
    fn looking_in_vain_makes_impatient_until_a_fresh_start() {
        let mut idle_spin = idle_spin();
        for _ in 1..FRESH_START {
            assert!(!idle_spin.look_on(|| false));
        }
        assert_eq!(idle_spin.looks, FEWEST);
        idle_spin.look_on(|| false);
        assert_eq!(idle_spin.looks, LOOKS);
    }

    #[test]
    fn success_makes_patient_again() {
        let mut idle_spin = idle_spin();
        while idle_spin.looks > FEWEST {
            idle_spin.look_on(|| false);
        }
        assert!(idle_spin.look_on(|| true));
        assert_eq!(idle_spin.looks, 2 * FEWEST);
    }

    #[test]
    fn only_what_comes_at_once_and_again_puts_the_loop_at_the_heels() {
        let mut idle_spin = idle_spin();
        for _ in 0..HEELS {
            assert!(!idle_spin.is_at_heels());
            idle_spin.look_on(|| true);
        }
        assert!(idle_spin.is_at_heels());
        let mut looks = 0;
        idle_spin.look_on(|| {
            looks += 1;
            looks > CLOSE
        });
        assert!(!idle_spin.is_at_heels());
    }

    #[test]
    fn hanging_back_in_vain_ends_the_chase() {
        let mut idle_spin = idle_spin();
        for _ in 0..HEELS {
            idle_spin.look_on(|| true);
        }
        assert!(idle_spin.hang_back(|| true) && idle_spin.is_at_heels());
        assert!(!idle_spin.hang_back(|| false) && !idle_spin.is_at_heels());
    }

    #[test]
    fn a_single_cpu_is_yielded_a_few_times() {
        let mut idle_spin = IdleSpin {
            alone: true,
            ..idle_spin()
        };
        let mut looks = 0;
        assert!(!idle_spin.look_on(|| {
            looks += 1;
            false
        }));
        assert_eq!(looks, YIELDS);
        assert!(!idle_spin.hang_back(|| true));
    }
}
