//! The lists of a wheel: which entries are in which slot.
//!
//! A list is a ring of chunks. A chunk is two cache lines with up to 32 entry numbers. An entry
//! stores its place (chunk and position). Adding an entry writes its number after the last one,
//! which is a plain store into a cache line that no load waits for. Removing an entry does not
//! touch the chunk: the number stays, and is stale because its entry is no longer at that place.
//!
//! The data for walking a ring is stored separately: for each chunk, one byte with the number of
//! entries that are not stale, and the adjacent chunks. Both stay in the nearer caches, so
//! an empty chunk leaves its ring without a cache miss, and chunks can be prefetched well before
//! they are needed.
//!
//! # Invariants
//!
//! * `tail` of a list is its newest chunk, whose `next` is the oldest, or `NONE`.
//! * `counts` holds the number of entries in each chunk that are not stale. A chunk without any is
//!   in no ring.
//! * A position is assigned once while its chunk is in a ring, so an entry that stores this place
//!   is the entry that was put there.
//! * `occupied` contains exactly the lists that are not empty, without the last list, which holds
//!   the due entries.
//! * A picked chunk is in no ring. The pick counts as one of its entries, so that no other list
//!   reuses the chunk while its old contents may still be looked up.

use tidegate_core::internal::prefetch;

use super::bits::Bits;
use super::pages::{Cell, Pages};

/// Number of positions in a chunk.
pub(super) const ITEMS: usize = 1 << SHIFT;

const SHIFT: u32 = 5;

/// Chunks per page.
const CHUNKS: usize = 128;

/// Marks an unused position, or no chunk.
const NONE: u32 = u32::MAX;

/// Replaces the list number in the link of a picked chunk.
const PICKED: u32 = u32::MAX;

/// The place of an entry: a chunk and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    /// No place.
    pub(super) const NOWHERE: Self = Self(u32::MAX);

    #[inline]
    fn new(chunk: u32, at: u32) -> Self {
        Self(chunk << SHIFT | at)
    }

    #[inline]
    fn chunk(self) -> u32 {
        self.0 >> SHIFT
    }
}

/// The maximum number of chunks: a place has 27 bits for the chunk number.
pub(super) const MAX_CHUNKS: usize = 1 << (u32::BITS - SHIFT);

#[derive(Debug)]
pub(super) struct Lists {
    heads: Box<[Head]>,
    chunks: Pages<Chunk, CHUNKS>,
    /// Number of entries in each chunk that are not stale.
    counts: Vec<u8>,
    /// The previous and the next chunk of each chunk.
    links: Vec<Link>,
    occupied: Bits,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    tail: u32,
    /// Number of assigned positions in `tail`.
    end: u32,
}

const EMPTY: Head = Head {
    tail: NONE,
    end: ITEMS as u32,
};

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The chunk after this one; after the newest comes the oldest.
    next: u32,
    prev: u32,
    list: u32,
}

/// Two cache lines of entry numbers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Chunk {
    items: [u32; ITEMS],
}

impl Cell for Chunk {
    fn free(_generation: u32, next: u16) -> Self {
        let mut items = [NONE; ITEMS];
        items[0] = u32::from(next);
        Self { items }
    }

    #[inline]
    fn next_free(&self) -> u16 {
        self.items[0] as u16
    }

    #[inline]
    fn link_free(&mut self, next: u16) -> bool {
        self.items[0] = u32::from(next);
        true
    }

    /// Always the same: no key refers to a chunk after it was freed.
    fn generation(&self) -> u32 {
        1
    }
}

impl Chunk {
    /// Prefetches the memory of the chunk.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(&self.items[0]);
        prefetch(&self.items[ITEMS / 2]);
    }

    /// Returns the entry numbers, oldest first. Some may be stale.
    #[inline]
    pub(super) fn entries(&self) -> impl Iterator<Item = u32> + '_ {
        self.items.iter().copied().filter(|&entry| entry != NONE)
    }

    /// Returns the entry numbers with their places. `number` is the number of this chunk.
    #[inline]
    pub(super) fn places(&self, number: u32) -> impl Iterator<Item = (Place, u32)> + '_ {
        let items = (0..).zip(self.items.iter().copied());
        items
            .filter(|&(_, entry)| entry != NONE)
            .map(move |(at, entry)| (Place::new(number, at), entry))
    }
}

