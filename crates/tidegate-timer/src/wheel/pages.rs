//! Cells in pages: numbered places that never move, with memory that comes and goes by page.
//!
//! A page is taken into use and filled before the next one, so what is added together lies
//! together, also after a million removals in random order: a single free list would by then
//! lead through the whole memory. Growing copies nothing.
//!
//! # Invariants
//!
//! * A page is on the list that starts at `roomy` exactly when it has a free cell.
//! * `used` pages have live cells; `idle` pages have memory and none.
//! * A pair (cell, generation) is given out once: `floor` of a page without memory is not
//!   below the generation of any cell that it had.

/// Cells per page.
pub(super) const CELLS: usize = 1 << SHIFT;

const SHIFT: u32 = 9;

/// Idle pages that are always kept.
pub(super) const KEPT: usize = 2;

/// The end of a page's list of free cells.
pub(super) const END: u16 = u16::MAX;

/// The end of the list of pages.
const NONE: u32 = u32::MAX;

/// A page is given back only up to this generation, so that what it has later starts with at
/// least half of the range left.
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
    pages: Vec<Page<C>>,
    /// The page to take the next cell from, or `NONE`. The last one that got a cell back comes
    /// first: its memory is likely to be near.
    roomy: u32,
    used: usize,
    idle: usize,
    /// Pages that were idle once, each at most once; some are in use again.
    resting: Vec<u32>,
}

#[derive(Debug)]
struct Page<C> {
    cells: Option<Box<[C; CELLS]>>,
    floor: u32,
    /// The next page with room.
    next: u32,
    /// The first free cell.
    free: u16,
    live: u16,
    /// Whether it is among `resting`.
    rests: bool,
}

impl<C: Cell> Pages<C> {
    pub(super) const fn new() -> Self {
        Self {
            pages: Vec::new(),
            roomy: NONE,
            used: 0,
            idle: 0,
            resting: Vec::new(),
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
        if page.live == 0 {
            self.used += 1;
            if page.cells.is_some() {
                self.idle -= 1;
            }
        }
        let cells = page.cells.get_or_insert_with(|| fresh_cells(page.floor));
        let place = page.free;
        let cell = &mut cells[place as usize % CELLS];
        page.free = cell.next_free();
        page.live += 1;
        if page.free == END {
            self.roomy = page.next;
        }
        (number << SHIFT | u32::from(place), cell)
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
        let cells = page.cells.as_mut().expect("a live cell has memory");
        let place = index as usize % CELLS;
        let (generation, result) = free(&mut cells[place], page.free);
        if let Some(generation) = generation {
            page.floor = page.floor.max(generation);
            if page.free == END {
                page.next = self.roomy;
                self.roomy = number;
            }
            page.free = place as u16;
        } else {
            page.floor = u32::MAX;
        }
        page.live -= 1;
        if page.live == 0 {
            self.rest(number);
        }
        result
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&C> {
        let page = self.pages.get((index >> SHIFT) as usize)?;
        Some(&page.cells.as_ref()?[index as usize % CELLS])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut C> {
        let page = self.pages.get_mut((index >> SHIFT) as usize)?;
        Some(&mut page.cells.as_mut()?[index as usize % CELLS])
    }

    /// Pages that have memory.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> usize {
        self.pages
            .iter()
            .filter(|page| page.cells.is_some())
            .count()
    }

    #[cfg(test)]
    pub(super) fn check(&self, live: usize) {
        let sum: usize = self.pages.iter().map(|page| page.live as usize).sum();
        assert_eq!(sum, live);
        let used = self.pages.iter().filter(|page| page.live > 0).count();
        assert_eq!((used, self.in_memory()), (self.used, self.used + self.idle));
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

    /// Gives back at most `most` pages, as long as more lie idle than are in use.
    ///
    /// Apart from taking cells back, since an allocator may take its time over a large block.
    pub(super) fn trim(&mut self, most: usize) {
        for _ in 0..most {
            if self.idle <= self.used + KEPT {
                return;
            }
            let Some(number) = self.resting.pop() else {
                return;
            };
            let page = &mut self.pages[number as usize];
            page.rests = false;
            if page.live == 0 && page.floor <= OLD {
                page.cells = None;
                page.free = 0;
                self.idle -= 1;
            }
        }
    }

    /// A page has no live cell any more.
    #[cold]
    fn rest(&mut self, number: u32) {
        self.used -= 1;
        self.idle += 1;
        let page = &mut self.pages[number as usize];
        if !page.rests {
            page.rests = true;
            self.resting.push(number);
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.roomy = self.pages.len() as u32;
        // Now, so that taking cells back never allocates.
        self.resting
            .reserve(self.pages.len() + 1 - self.resting.len());
        self.pages.push(Page {
            cells: None,
            floor: 1,
            next: NONE,
            free: 0,
            live: 0,
            rests: false,
        });
    }
}

/// A page of free cells, in rising order.
#[cold]
fn fresh_cells<C: Cell>(generation: u32) -> Box<[C; CELLS]> {
    let next = |place: usize| {
        if place + 1 == CELLS {
            END
        } else {
            place as u16 + 1
        }
    };
    let cells: Box<[C]> = (0..CELLS)
        .map(|place| C::free(generation, next(place)))
        .collect();
    let Ok(cells) = cells.try_into() else {
        unreachable!("as many cells were made as a page has")
    };
    cells
}
