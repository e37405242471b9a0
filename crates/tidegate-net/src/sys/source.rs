//! What a poller watches: sockets, and the descriptors of user-defined sources.

use std::io;

pub(crate) use self::system::{Pollable, pollable};

/// Something that a poller watches.
pub(crate) trait Source {
    /// Returns what the poller is to watch.
    ///
    /// # Errors
    ///
    /// A user-defined source could not say it.
    fn pollable(&mut self) -> io::Result<Pollable<'_>>;
}

#[cfg(all(target_os = "linux", not(tidegate_mio)))]
mod system {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};

    use super::Source;
    use crate::sys::linux_sockets::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};

    /// A descriptor that is open meanwhile.
    pub(crate) type Pollable<'a> = BorrowedFd<'a>;

    /// Returns the descriptor of `source`. Its `as_fd` may be the user's code, which may panic.
    pub(crate) fn pollable(source: &impl AsFd) -> Pollable<'_> {
        source.as_fd()
    }

    macro_rules! sockets {
        ($($socket:ty),*) => {$(
            impl Source for $socket {
                fn pollable(&mut self) -> io::Result<Pollable<'_>> {
                    Ok(pollable(self))
                }
            }
        )*};
    }

    sockets!(TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream);
}

#[cfg(not(all(target_os = "linux", not(tidegate_mio))))]
mod system {
    use std::io;

    use super::Source;
    use crate::sys::descriptor::{AsFd, RawFd, number_of};
    use crate::sys::mio_sockets::{TcpListener, TcpStream, UdpSocket};
    #[cfg(unix)]
    use crate::sys::mio_sockets::{UnixListener, UnixStream};

    /// A socket of `mio`, which has a state there on some platforms, or the descriptor of a
    /// user-defined source.
    pub(crate) enum Pollable<'a> {
        Socket(&'a mut dyn mio::event::Source),
        Descriptor(RawFd),
    }

    /// Returns the descriptor of `source`. Its `as_fd` is the user's code and may panic.
    pub(crate) fn pollable(source: &impl AsFd) -> Pollable<'_> {
        Pollable::Descriptor(number_of(source))
    }

    macro_rules! sockets {
        ($($socket:ty),*) => {$(
            impl Source for $socket {
                fn pollable(&mut self) -> io::Result<Pollable<'_>> {
                    Ok(Pollable::Socket(self))
                }
            }
        )*};
    }

    sockets!(TcpListener, TcpStream, UdpSocket);
    #[cfg(unix)]
    sockets!(UnixListener, UnixStream);
}
