//! How a wheel divides time: ticks, slots, and the levels above them.
//!
//! An entry is due at the end of a tick, a number that only grows. The first level has one slot
//! per tick, as many as were asked for. Above it lie levels of 64 slots, each slot as wide as the
//! whole level below. An entry hangs in the level of the highest bit in which its tick differs
//! from the present one: near ones by exact tick, far ones roughly, and those move down when
//! time reaches their slot. So the lowest list with anything in it is always the next.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::as_nanos;

/// Slots of a level above the first, as a power of two.
const UPPER_BITS: u32 = 6;

/// The most slots that the first level can have.
const MAX_SLOTS: usize = 1 << 24;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    tick_nanos: u64,
    /// How often a tick goes into 2⁶⁴, rounded down: to multiply by it is faster than to divide.
    reciprocal: u64,
    /// Slots of the first level, as a power of two.
    bits: u32,
    /// The tick of the last moment there is.
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

    /// All lists of all levels.
    pub(super) fn lists(self) -> usize {
        let above = (u64::BITS - self.last.leading_zeros()).saturating_sub(self.bits);
        self.slots() + (above.div_ceil(UPPER_BITS) << UPPER_BITS) as usize
    }

    pub(super) fn last(self) -> u64 {
        self.last
    }

    /// The first tick at whose end a deadline has passed.
    #[inline]
    pub(super) fn tick_of(self, deadline: u64) -> u64 {
        // At most one too small, since the reciprocal is.
        let product = u128::from(deadline) * u128::from(self.reciprocal);
        let mut tick = (product >> 64) as u64;
        let mut rest = deadline - tick * self.tick_nanos;
        while rest > self.tick_nanos {
            rest -= self.tick_nanos;
            tick += 1;
        }
        tick + u64::from(rest > 0)
    }

    /// The last tick that has ended.
    #[inline]
    pub(super) fn tick_at(self, now: u64) -> u64 {
        if now == u64::MAX {
            return self.last;
        }
        now / self.tick_nanos
    }

    /// When a tick ends.
    pub(super) fn end_of(self, tick: u64) -> u64 {
        tick.saturating_mul(self.tick_nanos)
    }

    /// The moment at which an entry of this deadline is due: the end of its tick.
    pub(crate) fn due_at(self, deadline: u64) -> u64 {
        self.end_of(self.tick_of(deadline))
    }

    /// The list for a tick that is later than `current`.
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

    /// Whether a list has one tick only.
    #[inline]
    pub(super) fn is_near(self, list: usize) -> bool {
        list < self.slots()
    }

    /// How many groups of lists there are.
    pub(super) fn groups(self) -> usize {
        self.group_of(self.lists()) + 1
    }

    /// Lists whose entries come up together: each far one for itself, the near ones in bunches.
    #[inline]
    pub(super) fn group_of(self, list: usize) -> usize {
        match list.checked_sub(self.slots()) {
            Some(upper) => (1 << UPPER_BITS) + upper,
            None => list >> self.bits.saturating_sub(UPPER_BITS),
        }
    }

    /// The first tick of a list that is not empty.
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

/// Why a wheel cannot be made.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::{Wheel, WheelError};
///
/// let refused = Wheel::<()>::new(Duration::ZERO, 512).unwrap_err();
/// assert_eq!(refused, WheelError::ZeroTick);
/// assert_eq!(refused.to_string(), "a wheel needs a tick longer than zero");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WheelError {
    /// The tick has no length.
    ZeroTick,
    /// There is no slot to put anything in.
    ZeroSlots,
    /// More slots than a wheel can index.
    TooManySlots {
        /// What was asked for.
        slots: usize,
    },
    /// One turn of the wheel is longer than time can be counted.
    TurnTooLong {
        /// The tick that was asked for.
        tick: Duration,
        /// The slots that were asked for.
        slots: usize,
    },
}

impl fmt::Display for WheelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroTick => f.write_str("a wheel needs a tick longer than zero"),
            Self::ZeroSlots => f.write_str("a wheel needs at least one slot"),
            Self::TooManySlots { slots } => write!(
                f,
                "{slots} slots are more than a wheel can index; ask for {MAX_SLOTS} or less"
            ),
            Self::TurnTooLong { tick, slots } => write!(
                f,
                "a turn of {slots} ticks of {tick:?} overflows; make the tick shorter or the \
                 slots fewer"
            ),
        }
    }
}

tidegate_core::debug_as_display!(WheelError);

impl Error for WheelError {}

#[cfg(test)]
mod tests {
    //! Ticks are those that a division gives.

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
