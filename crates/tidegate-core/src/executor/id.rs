//! The identity of an executor.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identity of an executor: unique in the process, never reused.
///
/// ```
/// use tidegate_core::executor::ExecutorId;
///
/// assert_ne!(ExecutorId::next(), ExecutorId::next());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutorId(NonZeroU64);

/// The bit that marks the identity of an executor's end.
const END: u64 = 1 << 63;

impl ExecutorId {
    /// Returns the next free identity.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(NonZeroU64::new(id).expect("2^64 executors are more than one process can make"))
    }

    /// Returns the identity as a number, never zero.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the identity of this executor's end. The home of a completion has this identity if
    /// the completion ends only when every running task of the executor has returned.
    #[doc(hidden)]
    pub fn end(self) -> Self {
        Self(self.0 | END)
    }

    /// Returns the identity of the executor, and `true` if `self` is the identity of its end.
    pub(crate) fn of_end(self) -> (Self, bool) {
        match NonZeroU64::new(self.0.get() & !END) {
            Some(id) => (Self(id), id != self.0),
            None => (self, false),
        }
    }
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
