//! An indexed heap: exact order by deadline, and any entry can be taken out by its key.
//!
//! Pure data: no thread, no lock, no clock. One loop thread owns it (rule SC2); other threads
//! send that loop a message. Why it exists beside the wheel: "Four engines" in the crate's header.
//!
//! Two arrays. `items` is a 4-ary heap of small copies (deadline, sequence, slot), so sifting
//! stays inside a few cache lines and never moves a value. The slab holds the values, and each
//! of its slots knows where its item is, which is what makes a removal O(log n) (SC17).
//!
//! # Invariants
//!
//! * No item comes before its parent in the order (deadline, sequence).
//! * `items` and the live slots of the slab are in one-to-one correspondence: the slot of
//!   `items[i]` is live and its position is `i`.
//! * Every sequence in `items` is less than `next_sequence`.

use std::iter::FusedIterator;
use std::vec;

mod slab;

use self::slab::Slab;
use crate::key::Key;

/// Children per item. Four keep the tree half as deep as two do, and four siblings of 24 bytes
/// span two cache lines.
const ARITY: usize = 4;

/// Entries ordered by deadline, and among equal deadlines by the order of insertion.
///
/// A deadline is a number of nanoseconds on the caller's clock; [`u64::MAX`] is a legal one, far
/// in the future. Compute deadlines with [`u64::saturating_add`] and "forever" needs no case of
/// its own.
///
/// # Memory
///
/// An entry costs an item of 24 bytes and a slot of 8 bytes plus the value. Both arrays grow the
/// way [`Vec`] grows, by doubling: netty's heap turns to steps of 50 % above 64 entries (SC20) to
/// save memory, and here giving memory back after a burst does that instead. Room for 64 entries
/// is always kept. Above that, once no more than a quarter of the room is in use, the unused tail
/// returns to the allocator. This is tried again each time the number of entries has fallen to
/// less than a quarter of what it was, and after as many removals as there are slots: per removal
/// it costs little, though a single one that ends a large burst takes as long as the burst had
/// entries. A slot cannot move, since keys name it: an entry that stays keeps the slots below its
/// own.
///
/// # Examples
///
/// A loop fires what is due and puts a periodic entry back:
///
/// ```
/// use tidegate_timer::Heap;
///
/// const PERIOD: u64 = 100;
///
/// let mut timers = Heap::new();
/// timers.insert(100, "tick");
/// timers.insert(200, "bell");
///
/// let mut fired = Vec::new();
/// let now = 210;
/// while let Some(due) = timers.pop_due(now) {
///     fired.push((due.deadline, due.value));
///     if due.value == "tick" {
///         // Fixed rate: from the deadline, not from now. It keeps its place among equals, so
///         // the second tick comes before the bell.
///         let next = due.deadline.saturating_add(PERIOD);
///         timers.reinsert(next, due.sequence, due.value);
///     }
/// }
/// assert_eq!(fired, [(100, "tick"), (200, "tick"), (200, "bell")]);
/// assert_eq!(timers.next_deadline(), Some(300));
/// ```
#[derive(Debug)]
pub struct Heap<T> {
    /// The tree: the children of `i` are at `4 * i + 1` and the three places after it.
    items: Vec<Item>,
    slab: Slab<T>,
    /// What the next `insert` gives out. At one insertion per nanosecond it lasts for centuries.
    next_sequence: u64,
}

/// An entry that has left the heap.
///
/// # Examples
///
/// ```
/// use tidegate_timer::{Due, Heap};
///
/// let mut timers = Heap::new();
/// timers.insert(10, 'a');
/// let Due { deadline, sequence, value } = timers.pop_due(15).expect("it is due");
/// assert_eq!((deadline, value), (10, 'a'));
/// timers.reinsert(20, sequence, value);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Due<T> {
    /// When it was to fire. Fixed rate computes the next deadline from this one (SC14).
    pub deadline: u64,
    /// Its place among entries of equal deadline, for [`Heap::reinsert`].
    pub sequence: u64,
    /// What was inserted.
    pub value: T,
}

