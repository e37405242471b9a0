//! The descriptors of user-defined sources: file descriptors on Unix, sockets on Windows.
//!
//! On Unix a poller watches any descriptor. On Windows it watches only the sockets of `mio`, so a
//! user-defined source is refused there with [`io::ErrorKind::Unsupported`].

use std::io;

use mio::{Interest, Registry};

use super::poller::Source;

pub(crate) use self::system::{AsFd, RawFd, number_of};
#[cfg(feature = "sources")]
pub(crate) use self::system::{OwnedFd, copy_of};

/// The descriptor of a user-defined source, as a poller takes it.
pub(crate) struct WatchedFd(pub(crate) RawFd);

impl Source for WatchedFd {
    fn register(
        &mut self,
        registry: &Registry,
        token: mio::Token,
        interests: Interest,
    ) -> io::Result<()> {
        system::watched(&self.0)?.register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: mio::Token,
        interests: Interest,
    ) -> io::Result<()> {
        system::watched(&self.0)?.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        system::watched(&self.0)?.deregister(registry)
    }
}

#[cfg(unix)]
mod system {
    use std::io;
    use std::os::fd::AsRawFd;
    #[cfg(feature = "sources")]
    pub(crate) use std::os::fd::OwnedFd;
    pub(crate) use std::os::fd::{AsFd, RawFd};

    use mio::unix::SourceFd;

    /// Returns the number of a descriptor. Its `as_fd` is the user's code and may panic.
    pub(crate) fn number_of(descriptor: &impl AsFd) -> RawFd {
        descriptor.as_fd().as_raw_fd()
    }

    /// Returns a descriptor of its own for the same open file. `as_fd` is the user's code and may
    /// panic.
    #[cfg(feature = "sources")]
    pub(crate) fn copy_of(descriptor: &impl AsFd) -> io::Result<OwnedFd> {
        descriptor.as_fd().try_clone_to_owned()
    }

    pub(super) fn watched(number: &RawFd) -> io::Result<SourceFd<'_>> {
        Ok(SourceFd(number))
    }
}

#[cfg(windows)]
mod system {
    use std::io;
    use std::os::windows::io::AsRawSocket;
    #[cfg(feature = "sources")]
    pub(crate) use std::os::windows::io::OwnedSocket as OwnedFd;
    pub(crate) use std::os::windows::io::{AsSocket as AsFd, RawSocket as RawFd};

    use super::Source;

    /// Returns the number of a socket. Its `as_socket` is the user's code and may panic.
    pub(crate) fn number_of(descriptor: &impl AsFd) -> RawFd {
        descriptor.as_socket().as_raw_socket()
    }

    /// Returns a socket of its own for the same connection. `as_socket` is the user's code and may
    /// panic.
    #[cfg(feature = "sources")]
    pub(crate) fn copy_of(descriptor: &impl AsFd) -> io::Result<OwnedFd> {
        descriptor.as_socket().try_clone_to_owned()
    }

    pub(super) fn watched(_: &RawFd) -> io::Result<Box<dyn Source>> {
        let what = "user-defined sources are not supported on Windows; use a channel";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }
}
