//! Stream sockets: receiving and sending.
//!
//! On Linux the system calls are made directly, by the number of the descriptor. Elsewhere, and with
//! `--cfg tidegate_mio`, they go through `mio`, which has to know on some platforms that a socket
//! would block.

pub(crate) use self::system::{
    SHORT_READ_IS_LAST, StreamRef, StreamSocket, receive, send, send_slices, send_slices_with_more,
};

#[cfg(all(target_os = "linux", not(tidegate_mio)))]
mod system {
    use std::io::{self, IoSlice};
    use std::mem::{self, MaybeUninit};
    use std::ops::Deref;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

    use libc::{MSG_MORE, MSG_NOSIGNAL, SYS_recvfrom, SYS_sendmsg, SYS_sendto, c_int};

    use crate::sys::call::call;
    use crate::sys::source::Source;

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
        let (socket, length) = (stream.as_raw_fd(), room.len());
        let room = room.as_mut_ptr();
        // SAFETY: the socket is borrowed, and the kernel writes at most `length` bytes to the room. It
        // does not write the address of the sender, because there is no memory for it.
        unsafe {
            call(
                SYS_recvfrom,
                [socket as usize, room as usize, length, 0, 0, 0],
            )
        }
    }

    /// Sends `bytes`, or as many of them as the system takes.
    #[inline(always)]
    pub(crate) fn send(stream: StreamRef<'_>, bytes: &[u8]) -> io::Result<usize> {
        let (socket, length) = (stream.as_raw_fd(), bytes.len());
        let bytes = bytes.as_ptr();
        // SAFETY: the socket and the bytes are borrowed, and the kernel reads `length` of them. It reads
        // no address: the socket is connected.
        unsafe {
            call(
                SYS_sendto,
                [
                    socket as usize,
                    bytes as usize,
                    length,
                    MSG_NOSIGNAL as usize,
                    0,
                    0,
                ],
            )
        }
    }

    /// Sends `slices` in one call, or as much of them as the system takes.
    pub(crate) fn send_slices(stream: StreamRef<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_message(stream, slices, MSG_NOSIGNAL)
    }

    /// Like [`send_slices`]. The system may hold a part of a packet back, because more follows at
    /// once.
    pub(crate) fn send_slices_with_more(
        stream: StreamRef<'_>,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        send_message(stream, slices, MSG_NOSIGNAL | MSG_MORE)
    }

    fn send_message(
        stream: StreamRef<'_>,
        slices: &[IoSlice<'_>],
        flags: c_int,
    ) -> io::Result<usize> {
        // SAFETY: zeros are a valid message: no address, no slices, no control data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        // An `IoSlice` has the layout of an `iovec`, as its documentation promises.
        message.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_iovlen = slices.len() as _;
        let (socket, message) = (stream.as_raw_fd(), &raw const message);
        // SAFETY: the socket, the message and its slices are borrowed, and the kernel only reads.
        unsafe {
            call(
                SYS_sendmsg,
                [socket as usize, message as usize, flags as usize, 0, 0, 0],
            )
        }
    }
}

#[cfg(not(all(target_os = "linux", not(tidegate_mio))))]
mod system {
    use std::io::{self, IoSlice, Write};
    use std::mem::MaybeUninit;
    use std::ops::Deref;

    use socket2::SockRef;

    use crate::sys::mio_sockets::TcpStream;
    #[cfg(unix)]
    use crate::sys::mio_sockets::UnixStream;
    use crate::sys::source::Source;

    /// `true` if a read that does not fill its buffer has read everything. `false` on Windows, where
    /// the next event comes only after a read that would block.
    pub(crate) const SHORT_READ_IS_LAST: bool = cfg!(unix);

    /// A stream socket that is open meanwhile.
    pub(crate) type StreamRef<'a> = &'a dyn StreamIo;

    /// A stream socket.
    #[derive(Debug)]
    pub(crate) struct StreamSocket<S>(S);

    impl<S: StreamIo> StreamSocket<S> {
        pub(crate) fn new(socket: S) -> Self {
            Self(socket)
        }

        /// Returns the socket for a system call.
        pub(crate) fn as_stream(&self) -> StreamRef<'_> {
            &self.0
        }
    }

    impl<S: Source> StreamSocket<S> {
        /// Returns the socket that a poller watches.
        pub(crate) fn source(&mut self) -> &mut dyn Source {
            &mut self.0
        }
    }

    impl<S> StreamSocket<S> {
        /// Returns the socket itself.
        pub(crate) fn into_inner(self) -> S {
            self.0
        }
    }

    impl<S> Deref for StreamSocket<S> {
        type Target = S;

        fn deref(&self) -> &S {
            &self.0
        }
    }

    /// The system calls of a stream socket.
    pub(crate) trait StreamIo {
        fn receive(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize>;
        fn send(&self, bytes: &[u8]) -> io::Result<usize>;
        fn send_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    }

    impl StreamIo for TcpStream {
        fn receive(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
            self.try_io(|| SockRef::from(self).recv(room))
        }

        fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            let mut socket = self;
            socket.write(bytes)
        }

        fn send_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut socket = self;
            socket.write_vectored(slices)
        }
    }

    #[cfg(unix)]
    impl StreamIo for UnixStream {
        fn receive(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
            self.try_io(|| SockRef::from(self).recv(room))
        }

        fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            let mut socket = self;
            socket.write(bytes)
        }

        fn send_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut socket = self;
            socket.write_vectored(slices)
        }
    }

    /// Receives into `room`. Returns how many bytes at its beginning were written; none mean the
    /// end.
    pub(crate) fn receive(
        stream: StreamRef<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> io::Result<usize> {
        stream.receive(room)
    }

    /// Sends `bytes`, or as many of them as the system takes.
    pub(crate) fn send(stream: StreamRef<'_>, bytes: &[u8]) -> io::Result<usize> {
        stream.send(bytes)
    }

    /// Sends `slices` in one call, or as much of them as the system takes.
    pub(crate) fn send_slices(stream: StreamRef<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        stream.send_slices(slices)
    }

    /// Like [`send_slices`]: there is no portable way to say that more follows.
    pub(crate) fn send_slices_with_more(
        stream: StreamRef<'_>,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        stream.send_slices(slices)
    }
}
