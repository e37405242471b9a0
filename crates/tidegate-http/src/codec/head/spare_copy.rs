//! Memory for copies of heads, which a thread uses in turn: a proxy copies the head of each request.

use std::cell::RefCell;

use super::table::Span;

/// The largest memory that is kept.
const LARGEST: usize = 4 * 1024;
const MOST_FIELDS: usize = 64;
/// How many copies of a thread are dropped and made at once, usually.
const KEPT: usize = 128;

/// The memory of one copy: its bytes and its offsets.
type Memory = (Vec<u8>, Vec<Span>);

thread_local! {
    static SPARE: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Takes memory for a copy. It is empty, and may have no capacity.
#[inline]
pub(super) fn take() -> Memory {
    let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop());
    spare.ok().flatten().unwrap_or_default()
}

/// Keeps the memory of a copy that was dropped.
#[inline]
pub(super) fn put_back(mut bytes: Vec<u8>, mut spans: Vec<Span>) {
    bytes.clear();
    spans.clear();
    let fits = (1..=LARGEST).contains(&bytes.capacity()) && spans.capacity() <= MOST_FIELDS;
    if !fits {
        return;
    }
    let _ = SPARE.try_with(|spare| {
        if let Ok(mut spare) = spare.try_borrow_mut()
            && spare.len() < KEPT
        {
            spare.push((bytes, spans));
        }
    });
}

#[cfg(test)]
mod tests {
    //! What is kept.

    use super::*;

    #[test]
    fn memory_is_used_again_unless_it_is_large() {
        put_back(Vec::new(), Vec::new());
        put_back(Vec::with_capacity(LARGEST + 1), Vec::new());
        put_back(vec![1], Vec::with_capacity(MOST_FIELDS + 1));
        assert_eq!(take().0.capacity(), 0);
        for _ in 0..2 * KEPT {
            put_back(vec![1, 2, 3], Vec::with_capacity(4));
        }
        let kept: Vec<Memory> = (0..2 * KEPT).map(|_| take()).collect();
        assert!(kept.iter().all(|memory| memory.0.is_empty()));
        let again = kept.iter().filter(|memory| memory.0.capacity() > 0);
        assert_eq!(again.count(), KEPT);
    }
}
