//! Stream sockets: receiving and sending.
//!
//! On Unix the system calls are made by `rustix`, which on Linux makes them directly. On Windows they
//! go through `mio`, which has to know there that a socket would block.

pub(crate) use self::system::{
    SHORT_READ_IS_LAST, StreamRef, StreamSocket, receive, send, send_slices, send_slices_with_more,
};

#[cfg(unix)]
mod system {
    use std::io::{self, IoSlice};
    use std::mem::MaybeUninit;
    use std::ops::Deref;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

    use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags};

    use crate::sys::source::Source;

    /// A write to a connection that is gone is an error and no signal. Apple has an option of the
    /// socket for this, which `mio` sets.
    #[cfg(not(target_vendor = "apple"))]
    const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    const NO_SIGNAL: SendFlags = SendFlags::empty();
    /// The system may hold a part of a packet back, because more follows at once.
    #[cfg(target_os = "linux")]
    const MORE: SendFlags = NO_SIGNAL.union(SendFlags::MORE);
    #[cfg(not(target_os = "linux"))]
    const MORE: SendFlags = NO_SIGNAL;

    /// `true` if a read that does not fill its buffer has read everything: the poller reports the
    /// next bytes as a new event.
    pub(crate) const SHORT_READ_IS_LAST: bool = true;

    /// A stream socket that is open meanwhile.
    pub(crate) type StreamRef<'a> = BorrowedFd<'a>;

    /// A stream socket with its descriptor number, which every system call needs.
    #[derive(Debug)]
    pub(crate) struct StreamSocket<S> {
        socket: S,
        number: RawFd,
    }

    impl<S: AsFd> StreamSocket<S> {
        pub(crate) fn new(socket: S) -> Self {
            let number = socket.as_fd().as_raw_fd();
            Self { socket, number }
        }

        /// Returns the socket for a system call.
        #[inline(always)]
        pub(crate) fn as_stream(&self) -> StreamRef<'_> {
            // SAFETY: the number is that of `socket`, which is open for as long as it lives. It
            // cannot be replaced by another socket: the field is private, and is exposed only as
            // shared or as an unsized `Source`.
            unsafe { BorrowedFd::borrow_raw(self.number) }
        }
    }

    impl<S: Source> StreamSocket<S> {
        /// Returns the socket that a poller watches.
        pub(crate) fn source(&mut self) -> &mut dyn Source {
            &mut self.socket
        }
    }

    impl<S> StreamSocket<S> {
        /// Returns the socket itself.
        pub(crate) fn into_inner(self) -> S {
            self.socket
        }
    }

    impl<S> Deref for StreamSocket<S> {
        type Target = S;

        fn deref(&self) -> &S {
            &self.socket
        }
    }

    /// Receives into `room`. Returns how many bytes at its beginning were written; none mean the
    /// end.
    #[inline(always)]
    pub(crate) fn receive(
        stream: StreamRef<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> io::Result<usize> {
        let (_, count) = net::recv(stream, room, RecvFlags::empty())?;
        Ok(count)
    }

    /// Sends `bytes`, or as many of them as the system takes.
    #[inline(always)]
    pub(crate) fn send(stream: StreamRef<'_>, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(stream, bytes, NO_SIGNAL)?)
    }

    /// Sends `slices` in one call, or as much of them as the system takes.
    pub(crate) fn send_slices(stream: StreamRef<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        Ok(net::sendmsg(stream, slices, &mut nothing, NO_SIGNAL)?)
    }

    /// Like [`send_slices`]. The system may hold a part of a packet back, because more follows at
    /// once.
    pub(crate) fn send_slices_with_more(
        stream: StreamRef<'_>,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        Ok(net::sendmsg(stream, slices, &mut nothing, MORE)?)
    }
}

#[cfg(windows)]
mod system {
    use std::io::{self, IoSlice, Write};
    use std::mem::MaybeUninit;
    use std::ops::Deref;

    use socket2::SockRef;

    use crate::sys::sockets::TcpStream;
    use crate::sys::source::Source;

    /// `true` if a read that does not fill its buffer has read everything. Here the next event comes
    /// only after a read that would block.
    pub(crate) const SHORT_READ_IS_LAST: bool = false;

    /// A stream socket that is open meanwhile.
    pub(crate) type StreamRef<'a> = &'a TcpStream;

    /// A stream socket.
    #[derive(Debug)]
    pub(crate) struct StreamSocket<S>(S);

    impl<S> StreamSocket<S> {
        pub(crate) fn new(socket: S) -> Self {
            Self(socket)
        }

        /// Returns the socket for a system call.
        pub(crate) fn as_stream(&self) -> &S {
            &self.0
        }

        /// Returns the socket itself.
        pub(crate) fn into_inner(self) -> S {
            self.0
        }
    }

    impl<S: Source> StreamSocket<S> {
        /// Returns the socket that a poller watches.
        pub(crate) fn source(&mut self) -> &mut dyn Source {
            &mut self.0
        }
    }

    impl<S> Deref for StreamSocket<S> {
        type Target = S;

        fn deref(&self) -> &S {
            &self.0
        }
    }

    /// Receives into `room`. Returns how many bytes at its beginning were written; none mean the
    /// end.
    pub(crate) fn receive(
        stream: StreamRef<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> io::Result<usize> {
        stream.try_io(|| SockRef::from(stream).recv(room))
    }

    /// Sends `bytes`, or as many of them as the system takes.
    pub(crate) fn send(mut stream: StreamRef<'_>, bytes: &[u8]) -> io::Result<usize> {
        stream.write(bytes)
    }

    /// Sends `slices` in one call, or as much of them as the system takes.
    pub(crate) fn send_slices(
        mut stream: StreamRef<'_>,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        stream.write_vectored(slices)
    }

    /// Like [`send_slices`]: Windows cannot be told that more follows.
    pub(crate) fn send_slices_with_more(
        stream: StreamRef<'_>,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        send_slices(stream, slices)
    }
}
