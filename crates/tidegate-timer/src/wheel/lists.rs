//! The lists of a wheel: which entries hang in which slot.
//!
//! A list is a ring of chunks, and a chunk is two cache lines with up to 32 numbers of entries. An
//! entry knows its place (chunk and position). Adding one writes its number behind the last, a
//! plain store into a line that nobody has to wait for. Taking one out does not touch the chunk at
//! all: the number stays, and is stale because its entry is not at that place any more.
//!
//! What has to be read to go along a ring lies apart: one byte per chunk with how many of its
//! numbers are not stale, and its neighbours. Both stay in the nearer caches, so an empty chunk
//! leaves its ring without a wait, and chunks can be asked for well before they are needed.
//!
//! # Invariants
//!
//! * `tail` of a list is its newest chunk, whose `next` is the oldest, or `NONE`.
//! * `counts` has the numbers in each chunk that are not stale. A chunk without any is in no ring.
//! * A position is given out once while its chunk is in a ring, so an entry that says it is there
//!   is the one that was put there.
//! * `occupied` has exactly the lists that are not empty, except the last one: what is ripe.
//! * A picked chunk is in no ring. Who picked it counts as one of its numbers, so that no other
//!   list gets it while somebody may still look for what was in it.

use tidegate_core::prefetch;

use super::bits::Bits;
use super::pages::{Cell, Pages};

/// Positions in a chunk.
pub(super) const ITEMS: usize = 1 << SHIFT;

const SHIFT: u32 = 5;

/// Chunks per page.
const CHUNKS: usize = 128;

/// A hole, or no chunk.
const NONE: u32 = u32::MAX;

/// In place of its list for a chunk that was picked.
const PICKED: u32 = u32::MAX;

/// Where an entry hangs: a chunk and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    /// Stands for no place.
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

/// The most chunks: a place has 27 bits for the number of its chunk.
pub(super) const MAX_CHUNKS: usize = 1 << (u32::BITS - SHIFT);

#[derive(Debug)]
pub(super) struct Lists {
    heads: Box<[Head]>,
    chunks: Pages<Chunk, CHUNKS>,
    /// Entries in each chunk.
    counts: Vec<u8>,
    /// The neighbours of each chunk.
    links: Vec<Link>,
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

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The chunk after this one, the oldest after the newest.
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
    fn go_before(&mut self, next: u16) -> bool {
        self.items[0] = u32::from(next);
        true
    }

    /// Nobody keeps the number of a chunk beyond its life.
    fn generation(&self) -> u32 {
        1
    }
}

impl Chunk {
    /// Asks for its memory.
    #[inline]
    pub(super) fn ask_for(&self) {
        prefetch(&self.items[0]);
        prefetch(&self.items[ITEMS / 2]);
    }

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
            .map(move |(at, entry)| (Place::new(number, at), entry))
    }
}

impl Lists {
    /// `count` lists that can be found by [`Lists::first`], and one more.
    pub(super) fn new(count: usize) -> Self {
        Self {
            heads: vec![EMPTY; count + 1].into_boxed_slice(),
            chunks: Pages::new(1),
            counts: Vec::new(),
            links: Vec::new(),
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

    /// The list that comes first of those that are not empty: what is ripe, or else the lowest.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        if self.is_empty(self.ripe()) {
            self.occupied.first()
        } else {
            Some(self.ripe())
        }
    }

    /// Hangs an entry behind all others of a list.
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

