//! Sockets that are passed in and given back, and a spare descriptor.

use std::fs::File;
use std::io;

/// A socket that does not block, which a program passes in or gets back as one of the standard
/// library.
pub(crate) trait Adopted: Sized {
    /// The type of the standard library.
    type Std;

    /// Takes a socket over, which becomes non-blocking.
    fn adopt(socket: Self::Std) -> io::Result<Self>;

    /// Gives the socket back. It is still non-blocking.
    fn into_std(self) -> Self::Std;
}

/// A descriptor that is held only to be released. The released descriptor is used to accept a
/// connection for which there is no room, so that the peer sees it closed.
#[derive(Debug)]
pub(crate) struct SpareDescriptor {
    held: Option<File>,
}

impl SpareDescriptor {
    pub(crate) fn new() -> Self {
        Self { held: open() }
    }

    /// Releases the descriptor while `with` runs. Returns `None` if none is held.
    pub(crate) fn without<R>(&mut self, with: impl FnOnce() -> R) -> Option<R> {
        drop(self.held.take()?);
        let done = with();
        self.held = open();
        Some(done)
    }

    /// Tries to hold a descriptor again.
    pub(crate) fn refill(&mut self) {
        if self.held.is_none() {
            self.held = open();
        }
    }
}

/// Returns `None` on Windows, too, where sockets do not run out before memory does.
fn open() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Returns `true` if an error means that the process or the system has no descriptor or memory
/// left.
pub(crate) fn is_out_of_descriptors(why: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM: the numbers are the same on every Unix, except ENOBUFS. Then
    // WSAEMFILE and WSAENOBUFS of Windows.
    matches!(
        why.raw_os_error(),
        Some(24 | 23 | 105 | 55 | 12 | 10_024 | 10_055)
    )
}
