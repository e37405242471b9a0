//! How long a thread looks on before it sleeps, learned from whether that paid.
//!
//! A hand-over between two threads that are awake takes a fraction of a microsecond, waking one
//! that sleeps several. Looking on is worth its time only if what one waits for comes soon and
//! the other side has a CPU of its own, and both are found out by trying: a look that pays makes
//! the next one longer, looks in vain make it shorter, and then there are none but a short one
//! now and then.

use crate::prim::spin_loop;
use crate::usable_cpus;

/// The most looks: some tens of microseconds.
const MOST: u32 = 1024;
/// The looks of a new one.
const FIRST: u32 = 256;
/// The looks of a try after many sleeps without one: a few microseconds.
const TRY: u32 = 64;
/// Sleeps without a look between two tries.
const REST: u32 = 16;

/// What one thread has learned about looking on.
///
/// ```
/// use tidegate_sync::LookOn;
///
/// let mut look = LookOn::new();
/// let mut looks = 0;
/// look.look_on(|| { looks += 1; looks == 3 });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LookOn {
    looks: u32,
    rest: u32,
    /// Nobody else could run meanwhile.
    alone: bool,
}

impl LookOn {
    /// One that has learned nothing yet.
    pub fn new() -> Self {
        Self {
            looks: FIRST,
            rest: 0,
            alone: usable_cpus() == 1,
        }
    }

    /// Looks on for a while; true as soon as `ready` is.
    #[inline]
    pub fn look_on(&mut self, mut ready: impl FnMut() -> bool) -> bool {
        if self.alone {
            return false;
        }
        if self.looks == 0 {
            self.rest += 1;
            if self.rest < REST {
                return false;
            }
            self.rest = 0;
            self.looks = TRY;
        }
        for _ in 0..self.looks {
            spin_loop();
            if ready() {
                self.looks = (self.looks * 2).clamp(TRY, MOST);
                return true;
            }
        }
        self.looks = if self.looks > TRY { self.looks / 2 } else { 0 };
        false
    }
}

impl Default for LookOn {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Looks follow what they brought.

    use super::*;

    fn look() -> LookOn {
        LookOn {
            alone: false,
            ..LookOn::new()
        }
    }

    fn looks_in_vain(look: &mut LookOn) -> u32 {
        let mut looks = 0;
        assert!(!look.look_on(|| {
            looks += 1;
            false
        }));
        looks
    }

    #[test]
    fn looks_in_vain_end_but_for_a_try_now_and_then() {
        let mut look = look();
        let first: Vec<_> = (0..3).map(|_| looks_in_vain(&mut look)).collect();
        assert_eq!(first, [256, 128, 64]);
        let later: Vec<_> = (0..32).map(|_| looks_in_vain(&mut look)).collect();
        assert_eq!(later.iter().sum::<u32>(), 2 * TRY);
    }

    #[test]
    fn a_look_that_paid_makes_the_next_one_longer() {
        let mut look = look();
        for _ in 0..8 {
            assert!(look.look_on(|| true));
        }
        assert_eq!(looks_in_vain(&mut look), MOST);
    }

    #[test]
    fn a_single_cpu_is_not_kept_from_the_other_side() {
        let mut look = look();
        look.alone = true;
        assert_eq!(looks_in_vain(&mut look), 0);
    }
}
