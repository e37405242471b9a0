//! The received bytes of a connection: as they came from the socket, or joined from several reads.

use std::ops::{Deref, Range};

use bytes::{Buf, Bytes, BytesMut};

/// Received bytes that are consumed from their beginning.
pub(crate) trait Input: Deref<Target = [u8]> + Buf {
    /// Removes the first `consumed` bytes and returns those in `range` of them, without a copy.
    fn take_part(&mut self, consumed: usize, range: Range<usize>) -> Bytes;

    /// Returns what was not consumed, so that more bytes can be appended, and the memory that is no
    /// longer needed.
    fn keep(self) -> (BytesMut, Bytes);
}

impl Input for Bytes {
    fn take_part(&mut self, consumed: usize, range: Range<usize>) -> Bytes {
        let mut taken = self.split_to(consumed);
        taken.truncate(range.end);
        taken.advance(range.start);
        taken
    }

    fn keep(self) -> (BytesMut, Bytes) {
        // Memory of the loop is not kept: it goes back.
        (BytesMut::from(&self[..]), self)
    }
}

impl Input for BytesMut {
    fn take_part(&mut self, consumed: usize, range: Range<usize>) -> Bytes {
        let mut taken = self.split_to(consumed);
        taken.truncate(range.end);
        taken.advance(range.start);
        taken.freeze()
    }

    fn keep(self) -> (BytesMut, Bytes) {
        // An idle connection holds no memory.
        let kept = match self.is_empty() {
            true => BytesMut::new(),
            false => self,
        };
        (kept, Bytes::new())
    }
}
