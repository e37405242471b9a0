//! Huge pages: their size, and the request to the operating system for them.

/// The size of a huge page. It needs one TLB entry where small pages need hundreds.
pub(crate) const LARGE: usize = 2 << 20;

/// Requests huge pages for memory that has not been touched yet. The request is only a hint, and
/// does nothing where the operating system does not support it.
pub(crate) fn prefer_large(memory: std::ptr::NonNull<u8>, bytes: usize) {
    debug_assert!(memory.as_ptr().addr().is_multiple_of(LARGE));
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the call changes how the kernel backs this memory, not its contents; the kernel
    // rejects invalid addresses and lengths.
    unsafe {
        libc::madvise(memory.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = bytes;
}
