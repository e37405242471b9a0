//! A timing wheel: deadlines go in, due entries come out, at a cost that does not depend on their
//! number.
//!
//! Pure data: no thread, no lock, no clock. One thread owns the wheel and passes the current time.
//! The section "Four engines" of the crate documentation explains why it exists beside the heap.
//!
//! A wheel has three parts: the wheel levels (`levels`) map a tick to a list, the lists hold entry
//! numbers, and the pages hold the entries. An addition stores into the newest chunk of its list
//! and into a page that is being filled. A cancellation touches only its entry; its other updates
//! are batched (`cancelled_entries`). Due entries pass through a short queue, so that their memory
//! is prefetched some time before they fire.
//!
//! # Invariants
//!
//! * `current <= seen`, and neither decreases.
//! * A live entry has exactly one place, in a list or in a chunk that was picked from a list, and
//!   stores it. Every other occurrence of its number, in chunks and in the queue, is stale.
//! * A cancelled entry is in no list. Its cell and its place are not reused until `settle` has
//!   released them.
//! * An entry is in the list of its tick relative to `current`. If its tick is not after `current`,
//!   the entry is in the ready queue, or still in the list from which the queue is refilled.
//!
//! After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987).

use std::fmt;
use std::time::Duration;
use std::vec;

use super::cancelled_entries::{self, CancelledEntries};
use super::entry::{CELLS, Entry, Live};
use super::expired::{Expired, sort_by_deadline};
use super::geometry::{Geometry, WheelError};
use super::levels::WheelLevels;
use super::lists::{MAX_CHUNKS, Place};
use super::pages::Pages;
use super::queue::{Item, Queue};
use crate::key::TimerKey;

#[cfg(test)]
mod tests;

/// When fewer than the first number of items are ready, more due entries are queued until the
/// second number is reached: enough to hide the memory latency behind the entries that fire
/// meanwhile.
const READY: (usize, usize) = (48, 96);

/// When fewer than the first number of the next items were prefetched, the memory behind the next
/// items, up to the second number, is prefetched. This is done for many items at a time: finding
/// the address of the memory is itself a cache miss, and misses that start together overlap.
const WARM: (usize, usize) = (12, 36);

/// From this many entries on, entries that are due at about the same time share pages. With fewer
/// entries all memory is near, and a page for each group would be a waste.
const GROUPED: usize = 32 * 1024;

/// The maximum number of pages that are returned to the allocator at a time.
const TRIM: usize = 16;

/// The maximum number of entries per wheel: each entry may need a chunk of its own, and so may each
/// cancelled entry that is not released yet.
const MAX_ENTRIES: usize = MAX_CHUNKS - cancelled_entries::ROOM;

/// How many slots ahead the first chunk of a list is prefetched.
const LOOKAHEAD: usize = 8;

/// A timer structure that holds entries by the tick at which they are due: O(1) to add, to cancel
/// and to reset.
///
/// Intended for many timeouts that almost never fire. A deadline is a number of nanoseconds on the
/// caller's clock, as in [`Heap`](crate::heap::Heap). An entry is due at the first end of a tick
/// that is not before its deadline: never early, and less than one tick late. An entry whose
/// deadline has already passed when it is added is due at the next tick.
///
/// # Order
///
/// Entries fire by tick, and within one tick in the order of addition. An entry that was
/// [reset](Self::reset) may keep an earlier position.
///
/// # Memory
///
/// An entry with a value of 16 bytes costs 32 bytes and its share of a list: 5 to 8 bytes when the
/// wheel is full, and never more than 141. Entries lie in pages of 512, which are never moved. From
/// the 65th page on, pages lie in blocks of 2 MiB, for which the wheel requests huge pages from the
/// operating system ([`HugePageArena`](crate::raw::HugePageArena)).
///
/// In a wheel of more than 32,768 entries, entries that are due at about the same time share pages,
/// so there may be one partly filled page per far slot in use. A page with at least an eighth of
/// its cells free is filled again. While more pages are empty than in use,
/// [`pop_due`](Self::pop_due) returns some of the last pages to the allocator each time it finds
/// nothing due. A remaining entry keeps the pages below its own allocated.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::wheel::Wheel;
///
/// let ms = 1_000_000;
/// let mut idle = Wheel::new(Duration::from_millis(10), 512)?;
/// let first = idle.insert(60_000 * ms, "connection 1");
/// idle.insert(60_000 * ms + 1, "connection 2");
///
/// // Something arrived on connection 1.
/// assert!(idle.reset(first, 75_000 * ms));
///
/// assert!(idle.pop_due(60_000 * ms).is_none());
/// let expired = idle.pop_due(60_010 * ms).expect("its tick has ended");
/// assert_eq!((expired.deadline, expired.value), (60_000 * ms + 1, "connection 2"));
/// # Ok::<(), tidegate_timer::wheel::WheelError>(())
/// ```
pub struct Wheel<T> {
    levels: WheelLevels,
    entries: Pages<Entry<T>, CELLS>,
    /// The latest time that the owner passed, and its tick.
    now: u64,
    seen: u64,
    len: usize,
    cancelled_entries: CancelledEntries,
    /// The latest tick at which an entry was due.
    busy: u64,
    /// Entries that are due at `current` or before and were picked from the lists.
    ready: Queue,
    /// `true` if due entries may be left in the lists.
    more: bool,
    warm: Option<fn(&T)>,
}

