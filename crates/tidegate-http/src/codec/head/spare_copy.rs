//! Memory for copies of heads, which a thread uses in turn: a proxy copies the head of each request.

use std::ops::{Deref, DerefMut};

use tidegate_core::internal::Spares;

use super::patch::Patchable;
use super::table::{Info, Span};

/// The largest memory that is kept.
const LARGEST: usize = 4 * 1024;
const MOST_FIELDS: usize = 64;
/// How many copies of a thread are dropped and made at once, usually.
const KEPT: usize = 128;

const IN_USE: &str = "only `drop` takes the copy";

thread_local! {
    static SPARE: Spares<Box<Patchable>> = const { Spares::new(KEPT) };
}

/// A copy of a head, in memory that serves for another copy after it. A box, because a proxy moves it
/// several times.
#[derive(Debug, Clone)]
pub(super) struct CopyBox {
    /// `None` only while it is being dropped.
    copy: Option<Box<Patchable>>,
}

impl CopyBox {
    pub(super) fn new(copy: Box<Patchable>) -> Self {
        Self { copy: Some(copy) }
    }

    /// Copies a head.
    pub(super) fn of(head: &[u8], received: &[Span], info: &Info) -> Self {
        let mut copy = take();
        copy.fill(head, received, info);
        Self::new(copy)
    }
}

impl Deref for CopyBox {
    type Target = Patchable;

    #[inline]
    fn deref(&self) -> &Patchable {
        self.copy.as_ref().expect(IN_USE)
    }
}

impl DerefMut for CopyBox {
    #[inline]
    fn deref_mut(&mut self) -> &mut Patchable {
        self.copy.as_mut().expect(IN_USE)
    }
}

/// The memory serves for another copy.
impl Drop for CopyBox {
    fn drop(&mut self) {
        if let Some(copy) = self.copy.take() {
            put_back(copy);
        }
    }
}

/// Takes memory for a copy. It has no bytes and fields, and may have no capacity.
#[inline]
pub(super) fn take() -> Box<Patchable> {
    Spares::take(&SPARE).unwrap_or_else(|| Box::new(Patchable::empty()))
}

/// Keeps the memory of a copy that was dropped.
#[inline]
fn put_back(mut copy: Box<Patchable>) {
    copy.bytes.clear();
    copy.spans.clear();
    if (1..=LARGEST).contains(&copy.bytes.capacity()) && copy.spans.capacity() <= MOST_FIELDS {
        Spares::put_back(&SPARE, copy);
    }
}

#[cfg(test)]
mod tests {
    //! What is kept.

    use super::*;

    /// Makes a copy with memory of this size.
    fn copy(bytes: usize, fields: usize) -> CopyBox {
        let mut copy = Box::new(Patchable::empty());
        copy.bytes = Vec::with_capacity(bytes);
        copy.bytes.resize(bytes, 1);
        copy.spans = Vec::with_capacity(fields);
        CopyBox::new(copy)
    }

    #[test]
    fn memory_is_used_again_unless_it_is_large() {
        drop(copy(0, 0));
        drop(copy(LARGEST + 1, 0));
        drop(copy(1, MOST_FIELDS + 1));
        assert_eq!(take().bytes.capacity(), 0);
        drop((0..2 * KEPT).map(|_| copy(3, 4)).collect::<Vec<_>>());
        let kept: Vec<_> = (0..2 * KEPT).map(|_| take()).collect();
        assert!(kept.iter().all(|copy| copy.bytes.is_empty()));
        let again = kept.iter().filter(|copy| copy.bytes.capacity() > 0);
        assert_eq!(again.count(), KEPT);
    }

    #[test]
    fn what_the_memory_held_before_is_not_part_of_a_later_copy() {
        let info = Info::EMPTY;
        let mut first = CopyBox::of(b"GET / HTTP/1.1\r\n\r\n", &[], &info);
        first.append("X-Secret", b"1").unwrap();
        first.is_text = true;
        let place = first.bytes.as_ptr();
        drop(first);
        let again = CopyBox::of(b"GET / HTTP/1.1\r\n\r\n", &[], &info);
        assert_eq!(again.bytes.as_ptr(), place);
        assert_eq!(again.bytes, b"GET / HTTP/1.1\r\n\r\n");
        assert!(again.spans.is_empty() && !again.is_text);
    }
}
