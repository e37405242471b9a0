//! The lists of a wheel: which entries hang in which slot.
//!
//! A list is a ring of chunks, and a chunk is one cache line with up to thirteen numbers of
//! entries. An entry knows its place (chunk and position). Adding one writes its number behind the
//! last, a plain store into a line that nobody has to wait for. Taking one out does not touch the
//! chunk at all: the number stays, and is stale because its entry is not at that place any more.
//! How many numbers of a chunk are not stale is counted elsewhere, in one byte per chunk; those
//! bytes fit into the nearest caches.
//!
//! # Invariants
//!
//! * `tail` of a list is its newest chunk, whose `next` is the oldest, or `NONE`.
//! * `counts` has the numbers in each chunk that are not stale. A chunk without any is in no ring.
//! * A position is given out once while its chunk is in a ring, so an entry that says it is there
//!   is the one that was put there.
//! * `occupied` has exactly the lists that are not empty, except the last one: what is ripe.

use tidegate_sync::prefetch;

use super::bits::Bits;
use super::pages::{Cell, Pages};

/// Positions in a chunk.
pub(super) const ITEMS: usize = 13;

/// A hole, or no chunk.
const NONE: u32 = u32::MAX;

/// Where an entry hangs: a chunk and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

/// Entries per wheel: a place has 28 bits for its chunk, and an entry may have one for itself.
pub(super) const MAX_ENTRIES: usize = 1 << 27;

#[derive(Debug)]
pub(super) struct Lists {
    heads: Box<[Head]>,
    chunks: Pages<Chunk>,
    /// Entries in each chunk.
    counts: Vec<u8>,
    occupied: Bits,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    tail: u32,
    /// Positions of `tail` that were given out.
    end: u32,
}

const EMPTY: Head = Head {
    tail: NONE,
    end: ITEMS as u32,
};

/// One cache line of entry numbers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Chunk {
    items: [u32; ITEMS],
    /// The chunk after this one, the oldest after the newest; the next free cell of a free one.
    next: u32,
    prev: u32,
    list: u32,
}

impl Cell for Chunk {
    fn free(_generation: u32, next: u16) -> Self {
        Self {
            items: [NONE; ITEMS],
            next: u32::from(next),
            prev: NONE,
            list: NONE,
        }
    }

    #[inline]
    fn next_free(&self) -> u16 {
        self.next as u16
    }
}

impl Chunk {
    /// The numbers in it, oldest first, some of them stale.
    #[inline]
    pub(super) fn entries(&self) -> impl Iterator<Item = u32> + '_ {
        self.items.iter().copied().filter(|&entry| entry != NONE)
    }

    /// The same with their places, for the chunk of this number.
    #[inline]
    pub(super) fn places(&self, number: u32) -> impl Iterator<Item = (Place, u32)> + '_ {
        let items = (0..).zip(self.items.iter().copied());
        items
            .filter(|&(_, entry)| entry != NONE)
            .map(move |(at, entry)| (Place(number << 4 | at), entry))
    }
}

impl Lists {
    /// `count` lists that can be found by [`Lists::first_occupied`], and one more.
    pub(super) fn new(count: usize) -> Self {
        Self {
            heads: vec![EMPTY; count + 1].into_boxed_slice(),
            chunks: Pages::new(),
            counts: Vec::new(),
            occupied: Bits::new(count),
        }
    }

    /// The last list, of what is due.
    #[inline]
    pub(super) fn ripe(&self) -> usize {
        self.heads.len() - 1
    }