impl<T> Heap<T> {
    /// Makes an empty heap. Allocates nothing until the first insertion.
    ///
    /// # Examples
    ///
    /// ```
    /// let timers = tidegate_timer::Heap::<u32>::new();
    /// assert!(timers.is_empty());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            slab: Slab::new(),
            next_sequence: 0,
        }
    }

    /// Adds an entry behind every entry of the same deadline, in O(log n).
    ///
    /// A deadline that has already passed is welcome: the entry is due at once.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// timers.insert(10, "first");
    /// timers.insert(10, "second");
    /// assert_eq!(timers.pop_due(10).map(|due| due.value), Some("first"));
    /// ```
    ///
    /// # Panics
    ///
    /// When the heap already holds 2³² - 1 entries.
    pub fn insert(&mut self, deadline: u64, value: T) -> Key {
        let key = self.add(deadline, self.next_sequence, value);
        self.next_sequence += 1;
        key
    }

    /// Adds an entry under a sequence given earlier, in O(log n): what a periodic task does.
    ///
    /// A sequence is given once, by [`insert`](Self::insert), and read from the [`Due`] that left
    /// the heap (SC3). The entry is placed before every entry of the same deadline that was
    /// inserted after it first was. Its old key stays stale; the one returned replaces it.
    ///
    /// Reusing a sequence whose entry is still in the heap breaks nothing but their order: should
    /// both have the same deadline, either may come first.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// timers.insert(10, "periodic");
    /// let due = timers.pop_due(10).expect("it is due");
    ///
    /// timers.insert(20, "newcomer");
    /// timers.reinsert(20, due.sequence, due.value);
    /// assert_eq!(timers.peek(), Some((20, &"periodic")));
    /// ```
    ///
    /// # Panics
    ///
    /// When this heap never gave out `sequence`, and when it already holds 2³² - 1 entries.
    pub fn reinsert(&mut self, deadline: u64, sequence: u64, value: T) -> Key {
        assert!(
            sequence < self.next_sequence,
            "a sequence must come from this heap: {sequence} was never given out"
        );
        self.add(deadline, sequence, value)
    }

    /// Takes an entry out, due or not, in O(log n): what a cancellation does.
    ///
    /// Answers `None` when the key is stale: the entry fired or was removed before.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// let key = timers.insert(10, "request timeout");
    /// assert_eq!(timers.remove(key), Some("request timeout"));
    /// assert_eq!(timers.remove(key), None);
    /// ```
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let position = self.slab.position(key)?;
        Some(self.take(position).value)
    }

    /// Takes out the earliest entry if its deadline is `now` or before, in O(log n).
    ///
    /// One entry per call, so that a loop can stop when its budget for this turn is spent.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// timers.insert(10, "a");
    /// timers.insert(30, "b");
    /// assert_eq!(timers.pop_due(20).map(|due| due.value), Some("a"));
    /// assert_eq!(timers.pop_due(20), None);
    /// ```
    pub fn pop_due(&mut self, now: u64) -> Option<Due<T>> {
        if self.next_deadline()? > now {
            return None;
        }
        Some(self.take(0))
    }

    /// Takes out every entry at once and hands them over in order: what a shutdown does.
    ///
    /// The heap is empty when this returns, whether or not the iterator is used up, and every key
    /// is stale. The iterator borrows nothing, so what runs between two of its steps may insert
    /// again. Sequences go on where they were.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// timers.insert(u64::MAX, "never");
    /// timers.insert(10, "soon");
    ///
    /// let left: Vec<_> = timers.drain().map(|due| due.value).collect();
    /// assert_eq!(left, ["soon", "never"]);
    /// assert!(timers.is_empty());
    /// ```
    pub fn drain(&mut self) -> Drain<T> {
        self.items.sort_unstable_by_key(|item| item.order());
        let entries: Vec<_> = self
            .items
            .drain(..)
            .map(|item| item.into_due(self.slab.take(item.slot)))
            .collect();
        self.trim();
        Drain {
            entries: entries.into_iter(),
        }
    }

    /// The earliest entry and its deadline, due or not.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// assert_eq!(timers.peek(), None);
    /// timers.insert(20, "b");
    /// timers.insert(10, "a");
    /// assert_eq!(timers.peek(), Some((10, &"a")));
    /// ```
    #[must_use]
    pub fn peek(&self) -> Option<(u64, &T)> {
        let first = self.items.first()?;
        Some((first.deadline, self.slab.value(first.slot)))
    }

    /// The earliest deadline: how long a loop may sleep. `None` means without limit (SC21).
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// assert_eq!(timers.next_deadline(), None);
    /// timers.insert(10, ());
    /// assert_eq!(timers.next_deadline(), Some(10));
    /// ```
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.items.first().map(|item| item.deadline)
    }

    /// The value under a key, or `None` when the key is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::Heap::new();
    /// let key = timers.insert(10, "a");
    /// assert_eq!(timers.get(key), Some(&"a"));
    /// timers.pop_due(10);
    /// assert_eq!(timers.get(key), None);
    /// ```
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.slab.get(key)
    }

    /// How many entries are in the heap.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is nothing to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn add(&mut self, deadline: u64, sequence: u64, value: T) -> Key {
        let position = self.items.len();
        let key = self.slab.insert(value, position);
        self.items.push(Item {
            deadline,
            sequence,
            slot: key.slot,
        });
        self.sift_up(position);
        key
    }

    /// Takes out the entry at a position, and returns memory if enough of it lies idle.
    fn take(&mut self, position: usize) -> Due<T> {
        let item = self.items.swap_remove(position);
        if position < self.items.len() {
            self.resettle(position);
        }
        let value = self.slab.take(item.slot);
        if self.slab.is_worth_trimming() {
            self.trim();
        }
        item.into_due(value)
    }

    fn trim(&mut self) {
        self.slab.trim();
        self.items.shrink_to(slab::roomy(self.items.len()));
    }

    /// Finds the place of an item that was put where another one was: it may belong higher or
    /// lower, never both.
    fn resettle(&mut self, position: usize) {
        if self.sift_up(position) == position {
            self.sift_down(position);
        }
    }

    /// Moves an item towards the root past every later one; returns where it ended.
    fn sift_up(&mut self, mut hole: usize) -> usize {
        let item = self.items[hole];
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.items[parent].order() <= item.order() {
                break;
            }
            self.place(hole, self.items[parent]);
            hole = parent;
        }
        self.place(hole, item);
        hole
    }

    /// Moves an item away from the root past every earlier one.
    fn sift_down(&mut self, mut hole: usize) {
        let item = self.items[hole];
        while let Some(child) = self.earliest_child(hole)
            && self.items[child].order() < item.order()
        {
            self.place(hole, self.items[child]);
            hole = child;
        }
        self.place(hole, item);
    }

    fn earliest_child(&self, parent: usize) -> Option<usize> {
        let first = parent * ARITY + 1;
        let end = (first + ARITY).min(self.items.len());
        (first..end).min_by_key(|&child| self.items[child].order())
    }

    /// Writes an item and tells its slot where it is now.
    fn place(&mut self, position: usize, item: Item) {
        self.items[position] = item;
        self.slab.set_position(item.slot, position);
    }
}

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// What was left in a [`Heap`], in order; made by [`Heap::drain`].
///
/// # Examples
///
/// ```
/// let mut timers = tidegate_timer::Heap::new();
/// timers.insert(10, 'a');
/// timers.insert(20, 'b');
/// let left = timers.drain();
/// assert_eq!(left.len(), 2);
/// ```
#[derive(Debug)]
#[must_use = "dropping it drops what was in the heap"]
pub struct Drain<T> {
    entries: vec::IntoIter<Due<T>>,
}

impl<T> Iterator for Drain<T> {
    type Item = Due<T>;

    fn next(&mut self) -> Option<Due<T>> {
        self.entries.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<T> ExactSizeIterator for Drain<T> {}

impl<T> FusedIterator for Drain<T> {}

/// What the tree sifts: the order of an entry and where its value is.
#[derive(Clone, Copy, Debug)]
struct Item {
    deadline: u64,
    sequence: u64,
    slot: u32,
}

impl Item {
    /// Deadline first, then sequence, as one number: a comparison without a branch.
    fn order(self) -> u128 {
        u128::from(self.deadline) << 64 | u128::from(self.sequence)
    }

    fn into_due<T>(self, value: T) -> Due<T> {
        Due {
            deadline: self.deadline,
            sequence: self.sequence,
            value,
        }
    }
}

#[cfg(test)]
mod tests;
