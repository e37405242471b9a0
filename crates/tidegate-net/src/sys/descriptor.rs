//! The descriptors of user-defined sources: file descriptors on Unix, sockets on Windows.
//!
//! On Unix a poller watches any descriptor. On Windows it watches only the sockets of `mio`, so a
//! user-defined source is refused there.

pub(crate) use self::system::{AsFd, OwnedFd, RawFd, copy_of, number_of};

#[cfg(unix)]
mod system {
    use std::io;
    use std::os::fd::AsRawFd;
    pub(crate) use std::os::fd::{AsFd, OwnedFd, RawFd};

    /// Returns the number of a descriptor. Its `as_fd` is the user's code and may panic.
    pub(crate) fn number_of(descriptor: &impl AsFd) -> RawFd {
        descriptor.as_fd().as_raw_fd()
    }

    /// Returns a descriptor of its own for the same open file. `as_fd` is the user's code and may
    /// panic.
    pub(crate) fn copy_of(descriptor: &impl AsFd) -> io::Result<OwnedFd> {
        descriptor.as_fd().try_clone_to_owned()
    }
}

#[cfg(windows)]
mod system {
    use std::io;
    use std::os::windows::io::AsRawSocket;
    pub(crate) use std::os::windows::io::OwnedSocket as OwnedFd;
    pub(crate) use std::os::windows::io::{AsSocket as AsFd, RawSocket as RawFd};

    /// Returns the number of a socket. Its `as_socket` is the user's code and may panic.
    pub(crate) fn number_of(descriptor: &impl AsFd) -> RawFd {
        descriptor.as_socket().as_raw_socket()
    }

    /// Returns a socket of its own for the same connection. `as_socket` is the user's code and may
    /// panic.
    pub(crate) fn copy_of(descriptor: &impl AsFd) -> io::Result<OwnedFd> {
        descriptor.as_socket().try_clone_to_owned()
    }
}
