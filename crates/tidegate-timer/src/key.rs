//! Keys of entries, and the generations by which an old key is told from a new one.
//!
//! [`Heap`](crate::Heap) and [`Wheel`](crate::Wheel) keep their entries in numbered slots that are
//! used again. The rule is the same in both:
//!
//! * A slot's generation goes up each time its entry leaves. A slot that reaches [`RETIRED`] is
//!   not used again.
//! * Slots whose generation is above [`OLD`] are not given back to the allocator. Slots made after
//!   others were given back start above the generations of those, and so have at least half of
//!   the range left.

use std::fmt;
use std::num::NonZeroU32;

use tidegate_core::prim::{AtomicU64, Ordering};

/// Tells the entries apart that were in one slot. Never zero, which keeps `Option<Key>` small.
pub(crate) type Generation = NonZeroU32;

/// The last generation with which a slot is given back.
pub(crate) const OLD: Generation = Generation::new(1 << 31).expect("it is not zero");

/// Given to no entry: a slot that reaches it has used up its generations.
pub(crate) const RETIRED: Generation = Generation::MAX;

/// Names one entry of one [`Heap`](crate::Heap) or [`Wheel`](crate::Wheel), for as long as the entry is in it.
///
/// Small, and an `Option<Key>` is no larger. Once its entry has left, a key is stale for
/// ever: slots are used again, but under another generation, and a slot that has used up its
/// generations is retired. A key means nothing to a heap or wheel other than the one that made it.
///
/// # Examples
///
/// ```
/// use tidegate_timer::{Heap, Key};
///
/// assert_eq!(size_of::<Option<Key>>(), 8);
///
/// let mut timers = Heap::new();
/// let key = timers.insert(10, 'a');
/// assert_eq!(timers.remove(key), Some('a'));
/// timers.insert(10, 'b');
/// assert_eq!(timers.remove(key), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: Generation,
}

impl Key {
    /// The key as a number, never zero, to be kept in an atomic.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_timer::{Heap, Key};
    ///
    /// let mut heap = Heap::new();
    /// let key = heap.insert(1, "tea");
    /// assert_eq!(Key::from_bits(key.to_bits()), Some(key));
    /// assert_eq!(Key::from_bits(0), None);
    /// ```
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.slot)
    }

    /// The key of a number that [`Key::to_bits`] gave. Of another number it is a key that
    /// probably names nothing, or none at all.
    pub fn from_bits(bits: u64) -> Option<Self> {
        Some(Self {
            slot: bits as u32,
            generation: Generation::new((bits >> 32) as u32)?,
        })
    }
}

/// The key under which a wheel has a timeout, kept with the timeout itself.
///
/// Any thread may hold the timeout. Only the owner of the wheel uses the slot.
#[derive(Default)]
pub struct KeySlot(AtomicU64);

impl KeySlot {
    /// Creates a slot without a key: the timeout is in no wheel.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the key; `None` if the timeout is in no wheel.
    #[inline]
    pub fn get(&self) -> Option<Key> {
        Key::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Notes the key of an entry that was added.
    #[inline]
    pub fn set(&self, key: Key) {
        self.0.store(key.to_bits(), Ordering::Relaxed);
    }

    /// Forgets the key: the entry has left the wheel.
    #[inline]
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Forgets the key and returns it.
    #[inline]
    pub fn take(&self) -> Option<Key> {
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
