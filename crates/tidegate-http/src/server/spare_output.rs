//! Memory for deferred responses, which the connections of a thread use in turn.
//!
//! A response that is made on the thread of its connection, as by a proxy, allocates nothing: its
//! memory comes from here, and returns when the connection has copied it into the memory that it
//! sends. Responses of other threads only bring memory.

use std::cell::RefCell;

use bytes::BytesMut;

/// The largest response whose memory is kept, and the capacity of new memory.
pub(crate) const LARGEST: usize = 8 * 1024;
const FRESH: usize = 2 * 1024;
/// How many responses of a thread wait to be copied at once, usually.
const KEPT: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Takes memory for a response.
#[inline]
pub(crate) fn take() -> BytesMut {
    let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop());
    let spare = spare.ok().flatten();
    spare.unwrap_or_else(|| BytesMut::with_capacity(FRESH))
}

/// Keeps the memory of a response that was copied, for the next one.
#[inline]
pub(crate) fn put_back(mut memory: BytesMut) {
    memory.clear();
    // Neither memory that was split off nor much of it.
    if !(FRESH..=LARGEST).contains(&memory.capacity()) {
        return;
    }
    let _ = SPARE.try_with(|spare| {
        if let Ok(mut spare) = spare.try_borrow_mut()
            && spare.len() < KEPT
        {
            spare.push(memory);
        }
    });
}

#[cfg(test)]
mod tests {
    //! What is kept.

    use super::*;

    #[test]
    fn memory_is_used_again_unless_it_is_small_or_large() {
        let mut first = take();
        first.extend_from_slice(b"some");
        let place = first.as_ptr();
        put_back(first);
        let again = take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        for other in [0, 10, LARGEST + 1] {
            put_back(BytesMut::with_capacity(other));
        }
        assert_eq!(SPARE.with_borrow(Vec::len), 0);
        for _ in 0..2 * KEPT {
            put_back(BytesMut::with_capacity(FRESH));
        }
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}
