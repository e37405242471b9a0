//! Cells by number, handed out page by page.
//!
//! The cells are one array; a page is a stretch of it with a free list of its own. A page is
//! filled before the next one is looked at, so what is added together lies together, also after
//! a million removals in random order: a single free list would by then lead through the whole
//! memory.
//!
//! # Invariants
//!
//! * There are as many cells as the pages have.
//! * A page is on the list that starts at `roomy` exactly when it has a free cell.
//! * `used` pages have live cells.
//! * A pair (cell, generation) is given out once: `floor` is not below the generation of any cell
//!   of a page that was given back.

/// Cells per page.
pub(super) const CELLS: usize = 1 << SHIFT;

const SHIFT: u32 = 9;

/// Idle pages that are always kept.
pub(super) const KEPT: usize = 2;

/// The end of a page's list of free cells.
pub(super) const END: u16 = u16::MAX;

/// The end of the list of pages.
const NONE: u32 = u32::MAX;

/// A page is given back only up to this generation, so that `floor` leaves every new page at
/// least half of the range.
pub(super) const OLD: u32 = 1 << 31;

/// What lies in a page.
pub(super) trait Cell {
    /// A free cell.
    fn free(generation: u32, next: u16) -> Self;

    /// The free cell after this one, when this one is free.
    fn next_free(&self) -> u16;
}

#[derive(Debug)]
pub(super) struct Pages<C> {
    cells: Vec<C>,
    pages: Vec<Page>,
    /// The page to take the next cell from, or `NONE`. The last one that got a cell back comes
    /// first: its memory is likely to be near.
    roomy: u32,
    used: usize,
    /// The generation of cells that did not exist before.
    floor: u32,
}

#[derive(Debug)]
struct Page {
    /// The highest generation of a cell that was taken back.
    oldest: u32,
    /// The next page with room.
    next: u32,
    /// The first free cell.
    free: u16,
    live: u16,
}

impl<C: Cell> Pages<C> {
    pub(super) const fn new() -> Self {
        Self {
            cells: Vec::new(),
            pages: Vec::new(),
            roomy: NONE,
            used: 0,
            floor: 1,
        }
    }

    /// Takes a free cell, which is still as [`Cell::free`] made it.
    #[inline]
    pub(super) fn claim(&mut self) -> (u32, &mut C) {
        if self.roomy == NONE {
            self.grow();
        }
        let number = self.roomy;
        let page = &mut self.pages[number as usize];
        self.used += usize::from(page.live == 0);
        let index = number << SHIFT | u32::from(page.free);
        let cell = &mut self.cells[index as usize];
        page.free = cell.next_free();
        page.live += 1;
        if page.free == END {
            self.roomy = page.next;
        }
        (index, cell)
    }

    /// Takes a live cell back. `free` makes it a free one in front of the given cell and
    /// answers its generation, or `None` when it must not be used again.
    #[inline]
    pub(super) fn release<R>(
        &mut self,
        index: u32,
        free: impl FnOnce(&mut C, u16) -> (Option<u32>, R),
    ) -> R {
        let number = index >> SHIFT;
        let page = &mut self.pages[number as usize];
        let (generation, result) = free(&mut self.cells[index as usize], page.free);
        if let Some(generation) = generation {
            page.oldest = page.oldest.max(generation);
            if page.free == END {
                page.next = self.roomy;
                self.roomy = number;
            }
            page.free = index as u16 % CELLS as u16;
        } else {
            page.oldest = u32::MAX;
        }
        page.live -= 1;
        self.used -= usize::from(page.live == 0);
        result
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&C> {
        self.cells.get(index as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut C> {
        self.cells.get_mut(index as usize)
    }

    /// Gives back at most `most` pages behind the last one in use, as long as more lie idle than
    /// are in use.
    ///
    /// Apart from taking cells back, since an allocator may take its time over a large block.
    pub(super) fn trim(&mut self, most: usize) {
        let before = self.pages.len();
        while before - self.pages.len() < most
            && self.pages.len() > 2 * self.used + KEPT
            && let Some(page) = self
                .pages
                .pop_if(|page| page.live == 0 && page.oldest <= OLD)
        {
            self.floor = self.floor.max(page.oldest);
        }
        if self.pages.len() == before {
            return;
        }
        let cells = self.pages.len() * CELLS;
        self.cells.truncate(cells);
        if self.cells.capacity() >= 2 * cells {
            self.cells.shrink_to(cells);
        }
        // Rising, so that new cells gather at the front and the tail can empty.
        self.roomy = NONE;
        for (number, page) in self.pages.iter_mut().enumerate().rev() {
            if page.free != END {
                page.next = self.roomy;
                self.roomy = number as u32;
            }
        }
    }

    /// How many pages there are.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> usize {
        self.pages.len()
    }

    #[cfg(test)]
    pub(super) fn check(&self, live: usize) {
        assert_eq!(self.cells.len(), self.pages.len() * CELLS);
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
            assert_eq!(page.free != END, listed, "a page with room is on the list");
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
        let fresh = (0..CELLS).map(|place| C::free(floor, next(place)));
        self.cells.extend(fresh);
        self.roomy = self.pages.len() as u32;
        self.pages.push(Page {
            oldest: floor,
            next: NONE,
            free: 0,
            live: 0,
        });
    }
}