impl<T> Wheel<T> {
    /// Creates an empty wheel at time 0.
    ///
    /// `slots` is rounded up to a power of two. One turn, `tick` times `slots`, should be as long
    /// as most timeouts; longer timeouts are moved once or twice before they fire.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let wheel = tidegate_timer::wheel::Wheel::<u32>::new(Duration::from_millis(1), 1_000)?;
    /// assert_eq!(wheel.slots(), 1_024);
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the tick or the number of slots is zero or too large; see
    /// [`WheelError`].
    pub fn new(tick: Duration, slots: usize) -> Result<Self, WheelError> {
        let geometry = Geometry::new(tick, slots)?;
        Ok(Self {
            levels: WheelLevels::new(geometry),
            entries: Pages::new(geometry.groups()),
            now: 0,
            seen: 0,
            len: 0,
            cancelled_entries: CancelledEntries::new(),
            busy: 0,
            ready: Queue::new(),
            more: false,
            warm: None,
        })
    }

    /// Calls `warm` with each value shortly before it is due, to prefetch the memory behind it.
    ///
    /// This is a hint for values that point to other memory, such as boxed closures; see
    /// [`prefetch`](tidegate_core::internal::prefetch). `warm` may be called for a value that is
    /// cancelled afterwards, and may not be called for some values.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::internal::prefetch;
    /// use tidegate_timer::wheel::Wheel;
    ///
    /// type Callback = Box<dyn FnOnce()>;
    /// let mut wheel = Wheel::<Callback>::new(Duration::from_millis(1), 512)?
    ///     .prefetch_with(|callback| prefetch(&**callback));
    /// wheel.insert(5, Box::new(|| ()));
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    #[doc(hidden)]
    #[must_use]
    pub fn prefetch_with(mut self, warm: fn(&T)) -> Self {
        self.warm = Some(warm);
        self
    }

