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

/// A descriptor that is held only to be released. A listener without descriptors releases it while
/// it pauses: the connections that are open have one more, and accepting does not take the last one.
#[derive(Debug)]
pub(crate) struct SpareDescriptor {
    held: Option<File>,
}

impl SpareDescriptor {
    pub(crate) fn new() -> Self {
        Self { held: open().ok() }
    }

    /// Releases the descriptor.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }

    /// Holds a descriptor again. If that fails for another reason than a lack of descriptors, none
    /// is held: on Windows there is none, and sockets do not run out before memory does.
    ///
    /// # Errors
    ///
    /// There is still no descriptor left.
    pub(crate) fn take_back(&mut self) -> io::Result<()> {
        if self.held.is_some() {
            return Ok(());
        }
        match open() {
            Err(why) if is_out_of_descriptors(&why) => Err(why),
            held => {
                self.held = held.ok();
                Ok(())
            }
        }
    }
}

fn open() -> io::Result<File> {
    File::open("/dev/null")
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
