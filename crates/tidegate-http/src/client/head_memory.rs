//! Memory for the heads of requests: those of a thread share blocks, so that few are allocated.
//!
//! A block is used again when all of its heads are sent. A head is sent at once, unless its server
//! takes nothing, so few blocks are in use.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

use crate::codec::OwnedRequestHead;

/// The size of a block, and of the largest head that shares one.
const BLOCK: usize = 8 * 1024;
const LARGEST: usize = BLOCK / 4;

thread_local! {
    static REST: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// Returns the encoded head.
pub(super) fn encoded(head: &OwnedRequestHead) -> Bytes {
    let length = head.encoded_len();
    if length > LARGEST {
        return head.to_bytes();
    }
    let shared = REST.try_with(|rest| {
        let mut rest = rest.try_borrow_mut().ok()?;
        if rest.capacity() < length {
            // Also uses the whole block again, if it can.
            rest.reserve(BLOCK);
        }
        head.encode(&mut *rest).ok()?;
        Some(rest.split().freeze())
    });
    shared.ok().flatten().unwrap_or_else(|| head.to_bytes())
}

#[cfg(test)]
mod tests {
    //! What is shared, and what is used again.

    use super::*;
    use crate::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};

    fn head(value: &str) -> OwnedRequestHead {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n");
        let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
        let mut table = HeadTable::new();
        let head = decoder.head(text.as_bytes(), &mut table).unwrap().unwrap();
        let head = head.to_owned();
        assert_eq!(head.to_bytes(), text);
        head
    }

    #[test]
    fn heads_share_blocks_and_keep_their_content() {
        let heads: Vec<_> = (0..200).map(|n| head(&"x".repeat(n * 20))).collect();
        let all: Vec<Bytes> = heads.iter().map(encoded).collect();
        for (head, encoded) in heads.iter().zip(&all) {
            assert_eq!(*encoded, head.to_bytes());
        }
        drop(all);
        let small = head("y");
        let first = encoded(&small);
        let second = encoded(&small);
        assert_eq!(first.as_ptr_range().end, second.as_ptr());
        drop((first, second));
        // Nothing of it is in use, so its memory is: at most two blocks are there.
        let mut starts: Vec<_> = (0..10_000)
            .map(|_| encoded(&small).as_ptr() as usize / BLOCK)
            .collect();
        starts.sort_unstable();
        starts.dedup();
        assert!(starts.len() <= 4, "{starts:?}");
    }
}
