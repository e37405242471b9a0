//! The lists of a wheel: which entries hang in which slot.
//!
//! A list is a ring of chunks, and a chunk is one cache line with up to twelve numbers of
//! entries. An entry knows its place (chunk and position), so taking one out touches its own
//! line and its chunk's, where a doubly linked list would touch both neighbours; and who walks a
//! list knows twelve entries at once and can ask for all of them before it needs the first.
//!
//! # Invariants
//!
//! * `tails[list]` is the newest chunk of the list, whose `next` is the oldest, or `NONE`.
//! * Every chunk of a ring names its list and has at least one live position.
//! * `occupied` has exactly the lists that are not empty, except the last one: what is ripe.

use tidegate_sync::prefetch;

use super::bits::Bits;
use super::pages::{Cell, Pages};

/// Positions in a chunk.
pub(super) const ITEMS: usize = 12;

const NONE: u32 = u32::MAX;

/// Where an entry hangs: a chunk and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

/// Entries per chunk place; what is left of a `u32` limits the chunks, and thus the entries.
pub(super) const MAX_ENTRIES: usize = 1 << 28;

#[derive(Debug)]
pub(super) struct Lists {
    tails: Box<[u32]>,
    chunks: Pages<Chunk>,
    occupied: Bits,
}

/// One cache line of entry numbers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Chunk {
    items: [u32; ITEMS],
    /// The chunk after this one; the oldest after the newest.
    next: u32,
    prev: u32,
    list: u32,
    /// One bit per position in use.
    live: u16,
    /// The next free chunk while this one is free.
    next_free: u16,
}

impl Cell for Chunk {
    fn free(_generation: u32, next: u16) -> Self {
        Self {
            items: [0; ITEMS],
            next: NONE,
            prev: NONE,
            list: NONE,
            live: 0,
            next_free: next,
        }
    }

    fn next_free(&self) -> u16 {
        self.next_free
    }
}

impl Chunk {
    /// The entries in it, oldest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = u32> + '_ {
        let mut left = self.live;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.items.get(at).copied()
        })
    }

    /// The position behind the newest entry.
    fn end(&self) -> u32 {
        u16::BITS - self.live.leading_zeros()
    }
}

impl Place {
    fn new(chunk: u32, at: u32) -> Self {
        Self(chunk << 4 | at)
    }

    fn chunk(self) -> u32 {
        self.0 >> 4
    }

    fn bit(self) -> u16 {
        1 << (self.0 & 15)
    }
}

impl Lists {
    /// `count` lists that can be found by [`Lists::first_occupied`], and one more.
    pub(super) fn new(count: usize) -> Self {
        Self {
            tails: vec![NONE; count + 1].into_boxed_slice(),
            chunks: Pages::new(),
            occupied: Bits::new(count),
        }
    }

