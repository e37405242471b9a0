//! An arena for many arrays with random access: it places them close together, on huge pages.
//!
//! Random access to memory has two latencies: the page-table walk and the memory access itself. A
//! general allocator places arrays of some kilobytes wherever it has room, so a thousand of them
//! need a thousand TLB entries and more. The arena allocates its memory in blocks of
//! [`LARGE`](super::pages::LARGE) bytes and asks the kernel to back each block with one huge page.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::pages::{LARGE, prefer_large};

/// The first `SINGLE_ARRAYS` arrays get a block of their own, so that a small wheel does not
/// allocate a large block.
pub(super) const SINGLE_ARRAYS: usize = 64;

/// Allocates arrays ([`ArenaArray`]) that lie close together. The first 64 are allocated one by
/// one.
///
/// # Examples
///
/// ```
/// use tidegate_timer::internal::HugePageArena;
///
/// let mut arena = HugePageArena::<u64, 512>::new();
/// let mut array = arena.array(|place| place as u64);
/// array[3] += 1;
/// assert_eq!((array[3], array[511]), (4, 511));
/// ```
pub struct HugePageArena<T, const N: usize> {
    /// The block from which arrays are allocated, and the number of arrays allocated from it.
    open: Option<(Arc<Block>, usize)>,
    made: usize,
    _cells: PhantomData<T>,
}

/// An owned array of `N` values, like a `Box<[T; N]>`. Its memory is freed when all arrays of its
/// block are dropped and the arena no longer keeps the block for future arrays.
pub struct ArenaArray<T, const N: usize> {
    cells: NonNull<[T; N]>,
    _cells: PhantomData<[T; N]>,
}

/// Untyped memory for a number of arrays.
struct Block {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory and does nothing with it except free it.
unsafe impl Send for Block {}

// SAFETY: a shared reference gives access to the address only.
unsafe impl Sync for Block {}

// SAFETY: the array owns its cells as a `Box` does; the reference count of the block, which is
// stored before them, is atomic.
unsafe impl<T: Send, const N: usize> Send for ArenaArray<T, N> {}

// SAFETY: a shared reference allows only reads of the cells.
unsafe impl<T: Sync, const N: usize> Sync for ArenaArray<T, N> {}

impl Block {
    fn new(layout: Layout) -> Self {
        // SAFETY: the layout has room for at least one array and is not zero-sized.
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
        // SAFETY: `new` allocated the memory with this layout, and no array in it is left.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl<T, const N: usize> HugePageArena<T, N> {
    /// The layout of a plot, which is the memory of one array, and the offset of the cells in it. A
    /// plot begins with the `Arc` of its block.
    const ARRAY: (Layout, usize) = {
        let cells = Layout::new::<[T; N]>();
        let Ok(cells) = cells.align_to(64) else {
            panic!("no type is aligned to more than an address can be")
        };
        match Layout::new::<Arc<Block>>().extend(cells) {
            Ok((array, at)) => (array.pad_to_align(), at),
            Err(_) => panic!("an array has to fit into memory"),
        }
    };

    /// The number of arrays that fit into a large block; 0 if an array is larger than a block. If
    /// it is below 2, every array gets a block of its own.
    pub(super) const ARRAYS_PER_BLOCK: usize = LARGE / Self::ARRAY.0.size();

    /// Creates an arena without any memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            open: None,
            made: 0,
            _cells: PhantomData,
        }
    }

    /// Allocates an array and fills it with the results of `cell`, called with ascending indices.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut arena = tidegate_timer::internal::HugePageArena::<String, 4>::new();
    /// let array = arena.array(|place| format!("number {place}"));
    /// assert_eq!(array[2], "number 2");
    /// ```
    pub fn array(&mut self, mut cell: impl FnMut(usize) -> T) -> ArenaArray<T, N> {
        let (block, at) = self.room();
        let (layout, cells_at) = Self::ARRAY;
        // SAFETY: `room` returns an index that is within the block.
        let array = unsafe { block.memory.add(at * layout.size()) };
        // SAFETY: the cells follow the `Arc`, within the array's layout.
        let cells = unsafe { array.add(cells_at) };
        let mut room = cells.cast::<[MaybeUninit<T>; N]>();
        // SAFETY: the pointer is aligned, no other array uses this memory, and `MaybeUninit` may
        // hold anything.
        let room = unsafe { room.as_mut() };
        for (place, room) in room.iter_mut().enumerate() {
            // If this unwinds, the cells created so far leak; no array refers to them.
            room.write(cell(place));
        }
        // SAFETY: the pointer is aligned and within the array's layout, and the old contents need
        // no drop.
        unsafe { array.cast().write(block) };
        ArenaArray {
            cells: cells.cast(),
            _cells: PhantomData,
        }
    }

    /// Frees the large block that is kept for future arrays, if no array in it is left. In that
    /// case each of the next 64 arrays gets a small block of its own again. Otherwise does nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut arena = tidegate_timer::internal::HugePageArena::<[u64; 8], 512>::new();
    /// let arrays: Vec<_> = (0..65).map(|_| arena.array(|_| [0; 8])).collect();
    /// drop(arrays);
    /// arena.trim();
    /// ```
    pub fn trim(&mut self) {
        if let Some((block, _)) = &mut self.open
            && Arc::get_mut(block).is_some()
        {
            (self.open, self.made) = (None, 0);
        }
    }

    /// Returns a block and the index of a free array in it.
    fn room(&mut self) -> (Arc<Block>, usize) {
        if let Some((block, used)) = &mut self.open {
            if Arc::get_mut(block).is_some() {
                // All arrays of the block were dropped.
                *used = 0;
            }
            if *used < Self::ARRAYS_PER_BLOCK {
                *used += 1;
                return (Arc::clone(block), *used - 1);
            }
        }
        self.made += 1;
        if self.made <= SINGLE_ARRAYS || Self::ARRAYS_PER_BLOCK < 2 {
            return (Arc::new(Block::new(Self::ARRAY.0)), 0);
        }
        let large = Layout::from_size_align(LARGE, LARGE).expect("a power of two");
        let block = Arc::new(Block::new(large));
        self.open = Some((Arc::clone(&block), 1));
        (block, 0)
    }
}

impl<T, const N: usize> Default for HugePageArena<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> fmt::Debug for HugePageArena<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HugePageArena").finish_non_exhaustive()
    }
}

impl<T, const N: usize> Deref for ArenaArray<T, N> {
    type Target = [T; N];

    #[inline]
    fn deref(&self) -> &[T; N] {
        // SAFETY: the cells are initialised, and this array owns them.
        unsafe { self.cells.as_ref() }
    }
}

impl<T, const N: usize> DerefMut for ArenaArray<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T; N] {
        // SAFETY: as in `deref`, and the mutable borrow is exclusive.
        unsafe { self.cells.as_mut() }
    }
}

impl<T, const N: usize> Drop for ArenaArray<T, N> {
    fn drop(&mut self) {
        let before = HugePageArena::<T, N>::ARRAY.1;
        // SAFETY: the layout of the array starts this many bytes before its cells.
        let count = unsafe { self.cells.cast::<u8>().sub(before) };
        // SAFETY: `HugePageArena::array` wrote the `Arc` there, and it is read only here. It frees
        // the memory at the end of this function, also if the drop of a cell unwinds.
        let _block = unsafe { count.cast::<Arc<Block>>().read() };
        // SAFETY: the cells are initialised and are not used after this.
        unsafe { self.cells.drop_in_place() };
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for ArenaArray<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().collect::<Vec<_>>().fmt(f)
    }
}
