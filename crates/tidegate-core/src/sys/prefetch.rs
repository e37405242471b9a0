//! Prefetching: fetching a cache line before it is needed. It is a hint and does nothing on
//! processors other than x86-64.

/// Prefetches the memory of a value for writing. This is a hint: it never faults, and it does
/// nothing where the processor has no such instruction.
///
/// ```
/// let later = Box::new([0_u64; 8]);
/// tidegate_core::internal::prefetch(&*later);
/// ```
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_for_write(std::ptr::from_ref(value).cast::<u8>());
}

/// Prefetches a value in a heap block that will be dropped soon: its beginning, its end, and the
/// words around them, which an allocator accesses when the block is freed.
///
/// ```
/// let callback: Box<dyn FnOnce()> = Box::new(|| ());
/// tidegate_core::internal::prefetch_block(&*callback);
/// callback();
/// ```
#[inline(always)]
pub fn prefetch_block<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let size = size_of_val(value);
    prefetch_for_write(start.wrapping_sub(size_of::<usize>()));
    prefetch_for_write(start.wrapping_add(size.max(SMALLEST)));
    if size >= LINE {
        prefetch_for_write(start);
    }
}

/// Bytes of a cache line. A smaller value is on the line of its end or of the word before it.
const LINE: usize = 64;

/// No common allocator has smaller blocks than this.
const SMALLEST: usize = 3 * size_of::<usize>();

/// Prefetches the line at `at` for a write. The address need not be valid.
#[inline(always)]
pub fn prefetch_for_write<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(tidegate_loom), not(miri)))]
    {
        // In assembly: the intrinsic becomes a prefetch for reading unless the whole program is
        // built for processors that announce `prefetchw`. Processors that lack the instruction do
        // nothing here.
        // SAFETY: a prefetch reads and writes nothing and ignores addresses that it cannot use.
        unsafe {
            std::arch::asm!(
                "prefetchw [{at}]",
                at = in(reg) at,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(tidegate_loom), not(miri))))]
    let _ = at;
}
