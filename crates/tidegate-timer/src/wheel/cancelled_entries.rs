//! A buffer of cancelled entries whose cells and places are not released yet.
//!
//! A cancellation has to do two things: free its cell for reuse, and decrement the count of its
//! chunk. The place of that count is stored in the entry itself, whose memory is usually a cache
//! miss away. A processor overlaps several cancellations as long as none depends on a store of
//! another. Therefore a cancellation only appends a record here, and the records are processed
//! together when the buffer is full or a reader needs the result.

use super::lists::Place;

/// The capacity of the buffer.
pub(super) const ROOM: usize = 64;

/// Cells and places of cancelled entries.
#[derive(Debug)]
pub(super) struct CancelledEntries {
    records: [(u32, Place); ROOM],
    len: usize,
}

impl CancelledEntries {
    pub(super) fn new() -> Self {
        Self {
            records: [(0, Place::NOWHERE); ROOM],
            len: 0,
        }
    }

    /// Appends a record. Returns `true` if the buffer is now full.
    #[inline]
    pub(super) fn push(&mut self, slot: u32, place: Place) -> bool {
        self.records[self.len % ROOM] = (slot, place);
        self.len += 1;
        self.len == ROOM
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all records and returns them, oldest first.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (u32, Place)> + '_ {
        let len = std::mem::take(&mut self.len);
        self.records[..len].iter().copied()
    }
}