    /// Takes the entry at a place out of whatever list it hangs in.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) {
        let number = place.chunk();
        let count = &mut self.counts[number as usize];
        *count -= 1;
        if *count == 0 {
            self.unlink(number);
        }
    }

    /// Takes the oldest chunk out of a list that is not empty. Its entries keep their places. It
    /// is free when the last of them was removed and it was [let go](Self::let_go).
    #[inline]
    pub(super) fn pick(&mut self, list: usize) -> (u32, &Chunk) {
        let number = self.oldest(list).expect("there is something in the list");
        self.unhang(number);
        self.links[number as usize].list = PICKED;
        self.counts[number as usize] += 1;
        (number, self.chunk(number))
    }

    /// Lets a picked chunk go.
    pub(super) fn let_go(&mut self, chunk: u32) {
        self.remove(Place::new(chunk, 0));
    }

    /// Takes all chunks out of a list; they are given out by [`Lists::take_chunk`].
    pub(super) fn detach(&mut self, list: usize) -> Ring {
        let next = self.oldest(list).unwrap_or(NONE);
        let last = std::mem::replace(&mut self.heads[list], EMPTY).tail;
        if list != self.ripe() {
            self.occupied.remove(list);
        }
        Ring { next, last }
    }

    /// Frees the oldest chunk of a detached ring and answers its number and what was in it.
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

    /// The chunk that [`Lists::take_chunk`] gives next; asks for the memory of the one after it.
    pub(super) fn peek_chunk(&self, ring: &Ring) -> Option<&Chunk> {
        if ring.next == NONE {
            return None;
        }
        let after = self.along(ring, ring.next);
        if after != NONE {
            self.chunk(after).ask_for();
        }
        Some(self.chunk(ring.next))
    }

    /// The chunk after one of a detached ring, or `NONE`.
    fn along(&self, ring: &Ring, number: u32) -> u32 {
        if number == ring.last {
            NONE
        } else {
            self.links[number as usize].next
        }
    }

    /// Gives back at most `most` pages of chunks.
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

    /// The chunk with the oldest entry of a list, by number.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        let tail = self.heads[list].tail;
        (tail != NONE).then(|| self.after(tail))
    }

    /// Asks for the memory of a list that comes soon: its oldest chunk.
    #[inline]
    pub(super) fn ask_for(&self, list: usize) {
        if list < self.ripe()
            && let Some(oldest) = self.oldest(list)
        {
            self.chunk(oldest).ask_for();
        }
    }

    #[inline]
    pub(super) fn chunk(&self, number: u32) -> &Chunk {
        self.chunks.get(number).expect("a linked chunk is live")
    }

    /// The chunk after this one, by number.
    #[inline]
    pub(super) fn after(&self, number: u32) -> u32 {
        self.links[number as usize].next
    }

    #[inline]
    fn chunk_mut(&mut self, number: u32) -> &mut Chunk {
        self.chunks.get_mut(number).expect("a linked chunk is live")
    }

    /// Hangs a chunk behind a list, to be filled at once.
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
        } else if list != self.ripe() {
            self.occupied.insert(list);
        }
    }

    /// Frees a chunk that has become empty.
    #[cold]
    fn unlink(&mut self, number: u32) {
        if self.links[number as usize].list != PICKED {
            self.unhang(number);
        }
        self.free(number);
    }

    /// Takes a chunk out of its ring.
    fn unhang(&mut self, number: u32) {
        let Link { next, prev, list } = self.links[number as usize];
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
    }

    fn join(&mut self, before: u32, after: u32) {
        self.links[before as usize].next = after;
        self.links[after as usize].prev = before;
    }

    fn free(&mut self, number: u32) {
        self.counts[number as usize] = 0;
        self.chunks.release(number);
    }

    /// Every place in use, with its list and entry; checks the rings on the way.
    #[cfg(test)]
    pub(super) fn check(
        &self,
        picked: usize,
        is_there: impl Fn(u32, Place) -> bool,
    ) -> Vec<(Place, usize, u32)> {
        let mut places = Vec::new();
        let mut chunks = picked;
        for (list, head) in self.heads.iter().enumerate() {
            if list != self.ripe() {
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

/// Chunks that were taken out of a list and are still linked.
#[derive(Debug)]
pub(super) struct Ring {
    next: u32,
    last: u32,
}
