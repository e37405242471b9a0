//! A clock that is cheap to read: the processor's cycle counter, calibrated by the system's clock.
//!
//! Reading the system's clock may cost as much as four locked instructions; the counter costs less
//! than one. The counter is *calibrated*: a pair of readings (cycles, nanoseconds) and a rate give
//! the time of any later reading. A reader that comes more than [`INTERVAL`] after the last pair
//! takes a new one.
//!
//! # Accuracy
//!
//! Within an interval, the error is what the rate changed since the interval before. The system
//! slews its clock by at most 500 parts in a million, so the worst error is 50 µs; a quiet machine
//! shows well under 1 µs. Each new pair measures the error of the last interval, and
//! [`FastClock::worst_error`] returns the largest so far. After a pause longer than the interval,
//! the first reading is the system's own. The time never goes back: a counter that ran ahead is
//! slowed down until the system's clock has caught up. A counter that ran ahead by more than
//! [`GIVE_UP`] (a machine that was migrated) is not used again.
//!
//! Where the counter is not steady, on a manual clock, and at the start of a process (no rate is
//! known yet), every reading is the clock's own, at full cost.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use super::handle::Clock;
use crate::sys::cycles;

/// The longest time for which one calibration is used, in nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// The shortest time that gives a usable rate, in nanoseconds.
const LEARN: u64 = 10_000_000;
/// A counter that is ahead of the system's clock by more than this is not used again, in
/// nanoseconds.
const GIVE_UP: u64 = 10_000_000;
/// Fraction bits of the rate.
const SHIFT: u32 = 32;

/// A [`Clock`] whose present time is cheap to read. It is made from a clock and is as exact as its
/// error bound says (see [`FastClock::worst_error`]).
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::ManualClock;
/// use tidegate_core::internal::FastClock;
///
/// let manual = ManualClock::new();
/// let fast = FastClock::new(&(&manual).into());
/// manual.advance(Duration::from_millis(5));
/// assert_eq!(fast.nanos(), 5_000_000); // a manual clock is exact
/// ```
#[derive(Clone, Debug)]
pub struct FastClock {
    clock: Clock,
    counter: Option<&'static Counter>,
}

impl FastClock {
    /// Creates the cheap reading of `clock`.
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            counter: if clock.is_manual() { None } else { counter() },
        }
    }

    /// Returns the present time in nanoseconds since the clock's origin. Never less than an earlier
    /// reading on the same thread.
    #[inline]
    pub fn nanos(&self) -> u64 {
        match self.counter {
            Some(counter) => counter
                .read(cycles::now())
                .unwrap_or_else(|| counter.recalibrate(&self.clock)),
            None => self.clock.nanos(),
        }
    }

    /// Returns the underlying clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns `true` if readings come from the cycle counter.
    pub fn is_counted(&self) -> bool {
        self.counter.is_some_and(|counter| {
            // Relaxed: informative only.
            counter.rate.load(Ordering::Relaxed) != 0
        })
    }

    /// Returns the largest error that a calibration has found so far; zero for clocks that are
    /// exact.
    pub fn worst_error(&self) -> Duration {
        let worst = |counter: &Counter| counter.worst.load(Ordering::Relaxed);
        Duration::from_nanos(self.counter.map_or(0, worst))
    }
}

/// Returns the only counter of the process, if it is steady.
fn counter() -> Option<&'static Counter> {
    static COUNTER: OnceLock<Option<Counter>> = OnceLock::new();
    COUNTER
        .get_or_init(|| cycles::is_steady().then(Counter::new))
        .as_ref()
}

/// A pair of readings and the rate between the last two pairs.
#[derive(Debug)]
struct Counter {
    /// Odd while the fields below change.
    sequence: AtomicU64,
    cycles: AtomicU64,
    nanos: AtomicU64,
    /// Nanoseconds per cycle, with `SHIFT` fraction bits; 0 while no rate is known.
    rate: AtomicU64,
    /// Number of cycles in one interval, after which a new pair is due.
    span: AtomicU64,
    /// The system clock's time at the last pair, from which the rate is measured.
    true_nanos: AtomicU64,
    worst: AtomicU64,
}

impl Counter {
    fn new() -> Self {
        let (cycles, nanos) = pair(&Clock::system());
        Self {
            sequence: AtomicU64::new(0),
            cycles: AtomicU64::new(cycles),
            nanos: AtomicU64::new(nanos),
            rate: AtomicU64::new(0),
            span: AtomicU64::new(0),
            true_nanos: AtomicU64::new(nanos),
            worst: AtomicU64::new(0),
        }
    }