    /// Adds an entry, in O(1).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::wheel::Wheel::new(Duration::from_nanos(10), 8)?;
    /// wheel.insert(u64::MAX, "never");
    /// wheel.insert(0, "at the next tick");
    /// assert_eq!(wheel.next_deadline(), Some(10));
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the wheel already holds 2²⁷ - 64 entries.
    #[inline]
    pub fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        assert!(
            self.len < MAX_ENTRIES,
            "a wheel holds just under 2^27 entries"
        );
        let (list, deadline) = self.levels.list_for(deadline, self.seen);
        self.more |= list == self.levels.lists.due_list();
        let group = if self.len < GROUPED {
            0
        } else {
            self.levels.geometry.group_of(list)
        };
        let (slot, cell) = self.entries.claim(group);
        let generation = cell.next_generation();
        let place = self.levels.lists.append(list, slot);
        cell.fill(Live {
            value,
            deadline,
            place,
            generation,
        });
        self.len += 1;
        TimerKey { slot, generation }
    }

    /// Removes an entry, in O(1). A cancellation uses this. The memory of the entry can be reused
    /// after 64 removals, or after the next call of [`pop_due`](Self::pop_due) that turns the wheel
    /// or of [`next_deadline`](Self::next_deadline).
    ///
    /// Returns `None` if the key is stale: the entry already fired or was removed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::wheel::Wheel::new(Duration::from_millis(1), 512)?;
    /// let key = wheel.insert(5_000_000, "request timeout");
    /// assert_eq!(wheel.remove(key), Some("request timeout"));
    /// assert_eq!(wheel.remove(key), None);
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    #[inline]
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        let is_it = |live: &Live<T>| live.generation == key.generation;
        let live = self.entries.get_mut(key.slot)?.vacate_if(is_it)?;
        self.len -= 1;
        if self.cancelled_entries.push(key.slot, live.place) {
            self.release_cancelled();
        }
        Some(live.value)
    }

    /// Sets another deadline for an entry, in O(1). The entry keeps its key, its value and its
    /// memory.
    ///
    /// Returns `false` if the key is stale: an entry that has fired cannot be reset.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::wheel::Wheel::new(Duration::from_nanos(10), 8)?;
    /// let key = wheel.insert(10, "idle");
    /// assert!(wheel.reset(key, 500));
    /// assert!(wheel.pop_due(499).is_none());
    /// assert!(wheel.pop_due(500).is_some());
    /// assert!(!wheel.reset(key, 1_000));
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    pub fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        let Some(&Live {
            deadline: before,
            place,
            ..
        }) = self.live(key)
        else {
            return false;
        };
        let old = self.levels.list_at(before);
        let (list, deadline) = self.levels.list_for(deadline, self.seen);
        self.more |= list == self.levels.lists.due_list();
        let place = if list == old {
            place
        } else {
            self.levels.lists.remove(place);
            self.levels.lists.append(list, key.slot)
        };
        let live = self.live_mut(key).expect("it was live above");
        (live.deadline, live.place) = (deadline, place);
        true
    }

    /// Removes and returns one entry that is due at `now`: its tick has ended.
    ///
    /// Returns one entry per call, so that the owner can run it, stop when its budget is spent, and
    /// add, reset or cancel other entries in between. Repeated calls with the same `now` end even
    /// if each fired entry adds another: a new entry is due at a later tick. A `now` before that of
    /// an earlier call has no effect: the latest time counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::wheel::Wheel::new(Duration::from_nanos(10), 8)?;
    /// wheel.insert(12, "a");
    /// assert!(wheel.pop_due(19).is_none());
    /// while let Some(expired) = wheel.pop_due(20) {
    ///     wheel.insert(0, expired.value);
    /// }
    /// assert_eq!(wheel.next_deadline(), Some(30));
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    #[inline]
    pub fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        if now > self.now {
            self.now = now;
            self.seen = self.levels.geometry.tick_at(now);
            self.more = true;
        }
        if self.more && self.ready.len() < READY.0 {
            self.make_ready();
        }
        self.pop_ready().map(Expired::from)
    }

    /// Removes all entries at once and returns them by deadline. A shutdown uses this.
    ///
    /// The wheel is empty when this returns, whether or not the iterator is consumed, and every key
    /// is stale. The iterator borrows nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::wheel::Wheel::new(Duration::from_millis(1), 512)?;
    /// wheel.insert(u64::MAX, "never");
    /// wheel.insert(10, "soon");
    /// let left: Vec<_> = wheel.drain().map(|entry| entry.value).collect();
    /// assert_eq!(left, ["soon", "never"]);
    /// assert!(wheel.is_empty());
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    #[must_use = "dropping it drops what was in the wheel"]
    pub fn drain(&mut self) -> vec::IntoIter<Expired<T>> {
        let mut left = Vec::with_capacity(self.len);
        while let Some(live) = self.pop_ready() {
            left.push(Expired::from(live));
        }
        self.release_cancelled();
        while let Some(list) = self.levels.lists.first() {
            let mut ring = self.levels.lists.detach(list);
            while let Some((number, chunk)) = self.levels.lists.take_chunk(&mut ring) {
                for (place, slot) in chunk.places(number) {
                    left.extend(self.take_at(slot, place).map(Expired::from));
                }
            }
        }
        sort_by_deadline(&mut left);
        left.into_iter()
    }

    /// Returns the time at which the owner has to check again: the end of the earliest tick in
    /// which an entry is due.
    ///
    /// `None` means that the wheel has no entries. If an entry is already due, the result is a time
    /// that has passed. The result may be too early, never too late, if the earliest of a group of
    /// far entries was cancelled; the check at that time finds the true deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::wheel::Wheel::new(Duration::from_millis(100), 512)?;
    /// assert_eq!(wheel.next_deadline(), None);
    /// wheel.insert(3_600_000_000_001, "in an hour");
    /// assert_eq!(wheel.next_deadline(), Some(3_600_100_000_000));
    /// # Ok::<(), tidegate_timer::wheel::WheelError>(())
    /// ```
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<u64> {
        if !self.cancelled_entries.is_empty() {
            self.release_cancelled();
        }
        self.first_end()
    }

    /// Returns the end of the earliest tick in which an entry may be due.
    fn first_end(&self) -> Option<u64> {
        let tick = if self.any_ready() {
            self.levels.current
        } else {
            self.levels.first_tick()?
        };
        Some(self.levels.geometry.end_of(tick))
    }

    /// Returns the value of a key, or `None` if the key is stale.
    #[must_use]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        Some(&self.live(key)?.value)
    }

    /// Returns a mutable reference to the value of a key, or `None` if the key is stale.
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        Some(&mut self.live_mut(key)?.value)
    }

    /// Returns the last deadline of the entry with this key, or `None` if the key is stale.
    #[must_use]
    pub fn deadline(&self, key: TimerKey) -> Option<u64> {
        Some(self.live(key)?.deadline)
    }

    /// Returns the number of entries in the wheel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the wheel has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the length of a tick, which is the maximum lateness of an entry.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.levels.geometry.tick()
    }

    /// Returns the number of slots of one turn, a power of two.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.levels.geometry.slots()
    }

    /// Returns how the wheel divides time.
    #[cfg(feature = "timer")]
    pub(crate) fn geometry(&self) -> Geometry {
        self.levels.geometry
    }

    #[inline]
    fn live(&self, key: TimerKey) -> Option<&Live<T>> {
        let live = self.entries.get(key.slot)?.live()?;
        (live.generation == key.generation).then_some(live)
    }

    #[inline]
    fn live_mut(&mut self, key: TimerKey) -> Option<&mut Live<T>> {
        let live = self.entries.get_mut(key.slot)?.live_mut()?;
        (live.generation == key.generation).then_some(live)
    }

    /// Frees the cell of an entry if the entry still has this place. The place must not be in a
    /// list any more.
    #[inline]
    fn take_at(&mut self, slot: u32, place: Place) -> Option<Live<T>> {
        let is_it = |live: &Live<T>| live.place == place;
        let live = self.entries.get_mut(slot)?.vacate_if(is_it)?;
        self.entries.release(slot);
        self.len -= 1;
        Some(live)
    }

    /// Releases the cells and the places of cancelled entries.
    #[cold]
    fn release_cancelled(&mut self) {
        for (slot, place) in self.cancelled_entries.take() {
            self.entries.release(slot);
            self.levels.lists.remove(place);
        }
    }

    /// Turns the wheel up to tick `seen`, or until enough entries are ready.
    fn make_ready(&mut self) {
        self.release_cancelled();
        let before = self.ready.len();
        while self.ready.len() < READY.1 {
            let Some((list, start)) = self.levels.first().filter(|&(_, start)| start <= self.seen)
            else {
                self.levels.current = self.seen;
                self.more = false;
                break;
            };
            self.levels.current = start;
            if self.levels.geometry.is_near(list) || list == self.levels.lists.due_list() {
                self.pick(list);
            } else {
                self.cascade(list);
            }
        }
        if self.ready.len() > before {
            self.busy = self.seen;
        } else if self.seen > self.busy {
            // A few pages at a time, and only after a whole tick in which nothing was due: never in
            // the middle of a burst.
            self.entries.trim(TRIM);
            self.levels.lists.trim(TRIM);
        }
    }

    /// Moves the oldest entries of a list into the ready queue, and prefetches their memory.
    fn pick(&mut self, list: usize) {
        self.levels.lists.prefetch(list + LOOKAHEAD);
        let (number, chunk) = self.levels.lists.pick(list);
        for (place, slot) in chunk.places(number) {
            self.entries.prefetch(slot);
            self.ready.push(Item::Entry { slot, place });
        }
        self.ready.push(Item::End { chunk: number });
    }

    /// Returns `true` if the ready queue has an entry that was not cancelled since.
    fn any_ready(&self) -> bool {
        self.ready.iter().any(|item| match item {
            Item::Entry { slot, place } => self.entries.is_there(slot, place),
            Item::End { .. } => false,
        })
    }

    /// Moves the entries of a far list to the lists where they belong relative to `current`.
    fn cascade(&mut self, list: usize) {
        let Self {
            levels, entries, ..
        } = self;
        let mut ring = levels.lists.detach(list);
        while let Some((number, chunk)) = levels.lists.take_chunk(&mut ring) {
            if let Some(ahead) = levels.lists.peek_chunk(&ring) {
                ahead.entries().for_each(|slot| entries.prefetch(slot));
            }
            for (place, slot) in chunk.places(number) {
                if let Some(live) = entries.get_mut(slot).and_then(Entry::live_mut)
                    && live.place == place
                {
                    let list = levels.list_for_insert(levels.geometry.tick_of(live.deadline));
                    live.place = levels.lists.append(list, slot);
                }
            }
        }
    }

    /// Prefetches the memory behind the values of the next entries.
    fn prefetch_values(&mut self, warm: fn(&T)) {
        while let Some(slot) = self.ready.next_to_prefetch(WARM.1) {
            if let Some(live) = self.entries.get(slot).and_then(Entry::live) {
                warm(&live.value);
            }
        }
    }

    /// Removes and returns the first ready entry.
    #[inline]
    fn pop_ready(&mut self) -> Option<Live<T>> {
        loop {
            if let Some(warm) = self.warm
                && self.ready.needs_prefetch(WARM.0)
            {
                self.prefetch_values(warm);
            }
            match self.ready.pop()? {
                Item::Entry { slot, place } => {
                    if let Some(live) = self.take_at(slot, place) {
                        self.levels.lists.remove(place);
                        return Some(live);
                    }
                }
                Item::End { chunk } => self.levels.lists.release_picked(chunk),
            }
        }
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("tick", &self.tick())
            .field("slots", &self.slots())
            .field("len", &self.len)
            .field("next_deadline", &self.first_end())
            .finish_non_exhaustive()
    }
}
