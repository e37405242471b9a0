//! Adaptive spinning: how long a thread spins before it sleeps, learned from whether spinning
//! helped.
//!
//! A hand-off between two running threads takes a fraction of a microsecond; waking a sleeping
//! thread takes several. Spinning is worth its time only if the awaited event comes soon and the
//! other thread has a CPU of its own. Both are found out by trying: a spin that succeeds doubles
//! the length of the next one, a spin without success halves it. Below a minimum the thread sleeps
//! at once, except for a trial spin now and then.

use std::sync::OnceLock;

use crate::Clock;
use crate::sys::prim::spin_loop;
use crate::sys::thread::usable_cpus;

/// The longest spin, in microseconds: a few times the cost of sleeping and being woken.
const MAX_SPIN_US: u32 = 32;
/// Length of the first spin, and of a trial spin after sleeps without a spin. It is longer than a
/// wakeup takes: where both threads sleep, the answer to a trial comes from a thread that has to be
/// woken first, and a shorter trial would never find out that spinning helps.
const TRIAL_US: u32 = 16;
/// The shortest spin: a shorter one finds only what was there at the first check.
const MIN_SPIN_US: u32 = 4;
/// Number of sleeps without a spin before a trial. It doubles after each failed trial, up to
/// `MAX_SLEEPS_BEFORE_TRIAL`.
const SLEEPS_BEFORE_TRIAL: u32 = 16;
const MAX_SLEEPS_BEFORE_TRIAL: u32 = 64;

/// The adaptive spinning of one thread, with what it has learned so far.
///
/// The cost is bounded: if the awaited event never comes while spinning, the thread spins less than
/// a microsecond per sleep, on average.
///
/// ```
/// use tidegate_core::internal::SpinWait;
///
/// let mut spin = SpinWait::new();
/// let mut checks = 0;
/// spin.spin_until(|| { checks += 1; checks == 3 });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SpinWait {
    /// The length of the next spin; 0 means to sleep at once.
    micros: u32,
    /// Sleeps since the last trial, and (`rest`) the number of sleeps after which the next trial is
    /// due.
    sleeps: u32,
    rest: u32,
    /// Checks per microsecond; 0 when no other thread could run meanwhile (a single CPU).
    speed: u32,
}

impl SpinWait {
    /// Creates a value that has learned nothing yet.
    pub fn new() -> Self {
        Self::with_speed(if usable_cpus() == 1 { 0 } else { speed() })
    }

    const fn with_speed(speed: u32) -> Self {
        Self {
            micros: TRIAL_US,
            sleeps: 0,
            rest: SLEEPS_BEFORE_TRIAL,
            speed,
        }
    }

    /// Spins for a while. Returns `true` as soon as `ready` does, or `false` at the end of the
    /// spin.
    #[inline]
    pub fn spin_until(&mut self, mut ready: impl FnMut() -> bool) -> bool {
        if self.micros == 0 && !self.is_trial_due() {
            return false;
        }
        for _ in 0..self.micros * self.speed {
            spin_loop();
            if ready() {
                self.micros = (self.micros * 2).min(MAX_SPIN_US);
                self.rest = SLEEPS_BEFORE_TRIAL;
                return true;
            }
        }
        self.micros /= 2;
        if self.micros < MIN_SPIN_US {
            self.micros = 0;
        }
        false
    }

    /// Counts a sleep and returns `true` if a trial spin is due.
    fn is_trial_due(&mut self) -> bool {
        self.sleeps += 1;
        if self.sleeps < self.rest {
            return false;
        }
        self.sleeps = 0;
        self.rest = (self.rest * 2).min(MAX_SLEEPS_BEFORE_TRIAL);
        self.micros = TRIAL_US;
        true
    }
}

impl Default for SpinWait {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the checks per microsecond, measured once: a pause takes 5 to 50 ns, depending on the
/// CPU model.
fn speed() -> u32 {
    const CHECKS: u32 = 128;
    const RUNS: usize = 8;
    static SPEED: OnceLock<u32> = OnceLock::new();
    if cfg!(any(tidegate_loom, tidegate_shuttle)) {
        return 1;
    }
    *SPEED.get_or_init(|| {
        let clock = Clock::system();
        let spans = (0..RUNS).map(|_| {
            let began = clock.nanos();
            (0..CHECKS).for_each(|_| spin_loop());
            (clock.nanos() - began).max(1)
        });
        // The shortest run: in the longer ones another thread ran in between.
        let best = spans.min().unwrap_or(u64::from(CHECKS) * 20);
        (u64::from(CHECKS) * 1_000 / best).clamp(4, 400) as u32
    })
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Spins get longer when they succeed and shorter when they do not.

    use super::*;

    const SPEED: u32 = 10;

    fn looks_in_vain(spin: &mut SpinWait) -> u32 {
        let mut checks = 0;
        assert!(!spin.spin_until(|| {
            checks += 1;
            false
        }));
        checks / SPEED
    }

    #[test]
    fn looks_in_vain_end_but_for_a_try_now_and_then() {
        let mut spin = SpinWait::with_speed(SPEED);
        let first: Vec<_> = (0..4).map(|_| looks_in_vain(&mut spin)).collect();
        assert_eq!(first, [TRIAL_US, TRIAL_US / 2, TRIAL_US / 4, 0]);
        for _ in 0..1_000 {
            looks_in_vain(&mut spin);
        }
        let later: u32 = (0..6_700).map(|_| looks_in_vain(&mut spin)).sum();
        assert!(
            (2_700..=2_900).contains(&later),
            "{later} µs in 6700 sleeps"
        );
    }

    #[test]
    fn a_look_that_paid_makes_the_next_one_longer() {
        let mut spin = SpinWait::with_speed(SPEED);
        for _ in 0..8 {
            assert!(spin.spin_until(|| true));
        }
        assert_eq!(looks_in_vain(&mut spin), MAX_SPIN_US);
    }

    /// Two threads that sleep and wait for each other: the answer comes after `wakeup` if the other
    /// thread sleeps, and at once if it spins. Both must learn to spin, although both start asleep.
    #[test]
    fn two_that_sleep_both_come_to_look_on() {
        let mut sides = [SpinWait::with_speed(SPEED), SpinWait::with_speed(SPEED)];
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
                let mut checks = 0;
                awake[me] = sides[me].spin_until(|| {
                    checks += 1;
                    checks > other_answers_in
                });
            }
        }
        assert_eq!(awake, [true, true]);
        assert_eq!(sides.map(|side| side.micros), [MAX_SPIN_US, MAX_SPIN_US]);
    }

    #[test]
    fn a_single_cpu_is_not_kept_from_the_other_side() {
        assert_eq!(looks_in_vain(&mut SpinWait::with_speed(0)), 0);
    }
}
