//! Due entries that were not taken yet: a short queue in front of the lists.

use super::lists::Place;

/// The capacity of the queue.
const ROOM: usize = 256;

/// Entries that were picked from the lists, chunk by chunk. Some may be stale.
#[derive(Debug)]
pub(super) struct Queue {
    items: Box<[Item; ROOM]>,
    /// `head` is the number of items ever popped, `tail` the number ever pushed (modulo the range
    /// of `usize`). The caller ensures that `tail - head` does not exceed `ROOM`.
    head: usize,
    tail: usize,
    /// The position, counted like `tail`, up to which the memory behind the values was prefetched.
    warmed: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// An entry, and its place when it was picked.
    Entry { slot: u32, place: Place },
    /// The end of a chunk: all its items came before this one. The chunk is released when this is
    /// popped.
    End { chunk: u32 },
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            items: Box::new([Item::End { chunk: 0 }; ROOM]),
            head: 0,
            tail: 0,
            warmed: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    #[inline]
    pub(super) fn push(&mut self, item: Item) {
        debug_assert!(self.len() < ROOM);
        self.items[self.tail % ROOM] = item;
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Item> {
        if self.head == self.tail {
            return None;
        }
        let item = self.items[self.head % ROOM];
        self.head = self.head.wrapping_add(1);
        Some(item)
    }

    /// Returns how many of the next items were already prefetched.
    #[inline]
    fn warm(&self) -> usize {
        let warm = self.warmed.wrapping_sub(self.head);
        // `head` is past `warmed`: items were popped without being prefetched.
        if warm > ROOM { 0 } else { warm }
    }

    /// Returns `true` if one of the next `first` items was not prefetched yet.
    #[inline]
    pub(super) fn needs_prefetch(&self, first: usize) -> bool {
        self.warm() < self.len().min(first)
    }

    /// Returns the next entry whose value's memory is to be prefetched, if it is among the next
    /// `first` items, and counts it as prefetched.
    #[inline]
    pub(super) fn next_to_prefetch(&mut self, first: usize) -> Option<u32> {
        let mut by = self.warm();
        while by < self.len().min(first) {
            let item = self.items[self.head.wrapping_add(by) % ROOM];
            by += 1;
            self.warmed = self.head.wrapping_add(by);
            if let Item::Entry { slot, .. } = item {
                return Some(slot);
            }
        }
        None
    }

    /// Returns the queued items in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        (0..self.len()).map(|by| self.items[self.head.wrapping_add(by) % ROOM])
    }
}
