//! What is due and was not taken yet: a short queue in front of the lists.

use super::lists::Place;

/// How many fit.
const ROOM: usize = 256;

/// Entries that were picked together, chunk after chunk. Some may be stale.
#[derive(Debug)]
pub(super) struct Queue {
    items: Box<[Item; ROOM]>,
    /// How many were ever taken out, and put in.
    head: usize,
    tail: usize,
    /// Up to where the memory behind the values was asked for.
    warmed: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// An entry, and where it was when it was picked.
    Entry { slot: u32, place: Place },
    /// Everything of that chunk came out before.
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

    /// How many of those that come out next were warmed.
    #[inline]
    fn warm(&self) -> usize {
        let warm = self.warmed.wrapping_sub(self.head);
        // Nobody warmed so far, and some were taken out.
        if warm > ROOM { 0 } else { warm }
    }

    /// Whether one of the first so many was not warmed.
    #[inline]
    pub(super) fn is_cold(&self, first: usize) -> bool {
        self.warm() < self.len().min(first)
    }

    /// The next entry to be warmed, if it is one of the first so many.
    #[inline]
    pub(super) fn next_cold(&mut self, first: usize) -> Option<u32> {
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

    /// What comes out, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        (0..self.len()).map(|by| self.items[self.head.wrapping_add(by) % ROOM])
    }
}
