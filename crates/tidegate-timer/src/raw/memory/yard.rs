//! Where arrays lie that are many and used at random: close together, on large pages of the system.
//!
//! Memory that is used at random costs two waits: one for the page table, one for the memory
//! itself. An allocator puts arrays of some kilobytes wherever it has room, so a thousand of them
//! need a thousand entries of the page table's cache and more. A yard gets its memory in blocks of
//! [`LARGE`](super::pages::LARGE) bytes and asks the system to back each by one large page.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::pages::{LARGE, prefer_large};

/// So many plots have a block each: who needs few should not pay for a large one.
pub(super) const SINGLE: usize = 64;

/// Makes [`Plot`]s that lie together. The first 64 lie where the allocator puts them.
///
/// # Examples
///
/// ```
/// use tidegate_timer::raw::Yard;
///
/// let mut yard = Yard::<u64, 512>::new();
/// let mut plot = yard.plot(|place| place as u64);
/// plot[3] += 1;
/// assert_eq!((plot[3], plot[511]), (4, 511));
/// ```
pub struct Yard<T, const N: usize> {
    /// The block that plots are made of, and how many were.
    open: Option<(Arc<Block>, usize)>,
    made: usize,
    _cells: PhantomData<T>,
}

/// An array of `N`, like a box of one. Its memory is free when all plots of its block are.
pub struct Plot<T, const N: usize> {
    cells: NonNull<[T; N]>,
    _cells: PhantomData<[T; N]>,
}

/// Memory for a number of plots, of which nobody knows what is in it.
struct Block {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns memory and does nothing with it but give it back.
unsafe impl Send for Block {}

// SAFETY: through a shared reference nothing but the address can be read.
unsafe impl Sync for Block {}

// SAFETY: it owns its cells as a box does; the count of the block in front of them is atomic.
unsafe impl<T: Send, const N: usize> Send for Plot<T, N> {}

// SAFETY: through a shared reference the cells can be read and nothing else.
unsafe impl<T: Sync, const N: usize> Sync for Plot<T, N> {}

impl Block {
    fn new(layout: Layout) -> Self {
        // SAFETY: the layout of one plot or more is not empty.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        if layout.align() == LARGE {
            prefer_large(memory, layout.size());
        }
        Self { memory, layout }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` got it with this layout, and nobody has a plot in it any more.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl<T, const N: usize> Yard<T, N> {
    /// A plot: the count of its block, then its cells, as far from each other as both need.
    const PLOT: (Layout, usize) = {
        let cells = Layout::new::<[T; N]>();
        let Ok(cells) = cells.align_to(64) else {
            panic!("no type is aligned to more than an address can be")
        };
        match Layout::new::<Arc<Block>>().extend(cells) {
            Ok((plot, at)) => (plot.pad_to_align(), at),
            Err(_) => panic!("a plot has to fit into memory"),
        }
    };

    /// How many of them a large block holds; none that one is too small for.
    pub(super) const MANY: usize = LARGE / Self::PLOT.0.size();

    /// A yard without any memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            open: None,
            made: 0,
            _cells: PhantomData,
        }
    }

    /// Makes a plot, filled in rising order by what `cell` answers.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut yard = tidegate_timer::raw::Yard::<String, 4>::new();
    /// let plot = yard.plot(|place| format!("number {place}"));
    /// assert_eq!(plot[2], "number 2");
    /// ```
    pub fn plot(&mut self, mut cell: impl FnMut(usize) -> T) -> Plot<T, N> {
        let (block, at) = self.room();
        let (layout, cells_at) = Self::PLOT;
        // SAFETY: `room` answers a place that the block has room for.
        let plot = unsafe { block.memory.add(at * layout.size()) };
        // SAFETY: the cells lie behind the count, within the plot.
        let cells = unsafe { plot.add(cells_at) };
        let mut room = cells.cast::<[MaybeUninit<T>; N]>();
        // SAFETY: it is aligned, nobody else has this place, and it may hold anything.
        let room = unsafe { room.as_mut() };
        for (place, room) in room.iter_mut().enumerate() {
            // If this unwinds, what was made so far stays undropped; nobody was told of it.
            room.write(cell(place));
        }
        // SAFETY: it is aligned and within the plot, and what was there needs no drop.
        unsafe { plot.cast().write(block) };
        Plot {
            cells: cells.cast(),
            _cells: PhantomData,
        }
    }

    /// Gives memory back that was got for plots to come, if none of its block is left; the next
    /// ones lie for themselves again.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut yard = tidegate_timer::raw::Yard::<[u64; 8], 512>::new();
    /// let plots: Vec<_> = (0..65).map(|_| yard.plot(|_| [0; 8])).collect();
    /// drop(plots);
    /// yard.trim();
    /// ```
    pub fn trim(&mut self) {
        if let Some((block, _)) = &mut self.open
            && Arc::get_mut(block).is_some()
        {
            (self.open, self.made) = (None, 0);
        }
    }

    /// A block and a place in it that nobody has.
    fn room(&mut self) -> (Arc<Block>, usize) {
        if let Some((block, used)) = &mut self.open {
            if Arc::get_mut(block).is_some() {
                // All plots of it have gone.
                *used = 0;
            }
            if *used < Self::MANY {
                *used += 1;
                return (Arc::clone(block), *used - 1);
            }
        }
        self.made += 1;
        if self.made <= SINGLE || Self::MANY < 2 {
            return (Arc::new(Block::new(Self::PLOT.0)), 0);
        }
        let large = Layout::from_size_align(LARGE, LARGE).expect("a power of two");
        let block = Arc::new(Block::new(large));
        self.open = Some((Arc::clone(&block), 1));
        (block, 0)
    }
}

impl<T, const N: usize> Default for Yard<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> fmt::Debug for Yard<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yard").finish_non_exhaustive()
    }
}

impl<T, const N: usize> Deref for Plot<T, N> {
    type Target = [T; N];

    #[inline]
    fn deref(&self) -> &[T; N] {
        // SAFETY: the cells are initialised and this plot's alone.
        unsafe { self.cells.as_ref() }
    }
}

impl<T, const N: usize> DerefMut for Plot<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T; N] {
        // SAFETY: as in `deref`, and nobody else borrows it.
        unsafe { self.cells.as_mut() }
    }
}

impl<T, const N: usize> Drop for Plot<T, N> {
    fn drop(&mut self) {
        let before = Yard::<T, N>::PLOT.1;
        // SAFETY: the plot begins so far before its cells.
        let count = unsafe { self.cells.cast::<u8>().sub(before) };
        // SAFETY: `plot` wrote it there, and it is read this once. It gives the memory back at the
        // end, also when a cell's drop unwinds.
        let _block = unsafe { count.cast::<Arc<Block>>().read() };
        // SAFETY: initialised, and nobody uses them after this.
        unsafe { self.cells.drop_in_place() };
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for Plot<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().collect::<Vec<_>>().fmt(f)
    }
}
