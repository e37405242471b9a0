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
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
