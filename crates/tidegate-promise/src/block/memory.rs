//! Memory of promise blocks, recycled per thread up to a bound.
//!
//! Most promises are short-lived and end on the thread that created them, so a stack of free
//! blocks per thread avoids malloc in the steady state. Blocks of other sizes use the allocator,
//! and so do all blocks under loom, shuttle, Miri and sanitizers, which must see each allocation.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// The only recycled size: that of a promise of one or two words.
const SIZE: usize = 128;
const ALIGN: usize = 64;
/// The maximum number of free blocks that a thread keeps: 16 MiB, reached only by a thread that
/// has allocated that many blocks.
///
/// Chosen so that all 100,000 live blocks of the `promise` benchmark fit. Beyond the bound, blocks
/// come from the allocator and cost about as much as those of the leanest oneshot channel
/// (`promise_outstanding` 1.1 instead of 1.85 with a bound of 65,536).
const MAX_FREE_BLOCKS: usize = 128 * 1024;
/// The number of free blocks that a thread keeps whatever it has allocated. A thread that only ends
/// promises of other threads returns the rest to the allocator, so that they do not pile up there.
const MIN_FREE_BLOCKS: usize = 64;

const RECYCLES: bool = cfg!(not(any(
    tidegate_loom,
    tidegate_shuttle,
    tidegate_sanitize,
    miri
)));

/// Returns `true` if blocks of this layout are recycled.
const fn is_pooled(layout: Layout) -> bool {
    RECYCLES && layout.size() <= SIZE && layout.size() > SIZE / 2 && layout.align() <= ALIGN
}

const fn pooled_layout() -> Layout {
    match Layout::from_size_align(SIZE, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("the pool's size and alignment are a layout"),
    }
}

thread_local! {
    static FREE: Free = const {
        Free {
            newest: Cell::new(None),
            count: Cell::new(0),
            most: Cell::new(MIN_FREE_BLOCKS),
        }
    };
}

/// The free blocks of a thread: a linked list whose links are stored in the blocks themselves.
struct Free {
    newest: Cell<Option<NonNull<Link>>>,
    count: Cell<usize>,
    /// How many blocks the list may have: one more for each block that the thread has allocated.
    most: Cell<usize>,
}

/// The content of a free block: a link to the block that was freed before it.
struct Link(Option<NonNull<Link>>);

const _: () = assert!(size_of::<Link>() <= SIZE && align_of::<Link>() <= ALIGN);

impl Free {
    #[inline(always)]
    fn pop(&self) -> Option<NonNull<u8>> {
        let block = self.newest.get()?;
        // SAFETY: blocks in the list hold a link, and no other code has a pointer to them.
        let Link(before) = unsafe { block.read() };
        self.newest.set(before);
        self.count.set(self.count.get() - 1);
        Some(block.cast())
    }

    /// Keeps `memory`, an unused block. Returns `false` if the list is full.
    #[inline(always)]
    fn push(&self, memory: NonNull<u8>) -> bool {
        let count = self.count.get();
        if count >= self.most.get() {
            return false;
        }
        let block = memory.cast::<Link>();
        // SAFETY: the block is unused, and large and aligned enough for a link, as asserted.
        unsafe { block.write(Link(self.newest.get())) };
        self.newest.set(Some(block));
        self.count.set(count + 1);
        true
    }
}

impl Drop for Free {
    fn drop(&mut self) {
        while let Some(block) = self.pop() {
            // SAFETY: pooled blocks were allocated with this layout, in `take`.
            unsafe { dealloc(block.as_ptr(), pooled_layout()) };
        }
    }
}

/// Returns how many free blocks this thread keeps.
#[cfg(test)]
pub(super) fn free_blocks() -> usize {
    FREE.with(|free| free.count.get())
}

/// Returns uninitialised memory for a value of `layout`.
#[inline]
pub(super) fn take(layout: Layout) -> NonNull<u8> {
    if !is_pooled(layout) {
        return allocate_new(layout);
    }
    FREE.try_with(Free::pop)
        .ok()
        .flatten()
        .unwrap_or_else(allocate_pooled)
}

#[cold]
fn allocate_pooled() -> NonNull<u8> {
    let _ = FREE.try_with(|free| {
        let most = free.most.get() + 1;
        free.most.set(most.min(MAX_FREE_BLOCKS));
    });
    allocate_new(pooled_layout())
}

#[cold]
fn allocate_new(layout: Layout) -> NonNull<u8> {
    // SAFETY: a block is never zero-sized: it begins with its header.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Returns memory to this thread's free list or to the allocator.
///
/// # Safety
///
/// `memory` came from [`take`] with the same `layout` and is not used afterwards.
#[inline]
pub(super) unsafe fn recycle(memory: NonNull<u8>, layout: Layout) {
    if !is_pooled(layout) {
        // SAFETY: as the caller promises, and `take` used this layout.
        unsafe { dealloc(memory.as_ptr(), layout) };
        return;
    }
    let kept = FREE.try_with(|free| free.push(memory));
    if !kept.unwrap_or(false) {
        // SAFETY: as the caller promises, and `take` used the pool's layout.
        unsafe { dealloc(memory.as_ptr(), pooled_layout()) };
    }
}
