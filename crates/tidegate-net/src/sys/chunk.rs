//! Where a loop receives: one piece of memory for all its channels.
//!
//! What came is lent out as it lies there, and is back when it was sent on: then the next receive
//! finds the same memory, still near, and nobody has counted references. Where it does not come
//! back, because a handler keeps or drops it, the next receives cut their bytes off the front of
//! another piece instead.

use std::io;
use std::os::fd::AsFd;

use bytes::{Bytes, BytesMut};
use rustix::net::RecvFlags;

/// Bytes of a piece. Small, so that it stays in the nearest cache, and so that who keeps a few
/// bytes keeps little more.
const SIZE: usize = 16 * 1024;
/// Receives that cut off, after a piece that was lent did not come back.
const CUTS: u8 = 63;

/// The memory that a loop receives into.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Not here while it is lent out.
    memory: Option<BytesMut>,
    /// Where the piece begins that is lent out; 0 if none is.
    lent: usize,
    /// Receives to come that cut off.
    cuts: u8,
}

impl Chunk {
    /// Receives at most `most` bytes, to be taken out next; answers how many came.
    #[inline(always)]
    pub(crate) fn receive(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        let memory = match &mut self.memory {
            Some(memory) if memory.capacity() >= most => memory,
            _ => self.refill(most.max(SIZE)),
        };
        debug_assert!(memory.is_empty(), "what came before was taken out");
        let room = memory.spare_capacity_mut();
        let most = most.min(room.len());
        let (_, count) = rustix::net::recv(socket, &mut room[..most], RecvFlags::empty())?;
        // SAFETY: `recv` wrote the first `count` bytes of the spare capacity, and `count` is at
        // most its length; the memory was empty.
        unsafe { memory.set_len(count) };
        Ok(count)
    }

    /// Takes out what was received.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Bytes {
        match self.memory.take() {
            Some(memory) if self.cuts == 0 => {
                self.lent = memory.as_ptr().addr();
                memory.freeze()
            }
            memory => self.cut(memory),
        }
    }

    #[inline(never)]
    fn cut(&mut self, memory: Option<BytesMut>) -> Bytes {
        self.cuts = self.cuts.saturating_sub(1);
        let mut memory = memory.unwrap_or_default();
        let bytes = memory.split().freeze();
        self.memory = Some(memory);
        bytes
    }

    /// Takes back what was lent out, if this is it and nobody else has a part of it.
    #[inline(always)]
    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        if bytes.as_ptr().addr() == self.lent
            && let Ok(mut memory) = bytes.try_into_mut()
        {
            self.lent = 0;
            memory.clear();
            self.memory = Some(memory);
        }
    }

    /// Makes room for `size` bytes: in the memory at hand if nobody uses it any more, else in new.
    #[cold]
    fn refill(&mut self, size: usize) -> &mut BytesMut {
        if self.lent != 0 {
            self.lent = 0;
            self.cuts = CUTS;
        }
        let mut memory = self.memory.take().unwrap_or_default();
        if !memory.try_reclaim(size) {
            memory = BytesMut::with_capacity(size);
            // Counted from the start, so that lending it needs no memory.
            drop(memory.split_off(memory.capacity()));
        }
        self.memory.insert(memory)
    }
}

#[cfg(test)]
mod tests {
    //! What comes back is used again, and nothing else.

    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn receive(chunk: &mut Chunk, ends: &(UnixStream, UnixStream), sent: &[u8]) -> Bytes {
        (&ends.0).write_all(sent).unwrap();
        assert_eq!(chunk.receive(&ends.1, 64).unwrap(), sent.len());
        let bytes = chunk.take();
        assert_eq!(bytes, sent);
        bytes
    }

    #[test]
    fn memory_that_comes_back_is_received_into_again() {
        let (mut chunk, ends) = (Chunk::default(), UnixStream::pair().unwrap());
        let first = receive(&mut chunk, &ends, b"one");
        let at = first.as_ptr();
        chunk.give_back(first);
        let second = receive(&mut chunk, &ends, b"two");
        assert_eq!(second.as_ptr(), at);
    }

    #[test]
    fn what_is_kept_stays_as_it_is_and_later_ones_share_another_piece() {
        let (mut chunk, ends) = (Chunk::default(), UnixStream::pair().unwrap());
        let kept = receive(&mut chunk, &ends, b"kept");
        let second = receive(&mut chunk, &ends, b"second");
        let third = receive(&mut chunk, &ends, b"third");
        assert_eq!(second.as_ptr_range().end, third.as_ptr());
        assert_eq!((&*kept, &*second), (&b"kept"[..], &b"second"[..]));
    }

    #[test]
    fn a_part_that_somebody_keeps_is_not_received_over() {
        let (mut chunk, ends) = (Chunk::default(), UnixStream::pair().unwrap());
        let whole = receive(&mut chunk, &ends, b"whole");
        let part = whole.slice(1..3);
        chunk.give_back(whole);
        let next = receive(&mut chunk, &ends, b"other");
        assert_eq!((&*part, &*next), (&b"ho"[..], &b"other"[..]));
    }

    #[test]
    fn bytes_from_elsewhere_are_not_taken() {
        let (mut chunk, ends) = (Chunk::default(), UnixStream::pair().unwrap());
        let lent = receive(&mut chunk, &ends, b"lent");
        let at = lent.as_ptr();
        chunk.give_back(Bytes::from(vec![7; 4096]));
        chunk.give_back(lent);
        assert_eq!(receive(&mut chunk, &ends, b"next").as_ptr(), at);
    }

    #[test]
    fn lending_is_tried_again_after_a_while() {
        let (mut chunk, ends) = (Chunk::default(), UnixStream::pair().unwrap());
        drop(receive(&mut chunk, &ends, b"dropped"));
        for _ in 0..CUTS {
            drop(receive(&mut chunk, &ends, b"cut"));
        }
        let lent = receive(&mut chunk, &ends, b"lent");
        let at = lent.as_ptr();
        chunk.give_back(lent);
        assert_eq!(receive(&mut chunk, &ends, b"again").as_ptr(), at);
    }
}
