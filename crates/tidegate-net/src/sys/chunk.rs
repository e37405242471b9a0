//! The receive buffer of a loop: memory that all its channels share.
//!
//! Received bytes are lent out where they lie, without a copy, and come back when they have been
//! sent on. The next receive then uses the same memory, which is still in the cache, and no
//! reference count has changed. Small reads have a few pieces of memory, so that several can be
//! lent at a time; a large read has the one large piece. If memory does not come back, because
//! handlers keep or drop it instead of returning it, the next receives split their bytes off the
//! front of a large piece instead.

use std::io;

use bytes::{Bytes, BytesMut};

use super::stream::{StreamRef, receive};

use super::lent::Lent;

/// Size of a small piece in bytes; a read of at most that size is a small one.
pub(crate) const PIECE: usize = 2048;
/// Number of small pieces of a loop: so many reads are received together. Measured: fewer gain
/// less. With more, and many connections, the first has left the nearest caches again when its
/// event is delivered.
pub(crate) const PIECES: usize = 8;
/// Minimum size of the large piece in bytes. It is still small, so that it stays in the nearest
/// cache, and so that a handler that keeps a few bytes keeps little more memory.
const LARGE: usize = 16 * 1024;
/// Number of receives that split bytes off, after lent memory did not come back.
const SPLITS: u16 = 1023;

/// The memory that a loop receives into.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// The small pieces. The first `available` are available, with the last used on top.
    pieces: [Option<BytesMut>; PIECES],
    available: usize,
    /// Number of small pieces, including those that are lent out.
    created: usize,
    /// The large piece; `None` while it is lent out.
    large: Option<BytesMut>,
    /// Address of the large piece that is lent out; 0 if none is.
    lent_addr: usize,
    /// Its capacity.
    lent_size: usize,
    /// Number of receives to come that split bytes off.
    splits_left: u16,
}

impl Chunk {
    /// Receives at most `most` bytes; no bytes mean the end.
    #[inline(always)]
    pub(crate) fn receive(&mut self, stream: StreamRef<'_>, most: usize) -> io::Result<Bytes> {
        if most > PIECE || self.splits_left > 0 {
            return self.receive_large(stream, most);
        }
        if self.available == 0 && !self.make() {
            return self.receive_large(stream, most);
        }
        let top = self.available - 1;
        // Taken out first, so that what is written to it need not be read back as a whole.
        let mut piece = self.pieces[top]
            .take()
            .expect("there is one below `available`");
        if let Err(why) = fill(&mut piece, stream, most) {
            self.pieces[top] = Some(piece);
            return Err(why);
        }
        self.available = top;
        Ok(piece.freeze())
    }

    #[inline(never)]
    fn receive_large(&mut self, stream: StreamRef<'_>, most: usize) -> io::Result<Bytes> {
        let mut large = match self.large.take() {
            Some(large) if large.capacity() >= most => large,
            other => self.refill(other, most.max(LARGE)),
        };
        let filled = fill(&mut large, stream, most);
        if filled.is_ok() && self.splits_left == 0 {
            self.lent_addr = large.as_ptr().addr();
            self.lent_size = large.capacity();
            return Ok(large.freeze());
        }
        self.splits_left = self.splits_left.saturating_sub(1);
        let bytes = large.split().freeze();
        self.large = Some(large);
        filled.map(|()| bytes)
    }

    /// Takes lent memory back, if `bytes` is a lent piece and no other part of it is in use. Memory
    /// that handlers wrote into goes to `lent`. Otherwise returns the bytes: their drop may be user
    /// code.
    #[inline(always)]
    pub(crate) fn give_back(
        &mut self,
        bytes: Bytes,
        lent: &mut Option<Box<Lent>>,
    ) -> Option<Bytes> {
        let large = bytes.as_ptr().addr() == self.lent_addr;
        if !(large || bytes.len() <= PIECE && self.available < self.created) {
            return self.take_other(bytes, lent);
        }
        let mut memory = match bytes.try_into_mut() {
            Ok(memory) => memory,
            Err(bytes) => return Some(bytes),
        };
        memory.clear();
        if large {
            self.lent_addr = 0;
            self.large = Some(memory);
        } else if memory.capacity() == PIECE {
            self.pieces[self.available] = Some(memory);
            self.available += 1;
        } else {
            self.sort(memory, lent);
        }
        None
    }

    /// Takes back what is not a whole piece. Without `lent`, no handler uses the loop's memory, and
    /// the bytes are the user's.
    #[inline(never)]
    fn take_other(&mut self, bytes: Bytes, lent: &mut Option<Box<Lent>>) -> Option<Bytes> {
        if lent.is_none() {
            return Some(bytes);
        }
        let mut memory = match bytes.try_into_mut() {
            Ok(memory) => memory,
            Err(bytes) => return Some(bytes),
        };
        memory.clear();
        self.sort(memory, lent);
        None
    }

