//! How long a thread looks on before it sleeps, learned from whether that paid.
//!
//! A hand-over between two threads that are awake takes a fraction of a microsecond, waking one
//! that sleeps several. Looking on is worth its time only if what one waits for comes soon and
//! the other side has a CPU of its own, and both are found out by trying: a look that pays makes
//! the next one longer, looks in vain make it shorter, and then there are none but a try
//! now and then.

use std::sync::OnceLock;

use crate::prim::spin_loop;
use crate::{Clock, usable_cpus};

/// The longest look, in microseconds: what sleeping and being woken costs, a few times over.
const MOST: u32 = 32;
/// A first look, and a try after sleeps without one. Longer than a wakeup takes: where both sides
/// sleep, the answer to a try comes from a thread that has to be woken first, and a shorter try
/// would never find out that looking on pays.
const TRY: u32 = 16;
/// A look shorter than this finds nothing that was not there at once.
const LEAST: u32 = 4;
/// Sleeps without a look before a try; twice as many after each try in vain.
const REST: u32 = 16;
const MOST_REST: u32 = 64;

/// What one thread has learned about looking on.
///
/// The cost is bounded: with nothing to be seen, a sleep is preceded by less than a microsecond of
/// looking, on average.
///
/// ```
/// use tidegate_core::LookOn;
///
/// let mut look = LookOn::new();
/// let mut looks = 0;
/// look.look_on(|| { looks += 1; looks == 3 });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LookOn {
    /// The length of the next look; 0 means to sleep at once.
    micros: u32,
    /// Sleeps until the next try, and how many there were before this one.
    sleeps: u32,
    rest: u32,
    /// Looks in a microsecond; 0 when nobody else could run meanwhile.
    speed: u32,
}

impl LookOn {
    /// One that has learned nothing yet.
    pub fn new() -> Self {
        Self::with_speed(if usable_cpus() == 1 { 0 } else { speed() })
    }

    const fn with_speed(speed: u32) -> Self {
        Self {
            micros: TRY,
            sleeps: 0,
            rest: REST,
            speed,
        }
    }

    /// Looks on for a while; true as soon as `ready` is.
    #[inline]
    pub fn look_on(&mut self, mut ready: impl FnMut() -> bool) -> bool {
        if self.micros == 0 && !self.tries() {
            return false;
        }
        for _ in 0..self.micros * self.speed {
            spin_loop();
            if ready() {
                self.micros = (self.micros * 2).min(MOST);
                self.rest = REST;
                return true;
            }
        }
        self.micros /= 2;
        if self.micros < LEAST {
            self.micros = 0;
        }
        false
    }

    /// Whether it is time for a try.
    fn tries(&mut self) -> bool {
        self.sleeps += 1;
        if self.sleeps < self.rest {
            return false;
        }
        self.sleeps = 0;
        self.rest = (self.rest * 2).min(MOST_REST);
        self.micros = TRY;
        true
    }
}

impl Default for LookOn {
    fn default() -> Self {
        Self::new()
    }
}

/// Looks in a microsecond, found out once: a pause takes 5 to 50 ns, by the make of the CPU.
fn speed() -> u32 {
    const LOOKS: u32 = 128;
    const TRIES: usize = 8;
    static SPEED: OnceLock<u32> = OnceLock::new();
    if cfg!(any(tidegate_loom, tidegate_shuttle)) {
        return 1;
    }
    *SPEED.get_or_init(|| {
        let clock = Clock::system();
        let spans = (0..TRIES).map(|_| {
            let began = clock.nanos();
            (0..LOOKS).for_each(|_| spin_loop());
            (clock.nanos() - began).max(1)
        });
        // The shortest: in the others somebody else ran.
        let best = spans.min().unwrap_or(u64::from(LOOKS) * 20);
        (u64::from(LOOKS) * 1_000 / best).clamp(4, 400) as u32
    })
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Looks follow what they brought.

    use super::*;

    const SPEED: u32 = 10;

    fn looks_in_vain(look: &mut LookOn) -> u32 {
        let mut looks = 0;
        assert!(!look.look_on(|| {
            looks += 1;
            false
        }));
        looks / SPEED
    }

    #[test]
    fn looks_in_vain_end_but_for_a_try_now_and_then() {
        let mut look = LookOn::with_speed(SPEED);
        let first: Vec<_> = (0..4).map(|_| looks_in_vain(&mut look)).collect();
        assert_eq!(first, [TRY, TRY / 2, TRY / 4, 0]);
        for _ in 0..1_000 {
            looks_in_vain(&mut look);
        }
        let later: u32 = (0..6_700).map(|_| looks_in_vain(&mut look)).sum();
        assert!(
            (2_700..=2_900).contains(&later),
            "{later} µs in 6700 sleeps"
        );
    }

    #[test]
    fn a_look_that_paid_makes_the_next_one_longer() {
        let mut look = LookOn::with_speed(SPEED);
        for _ in 0..8 {
            assert!(look.look_on(|| true));
        }
        assert_eq!(looks_in_vain(&mut look), MOST);
    }

    /// Two that sleep: what one waits for comes `wakeup` after the other was asked, who answers at
    /// once when it looks on. Each must find out, though the other still sleeps.
    #[test]
    fn two_that_sleep_both_come_to_look_on() {
        let mut sides = [LookOn::with_speed(SPEED), LookOn::with_speed(SPEED)];
        for side in &mut sides {
            while side.micros > 0 {
                looks_in_vain(side);
            }
        }
        let wakeup = 8 * SPEED;
        let mut awake = [false; 2];
        for _ in 0..200 {
            for me in 0..2 {
                let other_answers_in = if awake[1 - me] { 1 } else { wakeup };
                let mut looks = 0;
                awake[me] = sides[me].look_on(|| {
                    looks += 1;
                    looks > other_answers_in
                });
            }
        }
        assert_eq!(awake, [true, true]);
        assert_eq!(sides.map(|side| side.micros), [MOST, MOST]);
    }

    #[test]
    fn a_single_cpu_is_not_kept_from_the_other_side() {
        assert_eq!(looks_in_vain(&mut LookOn::with_speed(0)), 0);
    }
}
