//! How long a loop looks on before it sleeps, and when it had better hang back.
//!
//! Waking a sleeping thread costs far more than a hand-over between two that are awake, so an
//! idle loop watches its lane for a while first: longer where that has paid lately, hardly at
//! all where it has not. And a loop that runs at the heels of a fast producer fetches each
//! cache line from under its pen; waiting a moment lets it take what was written by the dozen.

use tidegate_core::prim::{spin_loop, yield_now};
use tidegate_core::usable_cpus;

/// The most looks before a loop sleeps: some tens of microseconds.
const LOOKS: u32 = 2048;
/// The fewest.
const FEWEST: u32 = LOOKS / 32;
/// Looks in vain after which patience starts anew: what comes may have changed.
const FRESH_START: u32 = 16;
/// Times that an idle loop on a single CPU lets others run before it sleeps.
const YIELDS: u32 = 3;
/// Looks within which a task comes as soon as the loop has run dry, and how many such times in
/// a row mean that the loop is at a producer's heels.
const CLOSE: u32 = 4;
const HEELS: u32 = 8;
/// How long a loop hangs back: a few microseconds.
const PAUSE: u32 = 300;

/// What a loop has learned about waiting.
#[derive(Debug)]
pub(crate) struct Patience {
    looks: u32,
    /// Looks in vain so far.
    vain: u32,
    /// Times in a row that a task came as soon as the loop had run dry.
    close: u32,
    /// Nobody else could run meanwhile.
    alone: bool,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            looks: LOOKS,
            vain: 0,
            close: 0,
            alone: usable_cpus() == 1,
        }
    }

    /// Looks on for a while; true as soon as `ready` is.
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

    /// Whether the loop runs at a producer's heels.
    pub(crate) fn is_at_heels(&self) -> bool {
        self.close >= HEELS
    }

    /// Hangs back for a moment; true if `ready` then is.
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
    //! Patience follows what looking brought.

    use super::*;

    fn patience() -> Patience {
        Patience {
            alone: false,
            ..Patience::new()
        }
    }

    #[test]
    fn looking_in_vain_makes_impatient_until_a_fresh_start() {
        let mut patience = patience();
        for _ in 1..FRESH_START {
            assert!(!patience.look_on(|| false));
        }
        assert_eq!(patience.looks, FEWEST);
        patience.look_on(|| false);
        assert_eq!(patience.looks, LOOKS);
    }

    #[test]
    fn success_makes_patient_again() {
        let mut patience = patience();
        while patience.looks > FEWEST {
            patience.look_on(|| false);
        }
        assert!(patience.look_on(|| true));
        assert_eq!(patience.looks, 2 * FEWEST);
    }

    #[test]
    fn only_what_comes_at_once_and_again_puts_the_loop_at_the_heels() {
        let mut patience = patience();
        for _ in 0..HEELS {
            assert!(!patience.is_at_heels());
            patience.look_on(|| true);
        }
        assert!(patience.is_at_heels());
        let mut looks = 0;
        patience.look_on(|| {
            looks += 1;
            looks > CLOSE
        });
        assert!(!patience.is_at_heels());
    }

    #[test]
    fn hanging_back_in_vain_ends_the_chase() {
        let mut patience = patience();
        for _ in 0..HEELS {
            patience.look_on(|| true);
        }
        assert!(patience.hang_back(|| true) && patience.is_at_heels());
        assert!(!patience.hang_back(|| false) && !patience.is_at_heels());
    }

    #[test]
    fn a_single_cpu_is_yielded_a_few_times() {
        let mut patience = Patience {
            alone: true,
            ..patience()
        };
        let mut looks = 0;
        assert!(!patience.look_on(|| {
            looks += 1;
            false
        }));
        assert_eq!(looks, YIELDS);
        assert!(!patience.hang_back(|| true));
    }
}