    /// Takes `memory`, which is empty and not shared, to where it belongs, and frees it if that is
    /// nowhere.
    #[inline(never)]
    fn sort(&mut self, memory: BytesMut, lent: &mut Option<Box<Lent>>) {
        let other = match lent {
            Some(lent) => lent.keep_output(memory),
            None => Some(memory),
        };
        if let Some(memory) = other {
            self.take_memory(memory);
        }
    }

    /// Takes back `memory`, which is empty and not shared, if it is lent. A handler may have cut off
    /// its start. A small piece may come from another task of the same roaming loop, so one is taken
    /// as long as there is room for it. Frees other memory.
    pub(super) fn take_memory(&mut self, mut memory: BytesMut) {
        let at = memory.as_ptr().addr();
        if self.lent_addr != 0 && (self.lent_addr..=self.lent_addr + self.lent_size).contains(&at) {
            let _ = memory.try_reclaim(self.lent_size);
            self.lent_addr = 0;
            self.large = Some(memory);
            return;
        }
        if memory.capacity() < PIECE {
            let _ = memory.try_reclaim(PIECE);
        }
        if memory.capacity() == PIECE && self.available < PIECES {
            self.pieces[self.available] = Some(memory);
            self.available += 1;
            self.created = self.created.max(self.available);
        }
    }

    /// Creates a small piece. Returns `false` if there are enough and none came back: then none is
    /// lent for a while.
    #[cold]
    fn make(&mut self) -> bool {
        if self.created == PIECES {
            self.created = 0;
            self.splits_left = SPLITS;
            return false;
        }
        self.created += 1;
        self.available = 1;
        self.pieces[0] = Some(counted(PIECE));
        true
    }

    /// Makes room for `size` bytes: in the given memory if it is no longer shared, else in new
    /// memory.
    #[cold]
    fn refill(&mut self, memory: Option<BytesMut>, size: usize) -> BytesMut {
        if self.lent_addr != 0 {
            self.lent_addr = 0;
            self.splits_left = SPLITS;
        }
        let mut memory = memory.unwrap_or_default();
        if memory.try_reclaim(size) {
            memory
        } else {
            counted(size)
        }
    }
}

/// Creates memory with reference counting from the start, so that lending it allocates nothing.
pub(super) fn counted(size: usize) -> BytesMut {
    let mut memory = BytesMut::with_capacity(size);
    drop(memory.split_off(memory.capacity()));
    memory
}

