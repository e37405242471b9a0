//! What is asked of sockets beyond `mio`: receiving without zeroing, sending, and a spare
//! descriptor.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use bytes::{Bytes, BytesMut};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

/// What a loop receives into at once; channels cut what they got off its front. Small, so that
/// it stays in the nearest cache, and so that who keeps a few bytes keeps little more.
const CHUNK: usize = 16 * 1024;

/// Receives at most `most` bytes into `buffer`, which grows as it must, and takes them out; also
/// answers whether there was room for more, so that there is nothing left to receive.
#[inline]
pub(crate) fn receive(
    socket: impl AsFd,
    buffer: &mut BytesMut,
    most: usize,
) -> io::Result<(Bytes, bool)> {
    if buffer.capacity() < most {
        refill(buffer, most.max(CHUNK));
    }
    debug_assert!(buffer.is_empty(), "what was received before was taken out");
    let room = buffer.spare_capacity_mut();
    let most = most.min(room.len());
    let (_, count) = rustix::net::recv(socket, &mut room[..most], RecvFlags::empty())?;
    // SAFETY: `recv` wrote the first `count` bytes of the spare capacity, and `count` is at
    // most its length; the buffer was empty.
    unsafe { buffer.set_len(count) };
    Ok((buffer.split().freeze(), count < most))
}

/// Sends `bytes`, or as many of them as the system takes.
#[inline]
pub(crate) fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Sends `slices` in one call, or as much of them as the system takes.
pub(crate) fn send_slices(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut nothing = SendAncillaryBuffer::default();
    let sent = rustix::net::sendmsg(socket, slices, &mut nothing, SendFlags::NOSIGNAL)?;
    Ok(sent)
}

/// Makes room for `size` bytes: in the memory at hand if nobody uses it any more, else in new.
#[cold]
fn refill(buffer: &mut BytesMut, size: usize) {
    if !buffer.try_reclaim(size) {
        *buffer = BytesMut::with_capacity(size);
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
