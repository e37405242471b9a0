//! What is asked of sockets beyond `mio`: sending, and a spare descriptor.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::net::{SendAncillaryBuffer, SendFlags};

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
