//! Asking for a cache line before it is needed. A hint: on other processors it does nothing.

/// Asks for the memory of a value before it is needed, for writing. A hint: it never faults, and
/// where the processor has no such instruction it does nothing.
///
/// ```
/// let later = Box::new([0_u64; 8]);
/// tidegate_core::prefetch(&*later);
/// ```
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    for_writing(std::ptr::from_ref(value).cast::<u8>());
}

/// The same for a value in a block of the heap that will be dropped soon: asks for its beginning
/// and its end, and for the words around them, where an allocator looks when it gets the block back.
///
/// ```
/// let callback: Box<dyn FnOnce()> = Box::new(|| ());
/// tidegate_core::prefetch_block(&*callback);
/// callback();
/// ```
#[inline(always)]
pub fn prefetch_block<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let size = size_of_val(value);
    for_writing(start.wrapping_sub(size_of::<usize>()));
    for_writing(start.wrapping_add(size.max(SMALLEST)));
    if size >= LINE {
        for_writing(start);
    }
}

/// Bytes that come from memory together. What is smaller lies on the line of its end or of the
/// word before it.
const LINE: usize = 64;

/// No common allocator has blocks with less room than this.
const SMALLEST: usize = 3 * size_of::<usize>();

/// Asks for the line at `at`, to be written soon. The address need not be valid.
#[inline(always)]
pub fn for_writing<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(tidegate_loom), not(miri)))]
    {
        // By hand: the intrinsic becomes a prefetch for reading unless the whole program is built
        // for processors that announce the other one. Those that lack it do nothing here.
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
