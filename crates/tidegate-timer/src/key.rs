//! Keys of entries, and the generations that tell a stale key from a valid one.
//!
//! [`Heap`](crate::heap::Heap) and [`Wheel`](crate::wheel::Wheel) keep their entries in numbered
//! slots and reuse the slots. Both follow the same rules:
//!
//! * The generation of a slot is incremented each time an entry leaves the slot. A slot whose
//!   generation reaches [`RETIRED_GENERATION`] is never reused.
//! * A slot whose generation is above [`MAX_RETURNED_GENERATION`] is not returned to the allocator.
//!   Slots that are created after others were returned start at or above the generations of the
//!   returned slots, and so have at least half of the range left.

use std::fmt;
use std::num::NonZeroU32;

use tidegate_core::internal::prim::{AtomicU64, Ordering};

/// Distinguishes the entries that used one slot, one after the other. Never zero, so
/// `Option<TimerKey>` is as small as `TimerKey`.
pub(crate) type Generation = NonZeroU32;

/// The highest generation at which a slot may be returned to the allocator.
pub(crate) const MAX_RETURNED_GENERATION: Generation =
    Generation::new(1 << 31).expect("it is not zero");

/// The generation of a retired slot: no entry gets it, because the slot has used up its
/// generations.
pub(crate) const RETIRED_GENERATION: Generation = Generation::MAX;

/// Identifies one entry of one [`Heap`](crate::heap::Heap) or [`Wheel`](crate::wheel::Wheel) while
/// the entry is in it.
///
/// A key takes 8 bytes, and so does an `Option<TimerKey>`. Once its entry has left, the key is
/// stale forever: the slot is reused, but under another generation, and a slot that has used up its
/// generations is retired. A key is meaningless to any heap or wheel other than the one that
/// created it.
///
/// # Examples
///
/// ```
/// use tidegate_timer::TimerKey;
/// use tidegate_timer::heap::Heap;
///
/// assert_eq!(size_of::<Option<TimerKey>>(), 8);
///
/// let mut timers = Heap::new();
/// let key = timers.insert(10, 'a');
/// assert_eq!(timers.remove(key), Some('a'));
/// timers.insert(10, 'b');
/// assert_eq!(timers.remove(key), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    pub(crate) slot: u32,
    pub(crate) generation: Generation,
}

impl TimerKey {
    /// Returns the key as a number that is never zero, for storage in an atomic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_timer::TimerKey;
    /// use tidegate_timer::heap::Heap;
    ///
    /// let mut heap = Heap::new();
    /// let key = heap.insert(1, "tea");
    /// assert_eq!(TimerKey::from_bits(key.to_bits()), Some(key));
    /// assert_eq!(TimerKey::from_bits(0), None);
    /// ```
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.slot)
    }

    /// Returns the key for a number that [`TimerKey::to_bits`] returned. For any other number it
    /// returns `None` or a key that probably refers to no entry.
    pub fn from_bits(bits: u64) -> Option<Self> {
        Some(Self {
            slot: bits as u32,
            generation: Generation::new((bits >> 32) as u32)?,
        })
    }
}

/// The key of a timeout in its wheel, stored with the timeout itself.
///
/// Any thread may hold the timeout. Only the thread that owns the wheel, or holds its lock,
/// accesses the key slot. So relaxed operations suffice; the atomic only makes the slot `Sync`.
#[derive(Default)]
pub struct KeySlot(AtomicU64);

impl KeySlot {
    /// Creates an empty slot: the timeout is in no wheel.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the key, or `None` if the timeout is in no wheel.
    #[inline]
    pub fn get(&self) -> Option<TimerKey> {
        TimerKey::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Stores the key of an entry that was added to the wheel.
    #[inline]
    pub fn set(&self, key: TimerKey) {
        self.0.store(key.to_bits(), Ordering::Relaxed);
    }

    /// Clears the key: the entry has left the wheel.
    #[inline]
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Clears the key and returns it. These are two operations: the caller must own the wheel.
    #[inline]
    pub fn take(&self) -> Option<TimerKey> {
        let key = self.get();
        self.clear();
        key
    }
}

impl fmt::Debug for KeySlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySlot").field(&self.get()).finish()
    }
}
