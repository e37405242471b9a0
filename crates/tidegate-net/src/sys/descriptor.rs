//! The descriptors of user-defined sources: file descriptors on Unix, sockets on Windows.
//!
//! On Unix a poller watches any descriptor. On Windows it watches only the sockets of `mio`, so a
//! user-defined source is refused there.

use std::io;
#[cfg(unix)]
pub(crate) use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(windows)]
pub(crate) use std::os::windows::io::{
    AsSocket as AsFd, BorrowedSocket as BorrowedFd, OwnedSocket as OwnedFd,
};

/// Returns a descriptor, which is open meanwhile. Its `as_fd` may be the user's code, which may
/// panic.
pub(crate) fn borrow(descriptor: &impl AsFd) -> BorrowedFd<'_> {
    #[cfg(unix)]
    return descriptor.as_fd();
    #[cfg(windows)]
    return descriptor.as_socket();
}

/// Returns a descriptor of its own for the same open file. `as_fd` is the user's code and may
/// panic.
pub(crate) fn copy_of(descriptor: &impl AsFd) -> io::Result<OwnedFd> {
    borrow(descriptor).try_clone_to_owned()
}
