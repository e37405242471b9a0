//! The received bytes of a connection: as they came from the socket, or joined from several reads.

use std::ops::{Deref, Range};

use bytes::{Buf, Bytes, BytesMut};

/// Received bytes that are consumed from their beginning.
pub(crate) trait Input: Deref<Target = [u8]> + Buf {
    /// Removes the first `consumed` bytes and returns those in `range` of them, without a copy.
    fn take_part(&mut self, consumed: usize, range: Range<usize>) -> Bytes;

    /// Returns what was not consumed, if there is something, so that more bytes can be appended, and the
    /// memory that is no longer needed.
    fn keep(self) -> (Option<BytesMut>, Bytes);
}

/// Bytes as they came from the socket. Consuming them moves a position: whole, their memory goes back
/// to the loop at less cost than a rest of it, which has to be extended first.
pub(crate) struct Received {
    bytes: Bytes,
    at: usize,
}

impl Received {
    /// Returns a part of the bytes that are not consumed, without a copy.
    pub(crate) fn slice(&self, range: Range<usize>) -> Bytes {
        let (bytes, range) = self.within(range);
        bytes.slice(range)
    }

    /// Returns all bytes, and where this part of those that are not consumed is in them.
    #[inline]
    pub(crate) fn within(&self, range: Range<usize>) -> (&Bytes, Range<usize>) {
        (&self.bytes, self.at + range.start..self.at + range.end)
    }
}

impl From<Bytes> for Received {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        Self { bytes, at: 0 }
    }
}

impl Deref for Received {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.at..]
    }
}

impl Buf for Received {
    #[inline]
    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        self
    }

    #[inline]
    fn advance(&mut self, consumed: usize) {
        assert!(consumed <= self.remaining(), "no more than there is");
        self.at += consumed;
    }
}

impl Input for Received {
    fn take_part(&mut self, consumed: usize, range: Range<usize>) -> Bytes {
        let (start, end) = (self.at + range.start, self.at + range.end);
        self.advance(consumed);
        if self.at < self.bytes.len() {
            return self.bytes.slice(start..end);
        }
        // All is consumed, and the part need not share its memory.
        self.at = 0;
        let mut taken = std::mem::take(&mut self.bytes);
        taken.truncate(end);
        taken.advance(start);
        taken
    }

    #[inline]
    fn keep(self) -> (Option<BytesMut>, Bytes) {
        // Memory of the loop is not kept: it goes back.
        let kept = match self.at < self.bytes.len() {
            true => Some(BytesMut::from(&self[..])),
            false => None,
        };
        (kept, self.bytes)
    }
}

impl Input for BytesMut {
    fn take_part(&mut self, consumed: usize, range: Range<usize>) -> Bytes {
        let mut taken = self.split_to(consumed);
        taken.truncate(range.end);
        taken.advance(range.start);
        taken.freeze()
    }

    fn keep(self) -> (Option<BytesMut>, Bytes) {
        // An idle connection holds no memory.
        let kept = match self.is_empty() {
            true => None,
            false => Some(self),
        };
        (kept, Bytes::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_bytes_go_back_whole() {
        let bytes = Bytes::from(b"head and body".to_vec());
        let (at, mut input) = (bytes.as_ptr(), Received::from(bytes));
        input.advance(5);
        assert_eq!((&input[..], input.remaining()), (&b"and body"[..], 8));
        let (kept, spent) = input.keep();
        assert_eq!((&kept.unwrap()[..], spent.as_ptr()), (&b"and body"[..], at));
        assert_eq!(spent, "head and body");
    }

    #[test]
    fn a_part_is_not_copied_and_the_last_one_takes_the_memory() {
        let bytes = Bytes::from(b"head5\r\nhello".to_vec());
        let (at, mut input) = (bytes.as_ptr(), Received::from(bytes));
        input.advance(4);
        let size = input.take_part(3, 0..1);
        assert_eq!((&size[..], size.as_ptr()), (&b"5"[..], at.wrapping_add(4)));
        drop(size);
        let data = input.take_part(5, 0..5);
        assert_eq!(
            (&data[..], data.as_ptr()),
            (&b"hello"[..], at.wrapping_add(7))
        );
        assert!(input.is_empty() && data.is_unique());
        let (kept, spent) = input.keep();
        assert!(kept.is_none() && spent.is_empty());
    }
}
