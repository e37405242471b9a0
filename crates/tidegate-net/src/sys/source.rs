//! What a poller watches, besides the descriptors of user-defined sources: sockets.

/// A socket that a poller watches.
pub(crate) trait Source {
    /// Returns what the poller is to watch.
    fn pollable(&mut self) -> Pollable<'_>;
}

#[cfg(target_os = "linux")]
pub(crate) type Pollable<'a> = std::os::fd::BorrowedFd<'a>;
/// A socket of `mio` has a state there on some platforms.
#[cfg(not(target_os = "linux"))]
pub(crate) type Pollable<'a> = &'a mut dyn mio::event::Source;

macro_rules! sockets {
    ($($socket:ident),*) => {$(
        impl Source for super::sockets::$socket {
            fn pollable(&mut self) -> Pollable<'_> {
                #[cfg(target_os = "linux")]
                return std::os::fd::AsFd::as_fd(self);
                #[cfg(not(target_os = "linux"))]
                return self;
            }
        }
    )*};
}

sockets!(TcpListener, TcpStream, UdpSocket);
#[cfg(unix)]
sockets!(UnixListener, UnixStream);
