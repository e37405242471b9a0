//! How large the pages are in which the system hands out memory.

/// Pages of this size need one entry of the processor's page table cache where small ones need
/// hundreds.
pub(crate) const LARGE: usize = 2 << 20;

/// Asks for large pages for memory that nobody has touched yet. Only a hint, and none at all where
/// the system has no such request.
pub(crate) fn prefer_large(memory: std::ptr::NonNull<u8>, bytes: usize) {
    debug_assert!(memory.as_ptr().addr().is_multiple_of(LARGE));
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: changes how the system backs this memory, not what is in it; it refuses addresses
    // and lengths that it does not like.
    unsafe {
        libc::madvise(memory.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}
