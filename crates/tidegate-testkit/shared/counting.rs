//! The system allocator with counters.
//!
//! Test programs include this file by its path. It is not a module of this crate, because an
//! allocator needs unsafe code, which the crate forbids, and applies to the whole program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of bytes that the program has allocated now.
pub(crate) static LIVE: AtomicUsize = AtomicUsize::new(0);
/// The highest value of [`LIVE`].
pub(crate) static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of allocations by this thread.
    pub(crate) static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    /// The number of bytes that this thread has allocated, minus those that it has freed.
    pub(crate) static BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(allocated: u64, bytes: i64) {
    let _ = ALLOCATED.try_with(|count| count.set(count.get() + allocated));
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes));
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}
