//! Memory for responses that wait, which the connections of a thread use in turn: an idle connection
//! holds none, and a proxy, whose responses all wait, does not allocate it with each request.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::queue::Queued;

/// How many connections of a thread become idle and busy again at once, usually.
const KEPT: usize = 128;
/// The most responses whose memory is kept.
const LARGEST: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<VecDeque<Queued>>> = const { RefCell::new(Vec::new()) };
}

/// Takes memory for responses, which may have no capacity.
#[inline]
pub(super) fn take() -> VecDeque<Queued> {
    let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop());
    spare.ok().flatten().unwrap_or_default()
}

/// Keeps the memory of responses that were sent.
#[inline]
pub(super) fn put_back(slots: VecDeque<Queued>) {
    if !slots.is_empty() || !(1..=LARGEST).contains(&slots.capacity()) {
        return;
    }
    let _ = SPARE.try_with(|spare| {
        if let Ok(mut spare) = spare.try_borrow_mut()
            && spare.len() < KEPT
        {
            spare.push(slots);
        }
    });
}

#[cfg(test)]
mod tests {
    //! What is kept.

    use super::*;

    #[test]
    fn only_a_little_empty_memory_is_kept() {
        put_back(VecDeque::new());
        put_back(VecDeque::with_capacity(LARGEST + 1));
        assert_eq!(take().capacity(), 0);
        for _ in 0..2 * KEPT {
            put_back(VecDeque::with_capacity(4));
        }
        let kept = (0..2 * KEPT).filter(|_| take().capacity() > 0);
        assert_eq!(kept.count(), KEPT);
    }
}
