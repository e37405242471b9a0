//! What is asked of sockets beyond `mio`: sending, and a spare descriptor.

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

/// A socket beside its number, which is asked for before each system call.
#[derive(Debug)]
pub(crate) struct Numbered<S> {
    socket: S,
    number: RawFd,
}

impl<S: AsFd> Numbered<S> {
    pub(crate) fn new(socket: S) -> Self {
        let number = socket.as_fd().as_raw_fd();
        Self { socket, number }
    }
}

impl<S: Source> Numbered<S> {
    /// What a poller watches.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        &mut self.socket
    }
}

impl<S> Deref for Numbered<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S> AsFd for Numbered<S> {
    #[inline(always)]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the number is that of `socket`, which is open for as long as it lives. Nobody can
        // put another one in its place: it is private, shown to others only shared or as a `Source`
        // without a size.
        unsafe { BorrowedFd::borrow_raw(self.number) }
    }
}

/// A descriptor held only to be given up: with it gone there is one to accept with, so that a
/// connection for which there is no room can be told so by closing it.
#[derive(Debug)]
pub(crate) struct SpareDescriptor {
    held: Option<File>,
}

impl SpareDescriptor {
    pub(crate) fn new() -> Self {
        Self { held: open() }
    }

    /// Gives the descriptor up for as long as `with` runs.
    pub(crate) fn without<R>(&mut self, with: impl FnOnce() -> R) -> Option<R> {
        drop(self.held.take()?);
        let done = with();
        self.held = open();
        Some(done)
    }

    /// Tries to hold one again.
    pub(crate) fn refill(&mut self) {
        if self.held.is_none() {
            self.held = open();
        }
    }
}

fn open() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Whether an error means that the process or the system has no descriptor or memory left.
pub(crate) fn is_out_of_descriptors(why: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM: the same numbers on every Unix but ENOBUFS.
    matches!(why.raw_os_error(), Some(24 | 23 | 105 | 55 | 12))
}
