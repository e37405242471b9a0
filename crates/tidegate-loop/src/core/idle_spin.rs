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
const MAX_SPINS: u32 = 2048;
/// The minimum number of spins.
const MIN_SPINS: u32 = MAX_SPINS / 32;
/// The number of unsuccessful waits after which the number of spins returns to the maximum, because
/// the load may have changed.
const FRESH_START: u32 = 16;
/// How often an idle event loop on a single CPU yields before it sleeps.
const YIELDS: u32 = 3;
/// A task that arrives within `CLOSE` spins after the lane was empty came right behind the last
/// one. `CLOSE_IN_A_ROW` such arrivals in a row mean that the event loop runs right behind a
/// producer.
const CLOSE: u32 = 4;
const CLOSE_IN_A_ROW: u32 = 8;
/// Spins of a pause behind a producer: a few microseconds.
const PAUSE: u32 = 300;

/// The adaptive spin time of an event loop.
#[derive(Debug)]
pub(crate) struct IdleSpin {
    spins: u32,
    /// Unsuccessful waits so far.
    vain: u32,
    /// How many times in a row a task arrived right after the lane was empty.
    close: u32,
    /// `true` on a single CPU: no producer can run while this thread spins.
    single_cpu: bool,
}

impl IdleSpin {
    pub(crate) fn new() -> Self {
        Self {
            spins: MAX_SPINS,
            vain: 0,
            close: 0,
            single_cpu: usable_cpus() == 1,
        }
    }

    /// Spins for a while. Returns `true` as soon as `ready` does.
    pub(crate) fn spin(&mut self, mut ready: impl FnMut() -> bool) -> bool {
        if self.single_cpu {
            return (0..YIELDS).any(|_| {
                yield_now();
                ready()
            });
        }
        for spin in 0..self.spins {
            spin_loop();
            if ready() {
                self.close = if spin < CLOSE { self.close + 1 } else { 0 };
                self.spins = (self.spins * 2).min(MAX_SPINS);
                return true;
            }
        }
        self.vain = self.vain.wrapping_add(1);
        self.spins = if self.vain.is_multiple_of(FRESH_START) {
            MAX_SPINS
        } else {
            (self.spins / 2).max(MIN_SPINS)
        };
        false
    }

    /// Returns `true` if the event loop runs right behind a producer.
    pub(crate) fn is_behind_producer(&self) -> bool {
        self.close >= CLOSE_IN_A_ROW
    }

    /// Pauses for a moment. Returns `true` if `ready` does so afterwards.
    pub(crate) fn pause(&mut self, ready: impl FnOnce() -> bool) -> bool {
        if self.single_cpu {
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
            single_cpu: false,
            ..IdleSpin::new()
        }
    }

    #[test]
    fn looking_in_vain_makes_impatient_until_a_fresh_start() {
        let mut idle_spin = idle_spin();
        for _ in 1..FRESH_START {
            assert!(!idle_spin.spin(|| false));
        }
        assert_eq!(idle_spin.spins, MIN_SPINS);
        idle_spin.spin(|| false);
        assert_eq!(idle_spin.spins, MAX_SPINS);
    }

    #[test]
    fn success_makes_patient_again() {
        let mut idle_spin = idle_spin();
        while idle_spin.spins > MIN_SPINS {
            idle_spin.spin(|| false);
        }
        assert!(idle_spin.spin(|| true));
        assert_eq!(idle_spin.spins, 2 * MIN_SPINS);
    }

    #[test]
    fn only_what_comes_at_once_and_again_puts_the_loop_at_the_heels() {
        let mut idle_spin = idle_spin();
        for _ in 0..CLOSE_IN_A_ROW {
            assert!(!idle_spin.is_behind_producer());
            idle_spin.spin(|| true);
        }
        assert!(idle_spin.is_behind_producer());
        let mut spins = 0;
        idle_spin.spin(|| {
            spins += 1;
            spins > CLOSE
        });
        assert!(!idle_spin.is_behind_producer());
    }

    #[test]
    fn hanging_back_in_vain_ends_the_chase() {
        let mut idle_spin = idle_spin();
        for _ in 0..CLOSE_IN_A_ROW {
            idle_spin.spin(|| true);
        }
        assert!(idle_spin.pause(|| true) && idle_spin.is_behind_producer());
        assert!(!idle_spin.pause(|| false) && !idle_spin.is_behind_producer());
    }

    #[test]
    fn a_single_cpu_is_yielded_a_few_times() {
        let mut idle_spin = IdleSpin {
            single_cpu: true,
            ..idle_spin()
        };
        let mut spins = 0;
        assert!(!idle_spin.spin(|| {
            spins += 1;
            false
        }));
        assert_eq!(spins, YIELDS);
        assert!(!idle_spin.pause(|| true));
    }
}
