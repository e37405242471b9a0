//! The received bytes of a connection: as they came from the socket, or joined from several reads.

use std::ops::{Deref, Range};

use bytes::{Buf, Bytes, BytesMut};

/// The most bytes of a part of a body that is joined with others: to copy them costs less than to pass a
/// part on.
const SMALL: usize = 1024;
/// The most bytes of joined parts.
const JOINED: usize = 16 * 1024;

/// Removes the first `consumed` bytes, and returns the part of a body in `range` of them. Small chunks
/// behind a small part are joined with it; `next_chunk` returns the next one of at most so many bytes.
///
/// Each part costs its receivers the same, whatever its size. A peer that sends chunks of a few bytes
/// would otherwise cost much more than it spends.
pub(crate) fn take_data(
    input: &mut Received,
    consumed: usize,
    range: Range<usize>,
    mut next_chunk: impl FnMut(&[u8], usize) -> Option<(usize, Range<usize>)>,
) -> Bytes {
    if range.len() > SMALL || consumed == input.len() {
        return input.take_part(consumed, range);
    }
    let Some((more, second)) = next_chunk(&input[consumed..], SMALL) else {
        return input.take_part(consumed, range);
    };
    let mut joined = BytesMut::from(&input[range]);
    input.advance(consumed);
    joined.extend_from_slice(&input[second]);
    input.advance(more);
    while joined.len() <= JOINED - SMALL
        && let Some((consumed, range)) = next_chunk(input, SMALL)
    {
        joined.extend_from_slice(&input[range]);
        input.advance(consumed);
    }
    joined.freeze()
}

/// Received bytes that are consumed from their beginning: as they came from the socket, or joined.
/// Consuming them moves a position: whole, memory goes back to the loop at less cost than a rest of it,
/// which has to be extended first.
pub(crate) struct Received {
    bytes: Bytes,
    at: usize,
    /// The memory is not that of a read.
    is_joined: bool,
}

impl Received {
    /// Bytes of several reads.
    pub(crate) fn joined(bytes: BytesMut) -> Self {
        Self {
            bytes: bytes.freeze(),
            at: 0,
            is_joined: true,
        }
    }

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

    /// Removes the first `consumed` bytes and returns those in `range` of them, without a copy.
    pub(crate) fn take_part(&mut self, consumed: usize, range: Range<usize>) -> Bytes {
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

    /// Returns what was not consumed, if there is something, so that more bytes can be appended, and the
    /// memory of the loop that is no longer needed.
    #[inline]
    pub(crate) fn keep(self) -> (Option<BytesMut>, Bytes) {
        if self.is_joined {
            return (self.keep_joined(), Bytes::new());
        }
        // Memory of the loop is not kept: it goes back.
        let kept = match self.at < self.bytes.len() {
            true => Some(BytesMut::from(&self[..])),
            false => None,
        };
        (kept, self.bytes)
    }

    /// Keeps the memory, unless something else uses a part of it. An idle connection holds none.
    #[cold]
    fn keep_joined(mut self) -> Option<BytesMut> {
        self.bytes.advance(self.at);
        if self.bytes.is_empty() {
            return None;
        }
        let kept = self.bytes.try_into_mut();
        Some(kept.unwrap_or_else(|shared| BytesMut::from(&shared[..])))
    }
}

impl From<Bytes> for Received {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            at: 0,
            is_joined: false,
        }
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

#[cfg(test)]
mod tests {
    use tidegate_testkit::model;

    use super::*;
    use crate::codec::{BodyEvent, BodyLimits, HeadLimits, HeadTable, RequestDecoder};

    /// A decoder at the beginning of a chunked body.
    fn chunked() -> RequestDecoder {
        let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
        let head = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut table = HeadTable::new();
        assert!(matches!(decoder.head(head, &mut table), Ok(Some(_))));
        decoder
    }

    /// Returns the parts of data up to the next other event, and that event.
    fn parts(decoder: &mut RequestDecoder, input: &mut Received) -> (Vec<Bytes>, BodyEvent) {
        let mut parts = Vec::new();
        loop {
            let step = decoder.body(input).unwrap();
            let BodyEvent::Data(range) = step.event else {
                input.advance(step.consumed);
                return (parts, step.event);
            };
            let chunk = |input: &[u8], most| decoder.small_chunk(input, most);
            parts.push(take_data(input, step.consumed, range, chunk));
        }
    }

    fn chunk(length: usize) -> String {
        format!("{length:x}\r\n{}\r\n", "x".repeat(length))
    }

