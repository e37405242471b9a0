//! How a wheel divides time into ticks, slots and levels.
//!
//! An entry is due at the end of a tick. Tick `n` ends at time `n * tick`. It contains the times
//! after the end of tick `n - 1`, up to and including its own end. The first level has one slot per
//! tick; the caller chooses the number of slots, which is rounded up to a power of two. Each higher
//! level has 64 slots, and each of them is as wide as the whole level below.
//!
//! The level of an entry is given by the highest bit in which its tick differs from the current
//! tick. So near entries are sorted by exact tick and far entries roughly; far entries move down
//! when time reaches their slot. As a result, the lowest list that is not empty is always the next
//! one.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::internal::as_nanos;

/// The base-2 logarithm of the number of slots of each level above the first.
const UPPER_BITS: u32 = 6;

/// The maximum number of slots of the first level.
const MAX_SLOTS: usize = 1 << 24;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    tick_nanos: u64,
    /// 2⁶⁴ - 1 divided by the tick, rounded down: a multiplication is faster than a division.
    reciprocal: u64,
    /// The base-2 logarithm of the number of slots of the first level.
    bits: u32,
    /// The tick of the latest possible time, `u64::MAX`.
    last: u64,
}

impl Geometry {
    pub(super) fn new(tick: Duration, slots: usize) -> Result<Self, WheelError> {
        if tick.is_zero() {
            return Err(WheelError::ZeroTick);
        }
        if slots == 0 {
            return Err(WheelError::ZeroSlots);
        }
        if slots > MAX_SLOTS {
            return Err(WheelError::TooManySlots { slots });
        }
        let rounded = slots.next_power_of_two();
        let tick_nanos = as_nanos(tick);
        if tick_nanos >= u64::MAX / rounded as u64 {
            return Err(WheelError::TurnTooLong { tick, slots });
        }
        Ok(Self {
            tick_nanos,
            reciprocal: u64::MAX / tick_nanos,
            bits: rounded.trailing_zeros(),
            last: u64::MAX.div_ceil(tick_nanos),
        })
    }

    pub(super) fn tick(self) -> Duration {
        Duration::from_nanos(self.tick_nanos)
    }

    pub(super) fn slots(self) -> usize {
        1 << self.bits
    }

    /// Returns the number of lists of all levels.
    pub(super) fn lists(self) -> usize {
        let above = (u64::BITS - self.last.leading_zeros()).saturating_sub(self.bits);
        self.slots() + (above.div_ceil(UPPER_BITS) << UPPER_BITS) as usize
    }

    pub(super) fn last(self) -> u64 {
        self.last
    }

    /// Returns the first tick at whose end the deadline has passed.
    #[inline]
    pub(super) fn tick_of(self, deadline: u64) -> u64 {
        // Too small by at most one, because the reciprocal is rounded down.
        let product = u128::from(deadline) * u128::from(self.reciprocal);
        let mut tick = (product >> 64) as u64;
        let mut rest = deadline - tick * self.tick_nanos;
        while rest > self.tick_nanos {
            rest -= self.tick_nanos;
            tick += 1;
        }
        tick + u64::from(rest > 0)
    }

    /// Returns the last tick that has ended at `now`.
    #[inline]
    pub(super) fn tick_at(self, now: u64) -> u64 {
        if now == u64::MAX {
            return self.last;
        }
        now / self.tick_nanos
    }

    /// Returns the time at which a tick ends.
    pub(super) fn end_of(self, tick: u64) -> u64 {
        tick.saturating_mul(self.tick_nanos)
    }

    /// Returns the time at which an entry of this deadline is due: the end of its tick.
    #[cfg(feature = "timer")]
    pub(crate) fn due_at(self, deadline: u64) -> u64 {
        self.end_of(self.tick_of(deadline))
    }

