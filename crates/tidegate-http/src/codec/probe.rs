//! Counts the bytes that the head's scan and parser inspect, in unit tests only.
//!
//! The count shows that a head in one-byte segments costs linear work.

#[cfg(test)]
pub(super) use self::counting::{inspected, take};
#[cfg(not(test))]
pub(super) use self::nothing::inspected;

#[cfg(not(test))]
mod nothing {
    /// Does nothing.
    #[inline(always)]
    pub(in crate::codec) fn inspected(_: usize) {}
}

#[cfg(test)]
mod counting {
    use std::cell::Cell;

    thread_local! {
        static INSPECTED: Cell<usize> = const { Cell::new(0) };
    }

    /// Adds `bytes` to the count of this thread.
    pub(in crate::codec) fn inspected(bytes: usize) {
        INSPECTED.set(INSPECTED.get() + bytes);
    }

    /// Returns the count of this thread, and sets it to zero.
    pub(in crate::codec) fn take() -> usize {
        INSPECTED.replace(0)
    }
}
