//! Cells by number, handed out page by page.
//!
//! A page is filled before the next one is looked at, so what is added together lies together,
//! also after a million removals in random order: a single free list would by then lead through
//! the whole memory. Who takes cells says for which group, and each group fills a page of its own:
//! what will be used together lies together too. Pages do not move: growing costs the same
//! however many there are.
//!
//! # Invariants
//!
//! * A page is open for one group, or roomy, or shut. A shut one has few free cells or none.
//! * The roomy pages are on the list that starts at `roomy`; a page without live cells is one of
//!   them, unless its cells are used up.
//! * `used` pages have live cells.
//! * A pair (cell, generation) is given out once: `floor` is not below the generation of any cell
//!   of a page that was given back.

use crate::key::OLD;
use crate::raw::{Plot, Yard};

/// Idle pages that are always kept.
pub(super) const KEPT: usize = 2;

/// The end of a page's list of free cells.
pub(super) const END: u16 = u16::MAX;

/// The end of the list of roomy pages, and no page.
const NONE: u32 = u32::MAX;

/// In place of the next roomy page.
const SHUT: u32 = u32::MAX - 1;

/// In place of the next roomy page, together with the group.
const OPEN: u32 = 1 << 31;

/// What lies in a page.
pub(super) trait Cell: Sized {
    /// A free cell.
    fn free(generation: u32, next: u16) -> Self;

    /// The free cell after this one, when this one is free.
    fn next_free(&self) -> u16;

    /// Puts this free cell in front of another one; answers whether it may be used again.
    fn go_before(&mut self, next: u16) -> bool;

    /// The generation that the next value of a free cell has.
    fn generation(&self) -> u32;
}

/// `CELLS` of them per page, a power of two.
#[derive(Debug)]
pub(super) struct Pages<C, const CELLS: usize> {
    pages: Vec<Page<C, CELLS>>,
    yard: Yard<C, CELLS>,
    /// The page that each group fills, or `NONE`.
    open: Box<[u32]>,
    /// The page that is opened next, or `NONE`. The last one that got a cell back comes first:
    /// its memory is likely to be near.
    roomy: u32,
    used: usize,
    /// The generation of cells that did not exist before.
    floor: u32,
}

/// Sixteen bytes, so that those of a million cells fit into the nearest cache.
#[derive(Debug)]
struct Page<C, const CELLS: usize> {
    cells: Plot<C, CELLS>,
    /// The next roomy page, or `SHUT`, or `OPEN` and the group.
    next: u32,
    /// The first free cell.
    free: u16,
    live: u16,
}

impl<C: Cell, const CELLS: usize> Pages<C, CELLS> {
    const SHIFT: u32 = CELLS.trailing_zeros();

    /// How many cells of a roomy page are live at most: opening one is worth it.
    const ROOMY: u16 = (CELLS - CELLS / 8) as u16;

    pub(super) fn new(groups: usize) -> Self {
        Self {
            pages: Vec::new(),
            yard: Yard::new(),
            open: vec![NONE; groups].into_boxed_slice(),
            roomy: NONE,
            used: 0,
            floor: 1,
        }
    }

    /// Takes a free cell, which is still as [`Cell::free`] made it.
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

    /// Takes back a cell that was claimed and is free again.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        let number = index >> Self::SHIFT;
        let place = index as usize % CELLS;
        let page = &mut self.pages[number as usize];
        if page.cells[place].go_before(page.free) {
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

    /// How many cells there are.
    pub(super) fn cells(&self) -> usize {
        self.pages.len() * CELLS
    }

    /// Gives back at most `most` pages behind the last one in use, as long as more lie idle than
    /// are in use.
    ///
    /// Apart from taking cells back, since an allocator may take its time over it.
    pub(super) fn trim(&mut self, most: usize) {
        let before = self.pages.len();
        while before - self.pages.len() < most
            && self.pages.len() > 2 * self.used + KEPT
            && let Some(page) = self.pages.last()
            && page.live == 0
            && let Some(oldest) = page.cells.iter().map(Cell::generation).max()
            && oldest <= OLD.get()
        {
            self.floor = self.floor.max(oldest);
            self.pages.pop();
        }
        if self.pages.len() == before {
            return;
        }
        self.yard.trim();
        if self.pages.capacity() >= 4 * self.pages.len() {
            self.pages.shrink_to(2 * self.pages.len());
        }
        // Rising, so that new cells gather at the front and the tail can empty.
        self.roomy = NONE;
        for (number, page) in self.pages.iter_mut().enumerate().rev() {
            if page.is_roomy() {
                page.next = self.roomy;
                self.roomy = number as u32;
            }
        }
    }

    /// Puts a page on the list of those with room.
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

    /// How many pages there are.
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

    /// Makes a page of free cells, in rising order.
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
        let cells = self.yard.plot(|place| C::free(floor, next(place)));
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
