//! What was cancelled and is not settled yet.
//!
//! A cancellation has to note two things: that its cell can be filled again, and that its chunk has
//! one number less. Where the second is noted the entry alone knows, and its memory is a long wait
//! away. A processor works on several cancellations at a time as long as none of them has to know
//! what another one stores, so they only put their notes in a row here, and the row is settled at
//! once when it is full or somebody needs to know.

use super::lists::Place;

/// How many notes fit.
pub(super) const ROOM: usize = 64;

/// Cells and places of cancelled entries.
#[derive(Debug)]
pub(super) struct Gone {
    notes: [(u32, Place); ROOM],
    len: usize,
}

impl Gone {
    pub(super) fn new() -> Self {
        Self {
            notes: [(0, Place::NOWHERE); ROOM],
            len: 0,
        }
    }

    /// Adds a note; answers whether this was the last that fits.
    #[inline]
    pub(super) fn note(&mut self, slot: u32, place: Place) -> bool {
        self.notes[self.len % ROOM] = (slot, place);
        self.len += 1;
        self.len == ROOM
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes all notes out, oldest first.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (u32, Place)> + '_ {
        let len = std::mem::take(&mut self.len);
        self.notes[..len].iter().copied()
    }
}
