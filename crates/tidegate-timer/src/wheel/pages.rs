//! Numbered cells, allocated page by page.
//!
//! A page is filled before the next one is opened, so cells that are claimed together lie together,
//! even after a million removals in random order. A single free list would by then lead through the
//! whole memory. The caller passes a group when it claims a cell, and each group fills a page of
//! its own: so cells that are used together also lie together. Pages do not move, so growing costs
//! the same for any number of pages.
//!
//! # Invariants
//!
//! * A page is open for one group, or roomy, or shut. A shut page has few free cells or none.
//! * The roomy pages are on the list that starts at `roomy`. A page without live cells is roomy,
//!   unless the generations of its cells are used up.
//! * `used` is the number of pages with live cells.
//! * A pair (cell, generation) is assigned once: `floor` is not below the generation of any cell of
//!   a page that was returned to the allocator.

use crate::key::MAX_RETURNED_GENERATION;
use crate::raw::{ArenaArray, HugePageArena};

/// Number of empty pages that are always kept.
pub(super) const KEPT: usize = 2;

/// Marks the end of a page's free list.
pub(super) const END: u16 = u16::MAX;

/// Marks the end of the list of roomy pages; also stands for no page.
const NONE: u32 = u32::MAX;

/// Replaces the next roomy page in a shut page.
const SHUT: u32 = u32::MAX - 1;

/// Replaces the next roomy page in an open page, combined with the group.
const OPEN: u32 = 1 << 31;

/// One cell of a page.
pub(super) trait Cell: Sized {
    /// Creates a free cell.
    fn free(generation: u32, next: u16) -> Self;

    /// Returns the free cell after this one. This cell must be free.
    fn next_free(&self) -> u16;

    /// Links this free cell before the free cell `next`. Returns `true` if the cell may be reused.
    fn link_free(&mut self, next: u16) -> bool;

    /// Returns the generation of the next value of a free cell.
    fn generation(&self) -> u32;
}

/// Pages of `CELLS` cells each; `CELLS` is a power of two.
#[derive(Debug)]
pub(super) struct Pages<C, const CELLS: usize> {
    pages: Vec<Page<C, CELLS>>,
    arena: HugePageArena<C, CELLS>,
    /// The page that each group is filling, or `NONE`.
    open: Box<[u32]>,
    /// The page that is opened next, or `NONE`. The page that last became roomy comes first: its
    /// memory is probably still in cache.
    roomy: u32,
    used: usize,
    /// The generation of newly created cells.
    floor: u32,
}

/// One page. It takes sixteen bytes, so that the page headers of a million cells fit into the
/// nearest cache.
#[derive(Debug)]
struct Page<C, const CELLS: usize> {
    cells: ArenaArray<C, CELLS>,
    /// The next roomy page, or `SHUT`, or `OPEN` and the group.
    next: u32,
    /// The first free cell.
    free: u16,
    live: u16,
}

impl<C: Cell, const CELLS: usize> Pages<C, CELLS> {
    const SHIFT: u32 = CELLS.trailing_zeros();

    /// The maximum number of live cells of a roomy page. With fewer free cells, opening it is not
    /// worth it.
    const ROOMY: u16 = (CELLS - CELLS / 8) as u16;

    pub(super) fn new(groups: usize) -> Self {
        Self {
            pages: Vec::new(),
            arena: HugePageArena::new(),
            open: vec![NONE; groups].into_boxed_slice(),
            roomy: NONE,
            used: 0,
            floor: 1,
        }
    }

    /// Claims a free cell, which is still in the state that [`Cell::free`] created or
    /// [`release`](Self::release) left.
    #[inline]
    pub(super) fn claim(&mut self, group: usize) -> (u32, &mut C) {
        let mut number = self.open[group];
        if number == NONE {
            number = self.open(group);
        }
        let page = &mut self.pages[number as usize];
        let place = page.free;
        let cell = &mut page.cells[usize::from(place) % CELLS];
        page.free = cell.next_free();
        page.live += 1;
        if page.free == END {
            page.next = SHUT;
            self.open[group] = NONE;
        }
        (number << Self::SHIFT | u32::from(place), cell)
    }