/// Receives at most `most` bytes into `memory`, which is empty.
#[inline(always)]
fn fill(memory: &mut BytesMut, stream: StreamRef<'_>, most: usize) -> io::Result<()> {
    debug_assert!(memory.is_empty(), "what came before was taken out");
    let room = memory.spare_capacity_mut();
    let most = most.min(room.len());
    let count = receive(stream, &mut room[..most])?;
    // SAFETY: `receive` wrote the first `count` bytes of the spare capacity, and `count` is at most
    // its length; the memory was empty.
    unsafe { memory.set_len(count) };
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Memory that comes back is used again, and no other memory is.

    use std::os::unix::net;

    use bytes::Buf;

    use super::*;
    use crate::sys::{Adopted, StreamSocket, UnixStream, send};

    type Ends = (StreamSocket<UnixStream>, StreamSocket<UnixStream>);

    fn pair() -> Ends {
        let (one, other) = net::UnixStream::pair().unwrap();
        let end = |one| StreamSocket::new(UnixStream::adopt(one).unwrap());
        (end(one), end(other))
    }

    fn receive(chunk: &mut Chunk, ends: &Ends, sent: &[u8]) -> Bytes {
        assert_eq!(send(ends.0.as_stream(), sent).unwrap(), sent.len());
        let bytes = chunk.receive(ends.1.as_stream(), 64).unwrap();
        assert_eq!(bytes, sent);
        bytes
    }

    #[test]
    fn memory_that_comes_back_is_received_into_again() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let first = receive(&mut chunk, &ends, b"one");
        let at = first.as_ptr();
        chunk.give_back(first, &mut None);
        let second = receive(&mut chunk, &ends, b"two");
        assert_eq!(second.as_ptr(), at);
    }

    #[test]
    fn several_are_out_at_a_time_and_each_is_received_into_again() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let out: Vec<_> = (0..PIECES)
            .map(|at| receive(&mut chunk, &ends, &[at as u8]))
            .collect();
        let mut places: Vec<_> = out.iter().map(|bytes| bytes.as_ptr()).collect();
        for bytes in out {
            chunk.give_back(bytes, &mut None);
        }
        places.reverse();
        let again: Vec<_> = (0..PIECES)
            .map(|_| receive(&mut chunk, &ends, b"x"))
            .collect();
        let same: Vec<_> = again.iter().map(|bytes| bytes.as_ptr()).collect();
        assert_eq!(same, places, "the last one back is the first one used");
    }

    #[test]
    fn what_is_kept_stays_as_it_is_and_later_ones_share_a_large_piece() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let kept: Vec<_> = (0..PIECES)
            .map(|at| receive(&mut chunk, &ends, &[at as u8; 3]))
            .collect();
        let second = receive(&mut chunk, &ends, b"second");
        let third = receive(&mut chunk, &ends, b"third");
        assert_eq!(second.as_ptr_range().end, third.as_ptr());
        for (at, kept) in kept.iter().enumerate() {
            assert_eq!(**kept, [at as u8; 3]);
        }
        assert_eq!(&*second, b"second");
    }

    #[test]
    fn a_failed_receive_keeps_its_memory() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        for most in [64, PIECE + 1] {
            for _ in 0..=PIECES {
                let why = chunk.receive(ends.1.as_stream(), most).unwrap_err();
                assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
            }
        }
        assert_eq!(
            (chunk.available, chunk.created, chunk.splits_left),
            (1, 1, 0)
        );
        assert!(chunk.large.is_some());
    }

    #[test]
    fn a_large_read_has_its_own_piece_which_comes_back_too() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let mut large = |sent: &[u8]| {
            assert_eq!(send(ends.0.as_stream(), sent).unwrap(), sent.len());
            let bytes = chunk.receive(ends.1.as_stream(), 20_000).unwrap();
            let at = bytes.as_ptr();
            chunk.give_back(bytes, &mut None);
            at
        };
        assert_eq!(large(&[1; 3000]), large(&[2; 20_000]));
    }

    #[test]
    fn a_part_that_is_still_referenced_is_not_overwritten() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let whole = receive(&mut chunk, &ends, b"whole");
        let part = whole.slice(1..3);
        chunk.give_back(whole, &mut None);
        let next = receive(&mut chunk, &ends, b"other");
        assert_eq!((&*part, &*next), (&b"ho"[..], &b"other"[..]));
    }

    #[test]
    fn bytes_of_another_chunk_are_not_taken() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let lent = receive(&mut chunk, &ends, b"lent");
        let at = lent.as_ptr();
        chunk.give_back(Bytes::from(vec![7; 4096]), &mut None);
        chunk.give_back(Bytes::from(vec![7; 64]), &mut None);
        chunk.give_back(Bytes::from_static(b"for ever"), &mut None);
        chunk.give_back(lent, &mut None);
        assert_eq!(receive(&mut chunk, &ends, b"next").as_ptr(), at);
    }

    #[test]
    fn lending_is_tried_again_after_a_while() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        for _ in 0..PIECES {
            drop(receive(&mut chunk, &ends, b"dropped"));
        }
        for _ in 0..SPLITS {
            drop(receive(&mut chunk, &ends, b"cut"));
        }
        let lent = receive(&mut chunk, &ends, b"lent");
        let at = lent.as_ptr();
        chunk.give_back(lent, &mut None);
        assert_eq!(receive(&mut chunk, &ends, b"again").as_ptr(), at);
    }

    #[test]
    fn consumed_memory_comes_back_even_if_its_start_was_cut_off() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let mut lent = Lent::default();
        for most in [64, 20_000] {
            let mut places = Vec::new();
            for _ in 0..3 * PIECES {
                send(ends.0.as_stream(), b"consumed").unwrap();
                let mut bytes = chunk.receive(ends.1.as_stream(), most).unwrap();
                places.push(bytes.as_ptr());
                bytes.advance(3);
                assert!(lent.give_back(bytes).is_none());
                lent.return_consumed(&mut chunk);
            }
            assert!(places.iter().all(|place| *place == places[0]), "{most}");
        }
        assert_eq!((chunk.created, chunk.splits_left), (1, 0));
    }

    #[test]
    fn memory_that_was_written_into_is_told_from_a_piece_that_is_missing() {
        let (mut chunk, ends) = (Chunk::default(), pair());
        let mut lent = Some(Box::<Lent>::default());
        let piece = receive(&mut chunk, &ends, b"piece");
        let output = |lent: &mut Option<Box<Lent>>| {
            let lent = lent.as_mut().unwrap();
            lent.begin_output();
            lent.output().extend_from_slice(b"output");
            lent.take_output().unwrap()
        };
        let first = output(&mut lent);
        let (piece_at, output_at) = (piece.as_ptr(), first.as_ptr());
        assert!(chunk.give_back(first, &mut lent).is_none());
        assert!(chunk.give_back(piece, &mut lent).is_none());
        assert_eq!(output(&mut lent).as_ptr(), output_at);
        assert_eq!(receive(&mut chunk, &ends, b"next").as_ptr(), piece_at);
    }
}
