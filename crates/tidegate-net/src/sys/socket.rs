//! Socket operations beyond `mio`: sending, and a spare descriptor.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::poller::Source;

/// Sends `bytes`, or as many of them as the system takes.
#[inline(always)]
pub(crate) fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Sends `slices` in one call, or as much of them as the system takes.
pub(crate) fn send_slices(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut nothing = SendAncillaryBuffer::default();
    let sent = rustix::net::sendmsg(socket, slices, &mut nothing, SendFlags::NOSIGNAL)?;
    Ok(sent)
}

/// A socket with its descriptor number, which every system call needs.
#[derive(Debug)]
pub(crate) struct SocketWithFd<S> {
    socket: S,
    number: RawFd,
}

impl<S: AsFd> SocketWithFd<S> {
    pub(crate) fn new(socket: S) -> Self {
        let number = socket.as_fd().as_raw_fd();
        Self { socket, number }
    }
}

impl<S: Source> SocketWithFd<S> {
    /// Returns the socket that a poller watches.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        &mut self.socket
    }
}

impl<S> Deref for SocketWithFd<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S> AsFd for SocketWithFd<S> {
    #[inline(always)]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the number is that of `socket`, which is open for as long as it lives. It cannot
        // be replaced by another socket: the field is private, and is exposed only as shared or as
        // an unsized `Source`.
        unsafe { BorrowedFd::borrow_raw(self.number) }
    }
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

fn open() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Returns `true` if an error means that the process or the system has no descriptor or memory
/// left.
pub(crate) fn is_out_of_descriptors(why: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM: the numbers are the same on every Unix, except ENOBUFS.
    matches!(why.raw_os_error(), Some(24 | 23 | 105 | 55 | 12))
}
