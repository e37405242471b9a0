//! A timing wheel: deadlines in, due entries out, at a cost that does not grow with their number.
//!
//! Pure data: no thread, no lock, no clock. One thread owns it and says what time it is. Why it
//! exists beside the heap: "Four engines" in the crate's header.
//!
//! Three parts: the dial says in which list a tick belongs, the lists hold numbers of entries, the
//! entries lie in pages. An addition stores into the newest chunk of its list and into a page that
//! is being filled anyway; a cancellation touches its entry alone, and what else it has to note is settled for
//! many at a time. What is due goes through a short
//! queue, so that its memory is asked for some time before it fires.
//!
//! # Invariants
//!
//! * `current <= seen`, and neither goes back.
//! * A live entry has exactly one place, in a list or in a chunk that was picked from one, and
//!   knows it. Every other number of it, in chunks and in the queue, is stale.
//! * What is gone is in no list, and its cell and place are nobody else's until that is settled.
//! * An entry hangs in the list of its tick as seen from `current`; when that tick is not after
//!   `current` it is ready, or left in the list that more is made ready of.
//!
//! After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987).

use std::fmt;
use std::time::Duration;

use super::dial::Dial;
use super::entry::{CELLS, Entry, Live};
use super::expired::{Expired, WheelDrain};
use super::geometry::{Geometry, WheelError};
use super::gone::{self, Gone};
use super::lists::{MAX_CHUNKS, Place};
use super::pages::Pages;
use super::queue::{Item, Queue};
use crate::key::Key;

#[cfg(test)]
mod tests;

/// More of what is due is made ready when less than this is ready, and until this is: enough to
/// hide the way to memory behind what fires meanwhile.
const READY: (usize, usize) = (48, 96);

/// When the memory behind less than the first of what comes next was asked for, that of the first
/// so many is. Many at a time: to find out where memory lies is itself a long wait, and waits that
/// begin together go by together.
const WARM: (usize, usize) = (12, 36);

/// From how many entries on those that come up together lie together. Fewer are near anyway, and
/// a page for each group would be a waste.
const GROUPED: usize = 32 * 1024;

/// How many pages are given back at a time.
const TRIM: usize = 16;

/// Entries per wheel: each may have a chunk for itself, and so may those that are gone and not
/// settled.
const MAX_ENTRIES: usize = MAX_CHUNKS - gone::ROOM;

/// How many slots ahead the first line of a list is asked for.
const LOOKAHEAD: usize = 8;

/// Entries by the tick at which they are due: O(1) to add, to cancel and to move.
///
/// For the many timeouts that almost never fire. A deadline is a number of nanoseconds on the
/// caller's clock, as in [`Heap`](crate::Heap). An entry is due at the first end of a tick that
/// is not before its deadline: never early, and less than one tick late. One whose deadline has
/// already passed when it is added is due at the next tick.
///
/// # Order
///
/// By tick. Within one tick in the order of addition; an entry that was
/// [reset](Self::reset) may keep an earlier place.
///
/// # Memory
///
/// An entry with a value of 16 bytes costs 32 bytes and its share of a list, 5 to 8 bytes when the
/// wheel is full and never more than 141. Entries lie in pages of 512, which are never moved; from
/// the 65th on, pages lie in blocks of 2 MiB that the system is asked to back by large pages of its
/// own ([`Yard`](crate::raw::Yard)). In a wheel of more than 32,768 entries those that come up
/// together share pages, so there may be one page with holes per far slot in use; a page with an
/// eighth of its cells free is filled again.
/// While more pages are empty than in use, [`pop_due`](Self::pop_due) gives some of the last ones
/// back each time it finds nothing due; an entry that stays keeps the pages below its own.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::Wheel;
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
/// # Ok::<(), tidegate_timer::WheelError>(())
/// ```
pub struct Wheel<T> {
    dial: Dial,
    entries: Pages<Entry<T>, CELLS>,
    /// The latest moment that the owner told of, and its tick.
    now: u64,
    seen: u64,
    len: usize,
    gone: Gone,
    /// The latest tick at which something was due.
    busy: u64,
    /// What is due at `current` or before, and was taken out of the lists.
    ready: Queue,
    /// Whether something that is due may be left in the lists.
    more: bool,
    warm: Option<fn(&T)>,
}