    /// Takes back a claimed cell. The caller has already set it to the free state.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        let number = index >> Self::SHIFT;
        let place = index as usize % CELLS;
        let page = &mut self.pages[number as usize];
        if page.cells[place].link_free(page.free) {
            page.free = place as u16;
        }
        page.live -= 1;
        if page.live == 0 || page.next == SHUT && page.live <= Self::ROOMY {
            self.now_roomy(number);
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&C> {
        let page = self.pages.get((index >> Self::SHIFT) as usize)?;
        Some(&page.cells[index as usize % CELLS])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut C> {
        let page = self.pages.get_mut((index >> Self::SHIFT) as usize)?;
        Some(&mut page.cells[index as usize % CELLS])
    }

    /// Returns the number of cells.
    pub(super) fn cells(&self) -> usize {
        self.pages.len() * CELLS
    }

    /// Returns at most `most` pages after the last one in use to the allocator, as long as more
    /// pages are empty than in use.
    ///
    /// Separate from `release`, because the allocator may be slow.
    pub(super) fn trim(&mut self, most: usize) {
        let before = self.pages.len();
        while before - self.pages.len() < most
            && self.pages.len() > 2 * self.used + KEPT
            && let Some(page) = self.pages.last()
            && page.live == 0
            && let Some(oldest) = page.cells.iter().map(Cell::generation).max()
            && oldest <= MAX_RETURNED_GENERATION.get()
        {
            self.floor = self.floor.max(oldest);
            self.pages.pop();
        }
        if self.pages.len() == before {
            return;
        }
        self.arena.trim();
        if self.pages.capacity() >= 4 * self.pages.len() {
            self.pages.shrink_to(2 * self.pages.len());
        }
        // Ascending order, so that new cells fill the front and the tail can become empty.
        self.roomy = NONE;
        for (number, page) in self.pages.iter_mut().enumerate().rev() {
            if page.is_roomy() {
                page.next = self.roomy;
                self.roomy = number as u32;
            }
        }
    }

    /// Puts a page on the list of roomy pages.
    #[cold]
    fn now_roomy(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        self.used -= usize::from(page.live == 0);
        if page.is_roomy() {
            return;
        }
        if page.free == END {
            page.next = SHUT;
            return;
        }
        if page.next != SHUT {
            self.open[(page.next & !OPEN) as usize] = NONE;
        }
        page.next = self.roomy;
        self.roomy = number;
    }

    /// Opens a page for a group.
    #[cold]
    fn open(&mut self, group: usize) -> u32 {
        if self.roomy == NONE {
            self.grow();
        }
        let number = self.roomy;
        let page = &mut self.pages[number as usize];
        self.roomy = page.next;
        self.used += usize::from(page.live == 0);
        page.next = OPEN | group as u32;
        self.open[group] = number;
        number
    }

    /// Returns the number of pages.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> usize {
        self.pages.len()
    }

    #[cfg(test)]
    pub(super) fn check(&self, live: usize) {
        let sum: usize = self.pages.iter().map(|page| page.live as usize).sum();
        assert_eq!(sum, live);
        let used = self.pages.iter().filter(|page| page.live > 0).count();
        assert_eq!(used, self.used);
        let mut listed = vec![false; self.pages.len()];
        let mut next = self.roomy;
        while next != NONE {
            assert!(!listed[next as usize], "a page is on the list once");
            listed[next as usize] = true;
            next = self.pages[next as usize].next;
        }
        for (page, listed) in self.pages.iter().zip(listed) {
            assert_eq!(page.is_roomy(), listed, "a roomy page is on the list");
            assert!(page.live > 0 || listed || page.free == END);
            assert!(page.next != SHUT || page.live > Self::ROOMY || page.free == END);
        }
        for (group, &number) in self.open.iter().enumerate() {
            if number != NONE {
                assert_eq!(self.pages[number as usize].next, OPEN | group as u32);
            }
        }
    }

    /// Creates a page of free cells, linked in ascending order.
    #[cold]
    fn grow(&mut self) {
        let floor = self.floor;
        let next = |place: usize| {
            if place + 1 == CELLS {
                END
            } else {
                place as u16 + 1
            }
        };
        let cells = self.arena.array(|place| C::free(floor, next(place)));
        self.roomy = self.pages.len() as u32;
        self.pages.push(Page {
            cells,
            next: NONE,
            free: 0,
            live: 0,
        });
    }
}

impl<C, const CELLS: usize> Page<C, CELLS> {
    fn is_roomy(&self) -> bool {
        self.next == NONE || self.next < OPEN
    }
}