    /// Returns the time at `now` cycles, or `None` if a new pair is due or is being written.
    #[inline]
    fn read(&self, now: u64) -> Option<u64> {
        // ORDERING: Acquire pairs with the Release at the end of `recalibrate`: the fields read
        // below are at least as new as the sequence.
        let sequence = self.sequence.load(Ordering::Acquire);
        let cycles = self.cycles.load(Ordering::Relaxed);
        let nanos = self.nanos.load(Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        let span = self.span.load(Ordering::Relaxed);
        // ORDERING: Acquire fence pairs with the Release fence in `recalibrate`: if a field above
        // was read in the middle of a change, the sequence below differs.
        fence(Ordering::Acquire);
        let same = self.sequence.load(Ordering::Relaxed) == sequence;
        // The pair may be newer than `now` if this thread was delayed in between.
        let passed = now.saturating_sub(cycles);
        let fresh = sequence & 1 == 0 && same && passed < span;
        fresh.then(|| nanos + scaled(passed, rate))
    }

    /// Takes a new pair, unless another thread does, and returns the present time.
    #[cold]
    fn recalibrate(&self, clock: &Clock) -> u64 {
        let (now, truth) = pair(clock);
        let sequence = self.sequence.load(Ordering::Relaxed);
        let passed = truth.saturating_sub(self.true_nanos.load(Ordering::Relaxed));
        if sequence & 1 == 1 || passed < LEARN {
            return truth.max(self.nanos.load(Ordering::Relaxed));
        }
        // ORDERING: Acquire pairs with the Release at the end of the last change.
        let taken = self.sequence.compare_exchange(
            sequence,
            sequence + 1,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return truth.max(self.nanos.load(Ordering::Relaxed));
        }
        // ORDERING: Release fence pairs with the Acquire fence in `read`: a thread that reads a
        // field written below also reads the odd sequence.
        fence(Ordering::Release);
        let time = self.write(now, truth);
        // ORDERING: Release pairs with the Acquire load in `read`.
        self.sequence.store(sequence + 2, Ordering::Release);
        time
    }

    /// Writes the new pair and returns the present time. The sequence is odd, so no other thread
    /// writes.
    fn write(&self, now: u64, truth: u64) -> u64 {
        let get = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let old = get(&self.rate);
        let cycles = now.saturating_sub(get(&self.cycles)).max(1);
        let said = get(&self.nanos) + scaled(cycles, old);
        let passed = truth.saturating_sub(get(&self.true_nanos));
        if old != 0 && passed < 2 * INTERVAL {
            self.worst
                .fetch_max(said.abs_diff(truth), Ordering::Relaxed);
        }
        let ahead = said.saturating_sub(truth);
        let rate = if ahead > GIVE_UP {
            0
        } else {
            let rate = ((u128::from(passed) << SHIFT) / u128::from(cycles)) as u64;
            // If ahead of the system's clock: run slower, so that the two meet at the end of the
            // interval.
            rate - (u128::from(rate) * u128::from(ahead) / u128::from(INTERVAL)) as u64
        };
        let span = (u128::from(INTERVAL) << SHIFT)
            .checked_div(u128::from(rate))
            .unwrap_or(0) as u64;
        let time = said.max(truth);
        self.cycles.store(now, Ordering::Relaxed);
        self.nanos.store(time, Ordering::Relaxed);
        self.true_nanos.store(truth, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.span.store(span, Ordering::Relaxed);
        time
    }
}

#[inline(always)]
fn scaled(cycles: u64, rate: u64) -> u64 {
    ((u128::from(cycles) * u128::from(rate)) >> SHIFT) as u64
}

/// Returns the cycles and nanoseconds of one point in time: the closest of a few tries, since the
/// thread may be delayed between the two reads.
fn pair(clock: &Clock) -> (u64, u64) {
    let tries = (0..3).map(|_| {
        let before = cycles::now();
        let nanos = clock.nanos();
        let after = cycles::now();
        (after - before, before + (after - before) / 2, nanos)
    });
    let best = tries.min().expect("there were three tries");
    (best.1, best.2)
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! The counter agrees with the clock, within its bound, and never goes back.

    use super::*;
    use crate::ManualClock;

    /// A counter at one cycle per nanosecond, calibrated.
    fn steady() -> Counter {
        let counter = Counter::new();
        counter.cycles.store(0, Ordering::Relaxed);
        counter.nanos.store(0, Ordering::Relaxed);
        counter.true_nanos.store(0, Ordering::Relaxed);
        counter.write(INTERVAL, INTERVAL);
        counter
    }

    #[test]
    fn a_calibrated_counter_measures_the_time() {
        let counter = steady();
        assert_eq!(counter.read(INTERVAL + 1_000), Some(INTERVAL + 1_000));
        assert_eq!(counter.read(3 * INTERVAL), None, "a new pair is due");
        assert_eq!(counter.worst.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_counter_that_ran_ahead_is_slowed_and_never_goes_back() {
        let counter = steady();
        // The system's clock is 1 µs behind the counter.
        let said = counter.write(2 * INTERVAL, 2 * INTERVAL - 1_000);
        assert_eq!(said, 2 * INTERVAL);
        assert_eq!(counter.worst.load(Ordering::Relaxed), 1_000);
        let end = counter.read(3 * INTERVAL - 1).expect("it is calibrated");
        assert!(end.abs_diff(3 * INTERVAL - 1_000) < 1_100, "{end}");
        // The system's clock is ahead: the counter steps forward at once.
        assert_eq!(
            counter.write(3 * INTERVAL, 3 * INTERVAL + 500),
            3 * INTERVAL + 500
        );
    }

    #[test]
    fn a_counter_that_lies_is_given_up() {
        let counter = steady();
        counter.write(3 * INTERVAL, INTERVAL + 50_000_000);
        assert_eq!(counter.read(3 * INTERVAL + 1), None);
    }

    #[test]
    fn readings_never_go_back_and_stay_near_the_clock() {
        let fast = FastClock::new(&Clock::system());
        let end = fast.clock().nanos() + 60_000_000;
        let mut last = 0;
        while fast.clock().nanos() < end {
            let now = fast.nanos();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        if fast.is_counted() {
            let bound = 50_000 + fast.worst_error().as_nanos() as u64;
            let near = (0..100).any(|_| {
                let before = fast.clock().nanos();
                let now = fast.nanos();
                let after = fast.clock().nanos();
                now + bound >= before && now <= after + bound
            });
            assert!(near, "never within {bound} ns of the clock");
        }
    }

    #[test]
    fn a_manual_clock_is_read_as_it_is() {
        let manual = ManualClock::new();
        let fast = FastClock::new(&Clock::from(&manual));
        manual.advance(Duration::from_nanos(7));
        assert_eq!((fast.nanos(), fast.is_counted()), (7, false));
        assert_eq!(fast.worst_error(), Duration::ZERO);
    }
}