    #[inline]
    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.heads[list].tail == NONE
    }

    /// The lowest list that is not empty, `ripe` left out.
    #[inline]
    pub(super) fn first_occupied(&self) -> Option<usize> {
        self.occupied.first()
    }

    /// Hangs an entry behind all others of a list.
    #[inline]
    pub(super) fn append(&mut self, list: usize, entry: u32) -> Place {
        if self.heads[list].end == ITEMS as u32 {
            self.append_chunk(list);
        }
        let head = &mut self.heads[list];
        let (number, at) = (head.tail, head.end);
        head.end += 1;
        self.counts[number as usize] += 1;
        self.chunk_mut(number).items[at as usize] = entry;
        Place(number << 4 | at)
    }

    /// Takes the entry at a place out of whatever list it hangs in.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) {
        let number = place.0 >> 4;
        let count = &mut self.counts[number as usize];
        *count -= 1;
        if *count == 0 {
            self.unlink(number);
        }
    }

    /// Takes the oldest entry out of the ripe list. `is_there` says whether an entry is at a place.
    #[inline]
    pub(super) fn pop_ripe(&mut self, is_there: impl Fn(u32, Place) -> bool) -> Option<u32> {
        let number = self.oldest(self.ripe())?;
        for (item, at) in self.chunk_mut(number).items.iter_mut().zip(0..) {
            let entry = std::mem::replace(item, NONE);
            let place = Place(number << 4 | at);
            if entry != NONE && is_there(entry, place) {
                self.remove(place);
                return Some(entry);
            }
        }
        unreachable!("a linked chunk has an entry")
    }

    /// Takes all chunks out of a list; they are given out by [`Lists::take_chunk`].
    pub(super) fn detach(&mut self, list: usize) -> Ring {
        let last = std::mem::replace(&mut self.heads[list], EMPTY).tail;
        if list != self.ripe() {
            self.occupied.remove(list);
        }
        let next = if last == NONE {
            NONE
        } else {
            self.chunk(last).next
        };
        Ring { next, last }
    }

    /// Frees the oldest chunk of a detached ring and answers its number and what was in it.
    pub(super) fn take_chunk(&mut self, ring: &mut Ring) -> Option<(u32, Chunk)> {
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
        Some((number, chunk))
    }

    /// The chunk that [`Lists::take_chunk`] gives next.
    pub(super) fn peek_chunk(&self, ring: &Ring) -> Option<&Chunk> {
        (ring.next != NONE).then(|| self.chunk(ring.next))
    }

    /// Moves a whole list behind what is ripe; shows each of its chunks on the way and answers
    /// how many entries it has.
    pub(super) fn ripen(&mut self, list: usize, mut seen: impl FnMut(&Chunk)) -> usize {
        let ripe = self.ripe();
        let moved = self.heads[list];
        let ring = self.detach(list);
        let (mut number, mut found) = (ring.next, 0);
        loop {
            found += usize::from(self.counts[number as usize]);
            let chunk = self.chunk_mut(number);
            chunk.list = ripe as u32;
            seen(chunk);
            if number == ring.last {
                break;
            }
            number = chunk.next;
        }
        let before = std::mem::replace(&mut self.heads[ripe], moved);
        if before.tail != NONE {
            let oldest = self.chunk(before.tail).next;
            self.join(before.tail, ring.next);
            self.join(ring.last, oldest);
        }
        found
    }

    /// Gives back at most `most` pages of chunks.
    pub(super) fn trim(&mut self, most: usize) {
        self.chunks.trim(most);
    }

    /// The chunk with the oldest entry of a list, by number.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        let tail = self.heads[list].tail;
        (tail != NONE).then(|| self.chunk(tail).next)
    }

    /// Asks for the memory of two lists that come soon: the newest chunk of the later one, and
    /// the oldest chunk of the sooner one, whose newest was asked for before.
    #[inline]
    pub(super) fn ask_for(&self, later: usize, sooner: usize) {
        let newest = |list: usize| {
            let head = self.heads.get(list)?;
            (head.tail != NONE).then_some(head.tail)
        };
        if let Some(tail) = newest(later) {
            prefetch(self.chunk(tail));
        }
        if let Some(tail) = newest(sooner) {
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

    /// Hangs a chunk behind a list, to be filled at once.
    fn append_chunk(&mut self, list: usize) {
        let (number, chunk) = self.chunks.claim();
        *chunk = Chunk {
            items: [NONE; ITEMS],
            next: number,
            prev: number,
            list: list as u32,
        };
        if self.counts.len() <= number as usize {
            self.counts.resize(number as usize + 1, 0);
        }
        let head = Head {
            tail: number,
            end: 0,
        };
        let tail = std::mem::replace(&mut self.heads[list], head).tail;
        if tail != NONE {
            let oldest = self.chunk(tail).next;
            self.join(tail, number);
            self.join(number, oldest);
        } else if list != self.ripe() {
            self.occupied.insert(list);
        }
    }

    /// Takes an empty chunk out of its ring.
    fn unlink(&mut self, number: u32) {
        let &Chunk {
            next, prev, list, ..
        } = self.chunk(number);
        let list = list as usize;
        if next == number {
            self.heads[list] = EMPTY;
            if list != self.ripe() {
                self.occupied.remove(list);
            }
        } else {
            self.join(prev, next);
            if self.heads[list].tail == number {
                let end = ITEMS as u32;
                self.heads[list] = Head { tail: prev, end };
            }
        }
        self.free(number);
    }

    fn join(&mut self, before: u32, after: u32) {
        self.chunk_mut(before).next = after;
        self.chunk_mut(after).prev = before;
    }

    fn free(&mut self, number: u32) {
        self.counts[number as usize] = 0;
        self.chunks.release(number, |chunk, next| {
            chunk.next = u32::from(next);
            (Some(1), ())
        });
    }

    /// Every place in use, with its list and entry; checks the rings on the way.
    #[cfg(test)]
    pub(super) fn check(&self, is_there: impl Fn(u32, Place) -> bool) -> Vec<(Place, usize, u32)> {
        let mut places = Vec::new();
        let mut chunks = 0;
        for (list, head) in self.heads.iter().enumerate() {
            if list != self.ripe() {
                assert_eq!(self.occupied.contains(list), head.tail != NONE);
            }
            let mut number = self.oldest(list);
            while let Some(at) = number {
                let chunk = self.chunk(at);
                chunks += 1;
                assert_eq!(chunk.list as usize, list);
                assert_eq!(self.after(chunk).prev, at);
                let before = places.len();
                let live = chunk
                    .places(at)
                    .filter(|&(place, entry)| is_there(entry, place));
                places.extend(live.map(|(place, entry)| (place, list, entry)));
                assert_eq!(places.len() - before, usize::from(self.counts[at as usize]));
                assert!(places.len() > before, "no linked chunk is empty");
                number = (at != head.tail).then_some(chunk.next);
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