impl Lists {
    /// Creates `count` lists that [`Lists::first`] finds in order, and the list of due entries.
    pub(super) fn new(count: usize) -> Self {
        Self {
            heads: vec![EMPTY; count + 1].into_boxed_slice(),
            chunks: Pages::new(1),
            counts: Vec::new(),
            links: Vec::new(),
            occupied: Bits::new(count),
        }
    }

    /// Returns the last list, which holds the due entries.
    #[inline]
    pub(super) fn due_list(&self) -> usize {
        self.heads.len() - 1
    }

    #[inline]
    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.heads[list].tail == NONE
    }

    /// Returns the first list that is not empty: the list of due entries, or else the lowest one.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        if self.is_empty(self.due_list()) {
            self.occupied.first()
        } else {
            Some(self.due_list())
        }
    }

    /// Appends an entry to a list and returns its place.
    #[inline(always)]
    pub(super) fn append(&mut self, list: usize, entry: u32) -> Place {
        if self.heads[list].end == ITEMS as u32 {
            self.append_chunk(list);
        }
        let head = &mut self.heads[list];
        let (number, at) = (head.tail, head.end);
        head.end += 1;
        self.counts[number as usize] += 1;
        self.chunk_mut(number).items[at as usize % ITEMS] = entry;
        Place::new(number, at)
    }

    /// Removes the entry at a place from its list.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) {
        let number = place.chunk();
        let count = &mut self.counts[number as usize];
        *count -= 1;
        if *count == 0 {
            self.free_empty_chunk(number);
        }
    }

    /// Removes the oldest chunk from a list that is not empty. Its entries keep their places. The
    /// chunk is freed when its last entry was removed and it was [released](Self::release_picked).
    #[inline]
    pub(super) fn pick(&mut self, list: usize) -> (u32, &Chunk) {
        let number = self.oldest(list).expect("there is something in the list");
        self.unlink_chunk(number);
        self.links[number as usize].list = PICKED;
        self.counts[number as usize] += 1;
        (number, self.chunk(number))
    }

    /// Releases a picked chunk.
    pub(super) fn release_picked(&mut self, chunk: u32) {
        self.remove(Place::new(chunk, 0));
    }

    /// Removes all chunks from a list; [`Lists::take_chunk`] returns them one by one.
    pub(super) fn detach(&mut self, list: usize) -> Ring {
        let next = self.oldest(list).unwrap_or(NONE);
        let last = std::mem::replace(&mut self.heads[list], EMPTY).tail;
        if list != self.due_list() {
            self.occupied.remove(list);
        }
        Ring { next, last }
    }

    /// Frees the oldest chunk of a detached ring and returns its number and a copy of its contents.
    pub(super) fn take_chunk(&mut self, ring: &mut Ring) -> Option<(u32, Chunk)> {
        let number = ring.next;
        if number == NONE {
            return None;
        }
        ring.next = self.along(ring, number);
        let chunk = *self.chunk(number);
        self.free(number);
        Some((number, chunk))
    }

    /// Returns the chunk that [`Lists::take_chunk`] returns next, and prefetches the one after it.
    pub(super) fn peek_chunk(&self, ring: &Ring) -> Option<&Chunk> {
        if ring.next == NONE {
            return None;
        }
        let after = self.along(ring, ring.next);
        if after != NONE {
            self.chunk(after).prefetch();
        }
        Some(self.chunk(ring.next))
    }

    /// Returns the chunk that follows `number` in a detached ring, or `NONE`.
    fn along(&self, ring: &Ring, number: u32) -> u32 {
        if number == ring.last {
            NONE
        } else {
            self.links[number as usize].next
        }
    }

    /// Returns at most `most` pages of chunks to the allocator.
    pub(super) fn trim(&mut self, most: usize) {
        self.chunks.trim(most);
        let cells = self.chunks.cells();
        if self.links.len() > 2 * cells {
            self.links.truncate(cells);
            self.links.shrink_to_fit();
            self.counts.truncate(cells);
            self.counts.shrink_to_fit();
        }
    }

    /// Returns the number of the chunk with the oldest entry of a list.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        let tail = self.heads[list].tail;
        (tail != NONE).then(|| self.after(tail))
    }

    /// Prefetches the oldest chunk of a list that is due soon.
    #[inline]
    pub(super) fn prefetch(&self, list: usize) {
        if list < self.due_list()
            && let Some(oldest) = self.oldest(list)
        {
            self.chunk(oldest).prefetch();
        }
    }

    #[inline]
    pub(super) fn chunk(&self, number: u32) -> &Chunk {
        self.chunks.get(number).expect("a linked chunk is live")
    }

    /// Returns the number of the chunk after this one.
    #[inline]
    pub(super) fn after(&self, number: u32) -> u32 {
        self.links[number as usize].next
    }

    #[inline]
    fn chunk_mut(&mut self, number: u32) -> &mut Chunk {
        self.chunks.get_mut(number).expect("a linked chunk is live")
    }

    /// Appends an empty chunk to a list. The caller fills it at once.
    #[cold]
    fn append_chunk(&mut self, list: usize) {
        let (number, chunk) = self.chunks.claim(0);
        chunk.items = [NONE; ITEMS];
        let link = Link {
            next: number,
            prev: number,
            list: list as u32,
        };
        let cells = self.chunks.cells();
        if self.links.len() < cells {
            self.links.resize(cells, link);
            self.counts.resize(cells, 0);
        }
        self.links[number as usize] = link;
        let head = Head {
            tail: number,
            end: 0,
        };
        let tail = std::mem::replace(&mut self.heads[list], head).tail;
        if tail != NONE {
            let oldest = self.after(tail);
            self.join(tail, number);
            self.join(number, oldest);
        } else if list != self.due_list() {
            self.occupied.insert(list);
        }
    }

    /// Frees a chunk that has become empty.
    #[cold]
    fn free_empty_chunk(&mut self, number: u32) {
        if self.links[number as usize].list != PICKED {
            self.unlink_chunk(number);
        }
        self.free(number);
    }

    /// Removes a chunk from its ring.
    fn unlink_chunk(&mut self, number: u32) {
        let Link { next, prev, list } = self.links[number as usize];
        let list = list as usize;
        if next == number {
            self.heads[list] = EMPTY;
            if list != self.due_list() {
                self.occupied.remove(list);
            }
        } else {
            self.join(prev, next);
            if self.heads[list].tail == number {
                let end = ITEMS as u32;
                self.heads[list] = Head { tail: prev, end };
            }
        }
    }

    fn join(&mut self, before: u32, after: u32) {
        self.links[before as usize].next = after;
        self.links[after as usize].prev = before;
    }

    fn free(&mut self, number: u32) {
        self.counts[number as usize] = 0;
        self.chunks.release(number);
    }

    /// Returns every place in use, with its list and entry. Checks the rings on the way.
    #[cfg(test)]
    pub(super) fn check(
        &self,
        picked: usize,
        is_there: impl Fn(u32, Place) -> bool,
    ) -> Vec<(Place, usize, u32)> {
        let mut places = Vec::new();
        let mut chunks = picked;
        for (list, head) in self.heads.iter().enumerate() {
            if list != self.due_list() {
                assert_eq!(self.occupied.contains(list), head.tail != NONE);
            }
            let mut number = self.oldest(list);
            while let Some(at) = number {
                let Link { next, list: of, .. } = self.links[at as usize];
                chunks += 1;
                assert_eq!(of as usize, list);
                assert_eq!(self.links[next as usize].prev, at);
                let before = places.len();
                let live = self
                    .chunk(at)
                    .places(at)
                    .filter(|&(place, entry)| is_there(entry, place));
                places.extend(live.map(|(place, entry)| (place, list, entry)));
                assert_eq!(places.len() - before, usize::from(self.counts[at as usize]));
                assert!(places.len() > before, "no linked chunk is empty");
                number = (at != head.tail).then_some(next);
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

/// Chunks that were removed from a list together and are still linked.
#[derive(Debug)]
pub(super) struct Ring {
    next: u32,
    last: u32,
}