impl<T> Wheel<T> {
    /// Makes an empty wheel that stands at time 0.
    ///
    /// `slots` is rounded up to a power of two. One turn, `tick` times `slots`, should be as long as
    /// most timeouts are; longer ones are moved once or twice on their way.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let wheel = tidegate_timer::Wheel::<u32>::new(Duration::from_millis(1), 1_000)?;
    /// assert_eq!(wheel.slots(), 1_024);
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A tick or a number of slots that is zero or too large; see [`WheelError`].
    pub fn new(tick: Duration, slots: usize) -> Result<Self, WheelError> {
        let geometry = Geometry::new(tick, slots)?;
        Ok(Self {
            dial: Dial::new(geometry),
            entries: Pages::new(geometry.groups()),
            now: 0,
            seen: 0,
            len: 0,
            gone: Gone::new(),
            busy: 0,
            ready: Queue::new(),
            more: false,
            warm: None,
        })
    }

    /// Calls `warm` with each value shortly before it is due, to ask for the memory behind it.
    ///
    /// A hint for values that point elsewhere, such as boxed closures; see
    /// [`prefetch`](tidegate_core::prefetch). It may be called for a value that is cancelled
    /// in the end, and not at all for some.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::prefetch;
    /// use tidegate_timer::Wheel;
    ///
    /// type Callback = Box<dyn FnOnce()>;
    /// let mut wheel = Wheel::<Callback>::new(Duration::from_millis(1), 512)?
    ///     .warmed_by(|callback| prefetch(&**callback));
    /// wheel.insert(5, Box::new(|| ()));
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    #[must_use]
    pub fn warmed_by(mut self, warm: fn(&T)) -> Self {
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
    /// let mut wheel = tidegate_timer::Wheel::new(Duration::from_nanos(10), 8)?;
    /// wheel.insert(u64::MAX, "never");
    /// wheel.insert(0, "at the next tick");
    /// assert_eq!(wheel.next_deadline(), Some(10));
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// When the wheel already holds 2²⁷ - 64 entries.
    #[inline]
    pub fn insert(&mut self, deadline: u64, value: T) -> Key {
        assert!(
            self.len < MAX_ENTRIES,
            "a wheel holds just under 2^27 entries"
        );
        let (list, deadline) = self.dial.list_for(deadline, self.seen);
        self.more |= list == self.dial.lists.ripe();
        let group = if self.len < GROUPED {
            0
        } else {
            self.dial.geometry.group_of(list)
        };
        let (slot, cell) = self.entries.claim(group);
        let generation = cell.next_generation();
        let place = self.dial.lists.append(list, slot);
        cell.fill(Live {
            value,
            deadline,
            place,
            generation,
        });
        self.len += 1;
        Key { slot, generation }
    }

    /// Takes an entry out, in O(1): what a cancellation does. Its memory can be used again when 64
    /// were taken out, or when [`pop_due`](Self::pop_due) or
    /// [`next_deadline`](Self::next_deadline) was called.
    ///
    /// Answers `None` when the key is stale: the entry fired or was removed before.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::Wheel::new(Duration::from_millis(1), 512)?;
    /// let key = wheel.insert(5_000_000, "request timeout");
    /// assert_eq!(wheel.remove(key), Some("request timeout"));
    /// assert_eq!(wheel.remove(key), None);
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let is_it = |live: &Live<T>| live.generation == key.generation;
        let live = self.entries.get_mut(key.slot)?.vacate_if(is_it)?;
        self.len -= 1;
        if self.gone.note(key.slot, live.place) {
            self.settle();
        }
        Some(live.value)
    }

    /// Gives an entry another deadline, in O(1); it keeps its key, its value and its memory.
    ///
    /// Answers whether there is such an entry: one that has fired cannot be reset.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::Wheel::new(Duration::from_nanos(10), 8)?;
    /// let key = wheel.insert(10, "idle");
    /// assert!(wheel.reset(key, 500));
    /// assert!(wheel.pop_due(499).is_none());
    /// assert!(wheel.pop_due(500).is_some());
    /// assert!(!wheel.reset(key, 1_000));
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    pub fn reset(&mut self, key: Key, deadline: u64) -> bool {
        let Some(&Live {
            deadline: before,
            place,
            ..
        }) = self.live(key)
        else {
            return false;
        };
        let old = self.dial.list_at(before);
        let (list, deadline) = self.dial.list_for(deadline, self.seen);
        self.more |= list == self.dial.lists.ripe();
        let place = if list == old {
            place
        } else {
            self.dial.lists.remove(place);
            self.dial.lists.append(list, key.slot)
        };
        let live = self.live_mut(key).expect("it was live above");
        (live.deadline, live.place) = (deadline, place);
        true
    }

