//! Prefetches memory that will be used soon.
//!
//! With a thousand connections, the state of each has left the near caches when its next message
//! comes. A loop knows the next connection while it serves the current one, and the system calls of
//! the current one take long enough to fetch the state of the next.

/// Bytes in a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Prefetches the memory of `value`. A hint: nothing is read.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        // Whole lines: a value may begin anywhere in its first one.
        let before = start.addr() % LINE;
        let start = start.wrapping_sub(before);
        for line in (0..before + size_of_val(value)).step_by(LINE) {
            // SAFETY: every x86-64 has this instruction, and it does not access its address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
