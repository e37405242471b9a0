//! The transport of a channel.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use socket2::SockRef;
use tidegate_core::internal::SignalBlock;

use super::file_range::FileRange;
use super::local::LocalEnd;
use super::options::ChannelOptions;
use super::shared::Shared;
use super::test_transport::TestTransport;
use super::write_queue::Sink;
#[cfg(unix)]
use crate::sys::UnixStream;
use crate::sys::{
    Chunk, SHORT_READ_IS_LAST, Source, StreamRef, StreamSocket, TcpStream, UdpSocket, send,
    send_file, send_slices, send_slices_with_more, unacknowledged,
};

/// The smallest number of bytes that a socket is offered, unless the offer is fixed.
pub(super) const SLACK: usize = 512;

/// The socket of a channel, or its replacement in memory.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(StreamSocket<TcpStream>),
    #[cfg(unix)]
    Unix(StreamSocket<UnixStream>),
    Udp(UdpSocket),
    Local(LocalEnd),
    Embedded(Arc<TestTransport>),
    /// Closed.
    Gone,
}

impl Transport {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        Self::Tcp(StreamSocket::new(stream))
    }

    #[cfg(unix)]
    pub(crate) fn unix(stream: UnixStream) -> Self {
        Self::Unix(StreamSocket::new(stream))
    }

    /// Returns the socket, if it is a byte stream of the operating system.
    #[inline(always)]
    fn stream(&self) -> Option<StreamRef<'_>> {
        match self {
            Self::Tcp(stream) => Some(stream.as_stream()),
            #[cfg(unix)]
            Self::Unix(stream) => Some(stream.as_stream()),
            _ => None,
        }
    }

    /// Returns `true` if it is a byte stream of the operating system.
    #[inline(always)]
    pub(crate) fn is_stream(&self) -> bool {
        self.stream().is_some()
    }

    /// Returns how many bytes to offer a socket if `most` are expected. The buffer belongs to the
    /// loop, so a little more room costs nothing. A read that does not fill the room saves another
    /// one that would find nothing.
    #[inline(always)]
    pub(crate) fn room(most: usize, fixed: bool) -> usize {
        if fixed { most } else { most.max(SLACK) }
    }

    /// Returns `true` if a read of `count` bytes, with an offer of `room`, has left nothing to read.
    #[inline(always)]
    pub(crate) fn is_last_read(count: usize, room: usize) -> bool {
        SHORT_READ_IS_LAST && count < room
    }

    /// Receives at most `room` bytes from a stream; no bytes mean the end.
    #[inline(always)]
    pub(crate) fn receive(&self, chunk: &mut Chunk, room: usize) -> io::Result<Bytes> {
        match self.stream() {
            Some(stream) => chunk.receive(stream, room),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Receives about `most` bytes; no bytes mean the end. The flag is `true` if nothing is left to
    /// read.
    pub(crate) fn read(
        &mut self,
        chunk: &mut Chunk,
        most: usize,
        fixed: bool,
    ) -> io::Result<(Bytes, bool)> {
        if !self.is_stream() {
            return self.read_elsewhere(most);
        }
        let room = Self::room(most, fixed);
        let bytes = self.receive(chunk, room)?;
        let all = Self::is_last_read(bytes.len(), room);
        Ok((bytes, all))
    }

    fn read_elsewhere(&mut self, most: usize) -> io::Result<(Bytes, bool)> {
        let bytes = match self {
            Self::Local(end) => return end.read(most),
            Self::Embedded(test_transport) => test_transport.read(most)?,
            Self::Gone => return Err(io::ErrorKind::NotConnected.into()),
            // Datagrams are read together with their senders, by the channel.
            _ => return Err(io::ErrorKind::WouldBlock.into()),
        };
        let all = bytes.len() < most;
        Ok((bytes, all))
    }

    /// Closes the sending half: the peer reads the end.
    pub(crate) fn shutdown_output(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Udp(_) => Ok(()),
            Self::Local(end) => {
                end.shut();
                Ok(())
            }
            Self::Embedded(test_transport) => {
                test_transport.shut_output();
                Ok(())
            }
            Self::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Makes the close of the socket a reset, if the transport has resets.
    pub(crate) fn reset_on_close(&self) {
        match self {
            // If this fails, the socket is broken, and its end is no better than a reset.
            Self::Tcp(stream) => drop(SockRef::from(&**stream).set_linger(Some(Duration::ZERO))),
            Self::Local(end) => end.reset_on_close(),
            _ => {}
        }
    }

    /// Returns how many bytes the operating system has taken that the peer has not acknowledged, where it
    /// says so.
    pub(crate) fn unacknowledged(&self) -> Option<u64> {
        match self {
            Self::Tcp(stream) => unacknowledged(stream),
            Self::Embedded(test_transport) => test_transport.lock().held,
            _ => None,
        }
    }

    /// Returns the pending error of the socket, if there is one.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        match self {
            Self::Tcp(stream) => stream.take_error().ok().flatten(),
            #[cfg(unix)]
            Self::Unix(stream) => stream.take_error().ok().flatten(),
            Self::Embedded(test_transport) => test_transport.take_error(),
            _ => None,
        }
    }

    /// Returns `true` if a connect has succeeded, `false` if it is still in progress.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        if let Some(why) = self.take_error() {
            return Err(why);
        }
        let result = match self {
            Self::Tcp(stream) => stream.peer_addr().map(|_| ()),
            #[cfg(unix)]
            Self::Unix(stream) => stream.peer_addr().map(|_| ()),
            _ => Ok(()),
        };
        match result {
            Ok(()) => Ok(true),
            Err(why) if why.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(why) => Err(why),
        }
    }

    pub(crate) fn io(&mut self) -> Option<&mut dyn Source> {
        match self {
            Self::Tcp(stream) => Some(stream.source()),
            #[cfg(unix)]
            Self::Unix(stream) => Some(stream.source()),
            Self::Udp(socket) => Some(socket),
            _ => None,
        }
    }

    /// Applies the options to the socket.
    pub(crate) fn set_options(&self, options: &ChannelOptions) {
        match self {
            Self::Tcp(stream) => options.apply(&SockRef::from(&**stream), true),
            #[cfg(unix)]
            Self::Unix(stream) => options.apply(&SockRef::from(&**stream), false),
            Self::Udp(socket) => options.apply(&SockRef::from(socket), false),
            _ => {}
        }
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Udp(socket) => socket.local_addr().ok(),
            Self::Local(end) => end.local_addr(),
            _ => None,
        }
    }

    /// Sets the channel to notify when bytes arrive, if the transport has no poller.
    pub(crate) fn attach(&self, channel: Weak<SignalBlock<Shared>>) {
        match self {
            Self::Local(end) => end.attach(channel),
            Self::Embedded(test_transport) => test_transport.attach(channel),
            _ => {}
        }
    }
}

impl Sink for Transport {
    #[inline]
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => send_slices(stream.as_stream(), slices),
            #[cfg(unix)]
            Self::Unix(stream) => send_slices(stream.as_stream(), slices),
            Self::Udp(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::Local(end) => end.write(slices),
            Self::Embedded(test_transport) => test_transport.write(slices),
            Self::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    #[inline(always)]
    fn write_one(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream() {
            Some(stream) => send(stream, bytes),
            None => self.write(&[IoSlice::new(bytes)]),
        }
    }

    fn write_before_file(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.stream() {
            Some(stream) => send_slices_with_more(stream, slices),
            None => self.write(slices),
        }
    }

    fn send_file(&mut self, range: &FileRange, most: usize) -> io::Result<Option<usize>> {
        if let Some(stream) = self.stream() {
            return send_file(stream, range.file(), range.start(), most);
        }
        match self {
            // A test has one thread: it reads the file itself.
            Self::Embedded(test_transport) => {
                let bytes = range.read(most)?;
                test_transport.write(&[IoSlice::new(&bytes)]).map(Some)
            }
            _ => Ok(None),
        }
    }
}
