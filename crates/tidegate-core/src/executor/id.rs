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
/// The bit that marks any thread that an executor may have, also one that its tasks cannot rely on.
const ANY: u64 = 1 << 62;
/// The bit that marks the outcome of a task. The other bits are the address of its promise.
const TASK: u64 = 1 << 61;

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

    /// Returns what stands for any thread that this executor may have.
    pub(crate) fn any_thread(self) -> Self {
        Self(self.0 | ANY)
    }

    /// Returns the identity of the task whose promise is at `address`.
    pub(crate) fn of_promise(address: usize) -> Self {
        Self(NonZeroU64::MIN | address as u64 | TASK)
    }

    /// Returns the identity of the executor itself.
    pub(crate) fn place(self) -> Self {
        NonZeroU64::new(self.0.get() & !(END | ANY)).map_or(self, Self)
    }

    /// Returns `true` if this stands for the end of an executor.
    pub(crate) fn is_end(self) -> bool {
        self.0.get() & END != 0
    }

    /// Returns `true` if this stands for any thread that an executor may have.
    pub(crate) fn is_any_thread(self) -> bool {
        self.0.get() & ANY != 0
    }
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