    /// Returns the list for a tick that is later than `current`.
    #[inline]
    pub(super) fn list_of(self, tick: u64, current: u64) -> usize {
        debug_assert!(tick > current);
        let differing = tick ^ current;
        if differing >> self.bits == 0 {
            return (tick & ((1 << self.bits) - 1)) as usize;
        }
        let (mut first, mut tick) = (self.slots(), tick >> self.bits);
        let mut above = differing >> self.bits >> UPPER_BITS;
        while above != 0 {
            (first, tick) = (first + (1 << UPPER_BITS), tick >> UPPER_BITS);
            above >>= UPPER_BITS;
        }
        first + (tick & ((1 << UPPER_BITS) - 1)) as usize
    }

    /// Returns `true` if all entries of a list have the same tick: the list is on the first level.
    #[inline]
    pub(super) fn is_near(self, list: usize) -> bool {
        list < self.slots()
    }

    /// Returns the number of groups of lists.
    pub(super) fn groups(self) -> usize {
        self.group_of(self.lists()) + 1
    }

    /// Returns the group of a list. The lists of a group are due at about the same time: each far
    /// list is a group of its own, and the near lists form at most 64 groups of adjacent lists.
    #[inline]
    pub(super) fn group_of(self, list: usize) -> usize {
        match list.checked_sub(self.slots()) {
            Some(upper) => (1 << UPPER_BITS) + upper,
            None => list >> self.bits.saturating_sub(UPPER_BITS),
        }
    }

    /// Returns the first tick of the slot that a list stands for, relative to the current tick. The
    /// result is valid only if the list is not empty.
    #[inline]
    pub(super) fn start_of(self, list: usize, current: u64) -> u64 {
        let Some(upper) = list.checked_sub(self.slots()) else {
            return current & !low_bits(self.bits) | list as u64;
        };
        let (level, slot) = (upper >> UPPER_BITS, upper as u64 & low_bits(UPPER_BITS));
        let shift = self.bits + level as u32 * UPPER_BITS;
        current & !low_bits(shift + UPPER_BITS) | slot << shift
    }
}

fn low_bits(count: u32) -> u64 {
    1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1)
}

/// The reason why a wheel cannot be created.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::wheel::{Wheel, WheelError};
///
/// let refused = Wheel::<()>::new(Duration::ZERO, 512).unwrap_err();
/// assert_eq!(refused, WheelError::ZeroTick);
/// assert_eq!(refused.to_string(), "the tick of the wheel is zero; set a longer one");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WheelError {
    /// The tick is zero.
    ZeroTick,
    /// The number of slots is zero.
    ZeroSlots,
    /// More slots than a wheel can index.
    TooManySlots {
        /// The requested number of slots.
        slots: usize,
    },
    /// One turn of the wheel overflows a `u64` of nanoseconds.
    TurnTooLong {
        /// The requested tick.
        tick: Duration,
        /// The requested number of slots.
        slots: usize,
    },
}

impl fmt::Display for WheelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroTick => f.write_str("the tick of the wheel is zero; set a longer one"),
            Self::ZeroSlots => f.write_str("the wheel has no slot; set at least one"),
            Self::TooManySlots { slots } => write!(
                f,
                "{slots} slots are more than a wheel can index; set {MAX_SLOTS} or fewer"
            ),
            Self::TurnTooLong { tick, slots } => write!(
                f,
                "a turn of {slots} ticks of {tick:?} overflows the clock; set a shorter tick \
                 or fewer slots"
            ),
        }
    }
}

impl Error for WheelError {}

tidegate_core::debug_as_display!(WheelError);

#[cfg(test)]
mod tests {
    //! Ticks equal the result of a division.

    use super::*;

    #[test]
    fn a_deadline_falls_into_the_tick_that_a_division_gives() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..100_000 {
            let tick = (random() >> (random() % 64)).clamp(1, u64::MAX / 16);
            let geometry = Geometry::new(Duration::from_nanos(tick), 8).expect("it fits");
            let near = tick.wrapping_mul(random() >> (random() % 64));
            let some = [0, 1, random(), random() >> (random() % 64), u64::MAX];
            for deadline in some
                .into_iter()
                .chain([near.wrapping_sub(1), near, near | 1])
            {
                let expected = deadline.div_ceil(tick);
                assert_eq!(geometry.tick_of(deadline), expected, "{deadline} / {tick}");
            }
        }
    }
}
