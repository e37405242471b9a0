//! The system's allocator, counting what is asked of it.
//!
//! A source that test programs include by its path, not a module of this crate: an allocator is
//! unsafe code, which the crate forbids, and the whole program's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the program has now.
pub(crate) static LIVE: AtomicUsize = AtomicUsize::new(0);
/// The most that [`LIVE`] was.
pub(crate) static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How often this thread has allocated.
    pub(crate) static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    /// The bytes that this thread has allocated, less those that it has freed.
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

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}
