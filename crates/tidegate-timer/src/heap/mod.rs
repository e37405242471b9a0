//! An indexed heap: exact order by deadline, and any entry can be removed by its key.
//!
//! Pure data: no thread, no lock, no clock. One event loop thread owns it (rule SC2); other threads
//! send that loop a message. The section "Four engines" of the crate documentation explains why it
//! exists beside the wheel.
//!
//! It consists of two arrays. `items` is a 4-ary heap of small copies (deadline, sequence, slot),
//! so sifting stays within a few cache lines and never moves a value. The slab holds the values.
//! Each slot of the slab stores the position of its item, which makes a removal O(log n) (SC17).
//!
//! # Invariants
//!
//! * No item comes before its parent in the order (deadline, sequence).
//! * `items` and the live slots of the slab are in one-to-one correspondence: the slot of
//!   `items[i]` is live and its position is `i`.
//! * Every sequence in `items` is less than `next_sequence`.

use std::vec;

mod slab;

use self::slab::Slab;
use crate::key::TimerKey;

/// Children per item. With four, the tree is half as deep as with two, and four siblings of 24
/// bytes span two cache lines.
const ARITY: usize = 4;

/// A priority queue of entries, ordered by deadline, then by insertion.
///
/// A deadline is a number of nanoseconds on the caller's clock; [`u64::MAX`] is a valid deadline in
/// the far future. Compute deadlines with [`u64::saturating_add`], so that "forever" needs no
/// special case.
///
/// # Memory
///
/// An entry costs an item of 24 bytes and a slot of 8 bytes plus the value. Both arrays grow by
/// doubling, like a [`Vec`]. Netty's heap grows in steps of 50 % above 64 entries (SC20) to save
/// memory; this heap returns memory after a burst instead.
///
/// Capacity for 64 entries is always kept. Above that, once at most a quarter of the capacity is in
/// use, the unused tail returns to the allocator. This is attempted each time the number of entries
/// has fallen to less than a quarter of the number at the last attempt, and after as many removals
/// as there are slots. The amortised cost per removal is small, but the removal that ends a large
/// burst takes time proportional to the size of the burst. A slot cannot move, because keys refer
/// to it: a remaining entry keeps all slots below its own allocated.
///
/// # Examples
///
/// An event loop fires due entries and reinserts a periodic one:
///
/// ```
/// use tidegate_timer::heap::Heap;
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
///         // Fixed rate: from the deadline, not from now. The entry keeps its order among equal
///         // deadlines, so the second tick comes before the bell.
///         let next = due.deadline.saturating_add(PERIOD);
///         timers.reinsert(next, due.sequence, due.value);
///     }
/// }
/// assert_eq!(fired, [(100, "tick"), (200, "tick"), (200, "bell")]);
/// assert_eq!(timers.next_deadline(), Some(300));
/// ```
#[derive(Debug)]
pub struct Heap<T> {
    /// The tree: the children of `i` are at `4 * i + 1` and the three positions after it.
    items: Vec<Item>,
    slab: Slab<T>,
    /// The sequence that the next `insert` assigns. At one insertion per nanosecond it lasts for
    /// centuries.
    next_sequence: u64,
}

/// An entry that has left the heap.
///
/// # Examples
///
/// ```
/// use tidegate_timer::heap::{Due, Heap};
///
/// let mut timers = Heap::new();
/// timers.insert(10, 'a');
/// let Due { deadline, sequence, value } = timers.pop_due(15).expect("it is due");
/// assert_eq!((deadline, value), (10, 'a'));
/// timers.reinsert(20, sequence, value);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Due<T> {
    /// The deadline of the entry. Fixed rate computes the next deadline from this one (SC14).
    pub deadline: u64,
    /// The order among entries of equal deadline, for [`Heap::reinsert`].
    pub sequence: u64,
    /// The inserted value.
    pub value: T,
}

impl<T> Heap<T> {
    /// Creates an empty heap. Allocates nothing until the first insertion.
    ///
    /// # Examples
    ///
    /// ```
    /// let timers = tidegate_timer::heap::Heap::<u32>::new();
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

