//! Memory for the heads of requests: those of a thread share blocks, so that few are allocated.
//!
//! A block is used again when all of its heads are sent. The heads of one turn of the loop are sent at
//! its end, so two blocks are used in turn: when one is full, the heads of the other are usually sent.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

use crate::codec::OwnedRequestHead;

/// The size of a block, and of the largest head that shares one.
const BLOCK: usize = 8 * 1024;
const LARGEST: usize = BLOCK / 4;

thread_local! {
    /// The rests of the two blocks. The first one is in use.
    static RESTS: RefCell<[BytesMut; 2]> = RefCell::default();
}

/// Returns the encoded head.
pub(super) fn encoded(head: &OwnedRequestHead) -> Bytes {
    let length = head.encoded_len();
    if length > LARGEST {
        return head.to_bytes();
    }
    let shared = RESTS.try_with(|rests| {
        let mut rests = rests.try_borrow_mut().ok()?;
        if rests[0].capacity() < length {
            rests.swap(0, 1);
            // Uses the whole block again, if it can.
            rests[0].reserve(BLOCK);
        }
        let rest = &mut rests[0];
        head.encode(rest);
        Some(rest.split().freeze())
    });
    shared.ok().flatten().unwrap_or_else(|| head.to_bytes())
}

#[cfg(test)]
mod tests {
    //! What is shared, and what is used again.

    use std::collections::HashSet;

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
        // Those of one turn may fill a block. Then they are all sent, and the memory is used again.
        let mut places = HashSet::new();
        for _ in 0..100 {
            let turn: Vec<Bytes> = (0..BLOCK / small.encoded_len())
                .map(|_| encoded(&small))
                .collect();
            places.extend(turn.iter().map(|head| head.as_ptr() as usize / 64));
        }
        assert!(places.len() <= 2 * (BLOCK / 64 + 2), "{}", places.len());
    }
}