    #[test]
    fn small_chunks_that_were_received_together_are_one_part() {
        let mut input = Received::from(Bytes::from("1\r\nx\r\n".repeat(10_000) + "0\r\n\r\n"));
        let (joined, end) = parts(&mut chunked(), &mut input);
        assert_eq!((joined.len(), end, input.len()), (1, BodyEvent::End, 0));
        assert_eq!(joined[0], "x".repeat(10_000));
    }

    #[test]
    fn large_chunks_are_passed_on_without_a_copy() {
        let bytes = Bytes::from(chunk(SMALL + 1) + &chunk(3) + &chunk(SMALL + 1) + &chunk(3));
        let mut input = Received::from(bytes.clone());
        let (large, end) = parts(&mut chunked(), &mut input);
        let lengths: Vec<_> = large.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [SMALL + 1, 3, SMALL + 1, 3]);
        assert_eq!(end, BodyEvent::More);
        let memory = bytes.as_ptr_range();
        assert!(large.iter().all(|part| memory.contains(&part.as_ptr())));
    }

    #[test]
    fn what_follows_joined_chunks_is_left_to_the_decoder() {
        let mut decoder = chunked();
        let mut input = Received::from(Bytes::from("1\r\na\r\n2\r\nbc\r\nzz\r\n"));
        let step = decoder.body(&input).unwrap();
        let BodyEvent::Data(range) = step.event else {
            panic!("{step:?}");
        };
        let next = |input: &[u8], most| decoder.small_chunk(input, most);
        assert_eq!(take_data(&mut input, step.consumed, range, next), "abc");
        assert!(
            decoder.refusal().is_none(),
            "the part comes before the refusal"
        );
        assert!(decoder.body(&input).is_err());
    }

    #[test]
    fn joined_parts_have_every_byte_once_wherever_the_input_is_split() {
        model(0..300, |rng| {
            let (mut body, mut wire) = (String::new(), String::new());
            for at in 0..rng.index(200) {
                let most = [4, 40, 2 * SMALL][rng.index(3)];
                let data = char::from(b'a' + (at % 26) as u8).to_string();
                let data = data.repeat(1 + rng.index(most));
                wire += &format!("{:x};e\r\n{data}\r\n", data.len());
                body += &data;
            }
            wire += "0\r\nSum: 1\r\n\r\n";
            let (mut decoder, mut got) = (chunked(), Vec::new());
            let (mut kept, mut rest) = (BytesMut::new(), wire.as_bytes());
            let mut events = Vec::new();
            while !events.contains(&BodyEvent::End) {
                let (now, later) = rest.split_at(rng.index(rest.len() + 1).max(rest.len().min(1)));
                rest = later;
                kept.extend_from_slice(now);
                let event = match kept.len() % 2 {
                    0 => {
                        let mut input = Received::from(std::mem::take(&mut kept).freeze());
                        let (parts, event) = parts(&mut decoder, &mut input);
                        got.extend(parts);
                        kept = input.keep().0.unwrap_or_default();
                        event
                    }
                    _ => {
                        let mut input = Received::joined(std::mem::take(&mut kept));
                        let (parts, event) = parts(&mut decoder, &mut input);
                        got.extend(parts);
                        kept = input.keep().0.unwrap_or_default();
                        event
                    }
                };
                events.push(event);
            }
            assert!(kept.is_empty() && rest.is_empty());
            assert!(got.iter().all(|part| part.len() <= JOINED));
            assert_eq!(got.concat(), body.as_bytes());
            events.retain(|event| *event != BodyEvent::More);
            assert_eq!(events.len(), 2, "the trailers and the end: {events:?}");
        });
    }

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
    fn joined_bytes_stay_where_they_are_unless_a_part_is_in_use() {
        let joined = || Received::joined(BytesMut::from(&b"head and body"[..]));
        let mut input = joined();
        let at = input.as_ptr();
        input.advance(5);
        let (kept, spent) = input.keep();
        let kept = kept.unwrap();
        assert_eq!(
            (&kept[..], kept.as_ptr()),
            (&b"and body"[..], at.wrapping_add(5))
        );
        assert!(spent.is_empty());
        let mut input = joined();
        let head = input.take_part(5, 0..4);
        assert_eq!(input.keep().0.unwrap(), "and body");
        assert_eq!(head, "head");
        let mut input = joined();
        input.advance(13);
        assert!(input.keep().0.is_none());
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