    /// Takes out one entry that is due at `now`: its tick has ended.
    ///
    /// One entry per call, so that its owner can run it, stop when its budget is spent, and add,
    /// reset or cancel others in between. At one `now` this ends even if each entry that fires
    /// adds another: what is added is due at a later tick. A `now` before an earlier one counts
    /// as that earlier one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::Wheel::new(Duration::from_nanos(10), 8)?;
    /// wheel.insert(12, "a");
    /// assert!(wheel.pop_due(19).is_none());
    /// while let Some(expired) = wheel.pop_due(20) {
    ///     wheel.insert(0, expired.value);
    /// }
    /// assert_eq!(wheel.next_deadline(), Some(30));
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    #[inline]
    pub fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        if now > self.now {
            self.now = now;
            self.seen = self.dial.geometry.tick_at(now);
            self.more = true;
        }
        if self.more && self.ready.len() < READY.0 {
            self.make_ready();
        }
        self.pop_ready().map(Expired::from)
    }

    /// Takes out every entry at once and hands them over by deadline: what a shutdown does.
    ///
    /// The wheel is empty when this returns, whether or not the iterator is used up, and every
    /// key is stale. The iterator borrows nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::Wheel::new(Duration::from_millis(1), 512)?;
    /// wheel.insert(u64::MAX, "never");
    /// wheel.insert(10, "soon");
    /// let left: Vec<_> = wheel.drain().map(|entry| entry.value).collect();
    /// assert_eq!(left, ["soon", "never"]);
    /// assert!(wheel.is_empty());
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    pub fn drain(&mut self) -> WheelDrain<T> {
        let mut left = Vec::with_capacity(self.len);
        while let Some(live) = self.pop_ready() {
            left.push(Expired::from(live));
        }
        self.settle();
        while let Some(list) = self.dial.lists.first() {
            let mut ring = self.dial.lists.detach(list);
            while let Some((number, chunk)) = self.dial.lists.take_chunk(&mut ring) {
                for (place, slot) in chunk.places(number) {
                    left.extend(self.take_at(slot, place).map(Expired::from));
                }
            }
        }
        left.sort_by_key(|entry| entry.deadline);
        WheelDrain::new(left)
    }

    /// When the owner has to look again: the end of the earliest tick in which something is due.
    ///
    /// `None` means that there is nothing to wait for. Something that is due already answers a
    /// moment that has passed. The answer may be early, never late, when the earliest of a group
    /// of far entries was cancelled; the look that it causes finds the true one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut wheel = tidegate_timer::Wheel::new(Duration::from_millis(100), 512)?;
    /// assert_eq!(wheel.next_deadline(), None);
    /// wheel.insert(3_600_000_000_001, "in an hour");
    /// assert_eq!(wheel.next_deadline(), Some(3_600_100_000_000));
    /// # Ok::<(), tidegate_timer::WheelError>(())
    /// ```
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<u64> {
        if !self.gone.is_empty() {
            self.settle();
        }
        self.first_end()
    }

    /// The end of the earliest tick in which something may be due.
    fn first_end(&self) -> Option<u64> {
        let tick = if self.any_ready() {
            self.dial.current
        } else {
            self.dial.first_tick()?
        };
        Some(self.dial.geometry.end_of(tick))
    }

    /// The value under a key, or `None` when the key is stale.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        Some(&self.live(key)?.value)
    }

    /// The value under a key, to change it, or `None` when the key is stale.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        Some(&mut self.live_mut(key)?.value)
    }

    /// The deadline that the entry under a key was given last, or `None` when the key is stale.
    #[must_use]
    pub fn deadline(&self, key: Key) -> Option<u64> {
        Some(self.live(key)?.deadline)
    }

    /// How many entries are in the wheel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How long a tick is: the most by which an entry is late.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.dial.geometry.tick()
    }

    /// Slots of one turn, a power of two.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.dial.geometry.slots()
    }

    /// How the wheel divides time.
    pub(crate) fn geometry(&self) -> Geometry {
        self.dial.geometry
    }

    #[inline]
    fn live(&self, key: Key) -> Option<&Live<T>> {
        let live = self.entries.get(key.slot)?.live()?;
        (live.generation == key.generation).then_some(live)
    }

    #[inline]
    fn live_mut(&mut self, key: Key) -> Option<&mut Live<T>> {
        let live = self.entries.get_mut(key.slot)?.live_mut()?;
        (live.generation == key.generation).then_some(live)
    }

    /// Frees the cell of an entry if it is at a place where it hangs no more.
    #[inline]
    fn take_at(&mut self, slot: u32, place: Place) -> Option<Live<T>> {
        let is_it = |live: &Live<T>| live.place == place;
        let live = self.entries.get_mut(slot)?.vacate_if(is_it)?;
        self.entries.release(slot);
        self.len -= 1;
        Some(live)
    }

    /// Makes the cells and the places of what is gone free.
    #[cold]
    fn settle(&mut self) {
        for (slot, place) in self.gone.take() {
            self.entries.release(slot);
            self.dial.lists.remove(place);
        }
    }

    /// Turns the wheel to `seen`, or until enough is ready.
    fn make_ready(&mut self) {
        self.settle();
        let before = self.ready.len();
        while self.ready.len() < READY.1 {
            let Some((list, start)) = self.dial.first().filter(|&(_, start)| start <= self.seen)
            else {
                self.dial.current = self.seen;
                self.more = false;
                break;
            };
            self.dial.current = start;
            if self.dial.geometry.is_near(list) || list == self.dial.lists.ripe() {
                self.pick(list);
            } else {
                self.cascade(list);
            }
        }
        if self.ready.len() > before {
            self.busy = self.seen;
        } else if self.seen > self.busy {
            // A little at a time and only when a whole tick passed in which nothing was due:
            // never in the middle of a burst.
            self.entries.trim(TRIM);
            self.dial.lists.trim(TRIM);
        }
    }

    /// Makes the oldest entries of a list ready, and asks for their memory.
    fn pick(&mut self, list: usize) {
        self.dial.lists.ask_for(list + LOOKAHEAD);
        let (number, chunk) = self.dial.lists.pick(list);
        for (place, slot) in chunk.places(number) {
            self.entries.ask_for(slot);
            self.ready.push(Item::Entry { slot, place });
        }
        self.ready.push(Item::End { chunk: number });
    }

    /// Whether anything that is ready was not cancelled since.
    fn any_ready(&self) -> bool {
        self.ready.iter().any(|item| match item {
            Item::Entry { slot, place } => self.entries.is_there(slot, place),
            Item::End { .. } => false,
        })
    }

    /// Moves the entries of a far list to where they belong as seen from `current`.
    fn cascade(&mut self, list: usize) {
        let Self { dial, entries, .. } = self;
        let mut ring = dial.lists.detach(list);
        while let Some((number, chunk)) = dial.lists.take_chunk(&mut ring) {
            if let Some(ahead) = dial.lists.peek_chunk(&ring) {
                ahead.entries().for_each(|slot| entries.ask_for(slot));
            }
            for (place, slot) in chunk.places(number) {
                if let Some(live) = entries.get_mut(slot).and_then(Entry::live_mut)
                    && live.place == place
                {
                    let list = dial.list_to_be(dial.geometry.tick_of(live.deadline));
                    live.place = dial.lists.append(list, slot);
                }
            }
        }
    }

    /// Asks for the memory behind the values that come next.
    fn warm_up(&mut self, warm: fn(&T)) {
        while let Some(slot) = self.ready.next_cold(WARM.1) {
            if let Some(live) = self.entries.get(slot).and_then(Entry::live) {
                warm(&live.value);
            }
        }
    }

    /// Takes out the first of what is ready.
    #[inline]
    fn pop_ready(&mut self) -> Option<Live<T>> {
        loop {
            if let Some(warm) = self.warm
                && self.ready.is_cold(WARM.0)
            {
                self.warm_up(warm);
            }
            match self.ready.pop()? {
                Item::Entry { slot, place } => {
                    if let Some(live) = self.take_at(slot, place) {
                        self.dial.lists.remove(place);
                        return Some(live);
                    }
                }
                Item::End { chunk } => self.dial.lists.let_go(chunk),
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