    /// Adds an entry after every entry of the same deadline, in O(log n).
    ///
    /// A deadline that has already passed is allowed: the entry is due at once.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
    /// timers.insert(10, "first");
    /// timers.insert(10, "second");
    /// assert_eq!(timers.pop_due(10).map(|due| due.value), Some("first"));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the heap already holds 2³² - 1 entries.
    pub fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let key = self.add(deadline, self.next_sequence, value);
        self.next_sequence += 1;
        key
    }

    /// Adds an entry with a sequence that was assigned earlier, in O(log n). Periodic tasks use
    /// this.
    ///
    /// [`insert`](Self::insert) assigns each sequence once; the caller reads it from the [`Due`]
    /// that left the heap (SC3). The entry comes before every entry of the same deadline that was
    /// inserted after its own first insertion. The old key stays stale; the returned key replaces
    /// it.
    ///
    /// Reusing a sequence whose entry is still in the heap affects only the order of these two: if
    /// both have the same deadline, either may come first.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
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
    /// Panics if this heap never assigned `sequence`, or if it already holds 2³² - 1 entries.
    pub fn reinsert(&mut self, deadline: u64, sequence: u64, value: T) -> TimerKey {
        assert!(
            sequence < self.next_sequence,
            "a sequence must come from this heap: {sequence} was never given out"
        );
        self.add(deadline, sequence, value)
    }

    /// Removes an entry, due or not, in O(log n). A cancellation uses this.
    ///
    /// Returns `None` if the key is stale: the entry already fired or was removed.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
    /// let key = timers.insert(10, "request timeout");
    /// assert_eq!(timers.remove(key), Some("request timeout"));
    /// assert_eq!(timers.remove(key), None);
    /// ```
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        let position = self.slab.position(key)?;
        Some(self.take(position).value)
    }

    /// Removes and returns the earliest entry if its deadline is `now` or earlier, in O(log n).
    ///
    /// Returns one entry per call, so that an event loop can stop when its budget for this turn is
    /// spent.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
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

    /// Removes all entries at once and returns them in order. A shutdown uses this.
    ///
    /// The heap is empty when this returns, whether or not the iterator is consumed, and every key
    /// is stale. The iterator borrows nothing, so code that runs between two of its steps may
    /// insert again. Sequences continue from where they were.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
    /// timers.insert(u64::MAX, "never");
    /// timers.insert(10, "soon");
    ///
    /// let left: Vec<_> = timers.drain().map(|due| due.value).collect();
    /// assert_eq!(left, ["soon", "never"]);
    /// assert!(timers.is_empty());
    /// ```
    #[must_use = "dropping it drops what was in the heap"]
    pub fn drain(&mut self) -> vec::IntoIter<Due<T>> {
        // Pops them: a sort would be compiled for each type of entry.
        let mut entries = Vec::with_capacity(self.len());
        while let Some(due) = self.pop_due(u64::MAX) {
            entries.push(due);
        }
        self.trim();
        entries.into_iter()
    }

    /// Returns the earliest entry and its deadline, due or not.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
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

    /// Returns the earliest deadline, until which an event loop may sleep. `None` means without
    /// limit (SC21).
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
    /// assert_eq!(timers.next_deadline(), None);
    /// timers.insert(10, ());
    /// assert_eq!(timers.next_deadline(), Some(10));
    /// ```
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.items.first().map(|item| item.deadline)
    }

    /// Returns the value of a key, or `None` if the key is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut timers = tidegate_timer::heap::Heap::new();
    /// let key = timers.insert(10, "a");
    /// assert_eq!(timers.get(key), Some(&"a"));
    /// timers.pop_due(10);
    /// assert_eq!(timers.get(key), None);
    /// ```
    #[must_use]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.slab.get(key)
    }

    /// Returns the number of entries in the heap.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if the heap has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn add(&mut self, deadline: u64, sequence: u64, value: T) -> TimerKey {
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

    /// Removes the entry at a position, and returns memory to the allocator if enough of it is
    /// unused.
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

    /// Restores the heap order for an item that replaced another one. The item may belong higher or
    /// lower, never both.
    fn resettle(&mut self, position: usize) {
        if self.sift_up(position) == position {
            self.sift_down(position);
        }
    }

    /// Moves an item towards the root, past every later item, and returns its final position.
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

    /// Moves an item away from the root, past every earlier item.
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

    /// Writes an item to a position and records the position in the item's slot.
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

/// A node of the tree: the sort key of an entry and the slot of its value.
#[derive(Clone, Copy, Debug)]
struct Item {
    deadline: u64,
    sequence: u64,
    slot: u32,
}

impl Item {
    /// Returns deadline and sequence as one number, so that a comparison needs no branch.
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