    /// The last list, of what is due.
    pub(super) fn ripe(&self) -> usize {
        self.tails.len() - 1
    }

    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.tails[list] == NONE
    }

    /// The lowest list that is not empty, `ripe` left out.
    pub(super) fn first_occupied(&self) -> Option<usize> {
        self.occupied.first()
    }

    /// Hangs an entry behind all others of a list.
    #[inline]
    pub(super) fn append(&mut self, list: usize, entry: u32) -> Place {
        let tail = self.tails[list];
        if tail != NONE {
            let chunk = self.chunk_mut(tail);
            let at = chunk.end();
            if at < ITEMS as u32 {
                chunk.items[at as usize] = entry;
                chunk.live |= 1 << at;
                return Place::new(tail, at);
            }
        }
        self.append_chunk(list, entry)
    }

    /// Takes the entry at a place out of whatever list it hangs in.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) {
        let chunk = self.chunk_mut(place.chunk());
        chunk.live &= !place.bit();
        if chunk.live == 0 {
            self.unlink(place.chunk());
        }
    }

    /// Takes the oldest entry out of a list.
    #[inline]
    pub(super) fn pop(&mut self, list: usize) -> Option<u32> {
        let number = self.oldest(list)?;
        let chunk = self.chunk_mut(number);
        let at = chunk.live.trailing_zeros() as usize;
        let entry = chunk.items[at];
        chunk.live &= chunk.live - 1;
        if chunk.live == 0 {
            self.unlink(number);
        }
        Some(entry)
    }

    /// Takes all chunks out of a list; they are given out by [`Lists::take_chunk`].
    pub(super) fn detach(&mut self, list: usize) -> Ring {
        let left = self.tails[list];
        self.tails[list] = NONE;
        self.occupied.remove(list);
        let next = if left == NONE {
            NONE
        } else {
            self.chunk(left).next
        };
        Ring { next, last: left }
    }

    /// Frees the oldest chunk of a detached ring and answers what was in it.
    pub(super) fn take_chunk(&mut self, ring: &mut Ring) -> Option<Chunk> {
        if ring.next == NONE {
            return None;
        }
        let number = ring.next;
        let chunk = *self.chunk(number);
        ring.next = if number == ring.last {
            NONE
        } else {
            chunk.next
        };
        self.free(number);
        Some(chunk)
    }

    /// The chunk that [`Lists::take_chunk`] gives next.
    pub(super) fn peek_chunk(&self, ring: &Ring) -> Option<&Chunk> {
        (ring.next != NONE).then(|| self.chunk(ring.next))
    }

    /// Moves a whole list behind what is ripe; shows each of its chunks on the way.
    pub(super) fn ripen(&mut self, list: usize, mut seen: impl FnMut(&Chunk)) {
        let ripe = self.ripe();
        let ring = self.detach(list);
        let mut number = ring.next;
        loop {
            let chunk = self.chunk_mut(number);
            chunk.list = ripe as u32;
            seen(chunk);
            if number == ring.last {
                break;
            }
            number = chunk.next;
        }
        let tail = self.tails[ripe];
        if tail != NONE {
            let oldest = self.chunk(tail).next;
            self.join(tail, ring.next);
            self.join(ring.last, oldest);
        }
        self.tails[ripe] = ring.last;
    }

    /// Gives back at most `most` pages of chunks.
    pub(super) fn trim(&mut self, most: usize) {
        self.chunks.trim(most);
    }

    /// The chunk with the oldest entry of a list, by number.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        let tail = self.tails[list];
        (tail != NONE).then(|| self.chunk(tail).next)
    }

    /// Asks for the memory of two lists that come soon: the newest chunk of the later one, and
    /// the oldest chunk of the sooner one, whose newest was asked for before.
    #[inline]
    pub(super) fn ask_for(&self, later: usize, sooner: usize) {
        let newest = |list: usize| self.tails.get(list).filter(|&&tail| tail != NONE);
        if let Some(&tail) = newest(later) {
            prefetch(self.chunk(tail));
        }
        if let Some(&tail) = newest(sooner) {
            prefetch(self.chunk(self.chunk(tail).next));
        }
    }

    #[inline]
    pub(super) fn chunk(&self, number: u32) -> &Chunk {
        self.chunks.get(number).expect("a linked chunk is live")
    }

    /// The chunk after this one.
    pub(super) fn after(&self, chunk: &Chunk) -> &Chunk {
        self.chunk(chunk.next)
    }

    #[inline]
    fn chunk_mut(&mut self, number: u32) -> &mut Chunk {
        self.chunks.get_mut(number).expect("a linked chunk is live")
    }

    fn append_chunk(&mut self, list: usize, entry: u32) -> Place {
        let (number, chunk) = self.chunks.claim();
        chunk.items[0] = entry;
        chunk.live = 1;
        chunk.list = list as u32;
        let tail = self.tails[list];
        if tail == NONE {
            self.join(number, number);
            if list != self.ripe() {
                self.occupied.insert(list);
            }
        } else {
            let oldest = self.chunk(tail).next;
            self.join(tail, number);
            self.join(number, oldest);
        }
        self.tails[list] = number;
        Place::new(number, 0)
    }

    /// Takes an empty chunk out of its ring.
    fn unlink(&mut self, number: u32) {
        let &Chunk {
            next, prev, list, ..
        } = self.chunk(number);
        let list = list as usize;
        if next == number {
            self.tails[list] = NONE;
            if list != self.ripe() {
                self.occupied.remove(list);
            }
        } else {
            self.join(prev, next);
            if self.tails[list] == number {
                self.tails[list] = prev;
            }
        }
        self.free(number);
    }

    fn join(&mut self, before: u32, after: u32) {
        self.chunk_mut(before).next = after;
        self.chunk_mut(after).prev = before;
    }

    fn free(&mut self, number: u32) {
        self.chunks.release(number, |chunk, next| {
            chunk.next_free = next;
            (Some(1), ())
        });
    }

    /// Every place in use, with its list and entry; checks the rings on the way.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<(Place, usize, u32)> {
        let mut places = Vec::new();
        let mut chunks = 0;
        for (list, &tail) in self.tails.iter().enumerate() {
            if list != self.ripe() {
                assert_eq!(self.occupied.contains(list), tail != NONE);
            }
            let mut number = self.oldest(list);
            while let Some(at) = number {
                let chunk = self.chunk(at);
                chunks += 1;
                assert_eq!(chunk.list as usize, list);
                assert_ne!(chunk.live, 0, "no chunk is empty");
                assert_eq!(self.after(chunk).prev, at);
                for position in 0..ITEMS as u32 {
                    if chunk.live & 1 << position != 0 {
                        let entry = chunk.items[position as usize];
                        places.push((Place::new(at, position), list, entry));
                    }
                }
                number = (at != tail).then_some(chunk.next);
            }
        }
        self.chunks.check(chunks);
        places
    }

    #[cfg(test)]
    pub(super) fn pages_in_memory(&self) -> usize {
        self.chunks.in_memory()
    }
}

/// Chunks that were taken out of a list and are still linked.
#[derive(Debug)]
pub(super) struct Ring {
    next: u32,
    last: u32,
}
