//! Memory of promise blocks: recycled per thread, up to a bound.
//!
//! Most promises live shortly and die on the thread that made them, so a small stack of free
//! blocks per thread spares malloc in the steady state. Blocks of other sizes, and all of them
//! under loom, shuttle and sanitizers (which want to see each one come and go), use the allocator.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// The one size that is recycled: what a promise of a word or two takes.
const SIZE: usize = 128;
const ALIGN: usize = 64;
/// The most free blocks that a thread keeps: 16 MiB, and only if it had that many alive.
///
/// Chosen with the `promise` benchmark in view, which has 100,000 alive: all of them fit. Beyond
/// the bound blocks come from the allocator and cost about as much as the leanest oneshot's
/// (`promise_outstanding` 1.1 instead of 1.85 with a bound of 65,536).
const KEPT: usize = 128 * 1024;

const RECYCLES: bool = cfg!(not(any(
    tidegate_loom,
    tidegate_shuttle,
    tidegate_sanitize,
    miri
)));

/// Whether blocks of this layout come from the pool.
const fn is_pooled(layout: Layout) -> bool {
    RECYCLES && layout.size() <= SIZE && layout.size() > SIZE / 2 && layout.align() <= ALIGN
}

const fn pooled() -> Layout {
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
        }
    };
}

/// The free blocks of a thread: a list whose links lie in the blocks themselves.
struct Free {
    newest: Cell<Option<NonNull<Link>>>,
    count: Cell<usize>,
}

/// What a free block holds: the one that was freed before it.
struct Link(Option<NonNull<Link>>);

const _: () = assert!(size_of::<Link>() <= SIZE && align_of::<Link>() <= ALIGN);

impl Free {
    #[inline(always)]
    fn pop(&self) -> Option<NonNull<u8>> {
        let block = self.newest.get()?;
        // SAFETY: blocks in the list hold a link, and nobody else knows them.
        let Link(before) = unsafe { block.read() };
        self.newest.set(before);
        self.count.set(self.count.get() - 1);
        Some(block.cast())
    }

    /// Keeps `memory`, a whole unused block, unless there are enough; answers whether it did.
    #[inline(always)]
    fn push(&self, memory: NonNull<u8>) -> bool {
        let count = self.count.get();
        if count == KEPT {
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
            unsafe { dealloc(block.as_ptr(), pooled()) };
        }
    }
}

/// Memory for a value of `layout`, uninitialised.
#[inline]
pub(super) fn take(layout: Layout) -> NonNull<u8> {
    if !is_pooled(layout) {
        return fresh(layout);
    }
    FREE.try_with(Free::pop)
        .ok()
        .flatten()
        .unwrap_or_else(|| fresh(pooled()))
}

#[cold]
fn fresh(layout: Layout) -> NonNull<u8> {
    // SAFETY: a block is never zero-sized: it begins with its header.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives memory back.
///
/// # Safety
///
/// `memory` came from [`take`] with the same `layout` and is used no more.
#[inline]
pub(super) unsafe fn give(memory: NonNull<u8>, layout: Layout) {
    if !is_pooled(layout) {
        // SAFETY: as the caller promises, and `take` used this layout.
        unsafe { dealloc(memory.as_ptr(), layout) };
        return;
    }
    let kept = FREE.try_with(|free| free.push(memory));
    if !kept.unwrap_or(false) {
        // SAFETY: as the caller promises, and `take` used the pool's layout.
        unsafe { dealloc(memory.as_ptr(), pooled()) };
    }
}
