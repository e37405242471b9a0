//! The error for a refused submission: it returns the value together with the reason.

use std::error::Error;
use std::fmt;

use crate::Task;
use crate::raw::by_value::ByValue;

/// A refused submission that returns the refused value.
///
/// It is `Send` and `Sync` if the value is `Send`, so `?` converts it into any boxed error.
///
/// ```
/// use tidegate_core::{Rejected, RejectReason};
///
/// let refused = Rejected::new(7, RejectReason::Full);
/// assert_eq!(refused.to_string(), "rejected: the queue is full; try again later or shed load");
/// assert!(refused.is_full() && !refused.is_shutdown());
/// assert_eq!(refused.into_inner(), 7);
/// ```
#[must_use = "the refused value is inside"]
pub struct Rejected<T> {
    value: ByValue<T>,
    why: RejectReason,
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectReason {
    /// The queue is full.
    Full,
    /// The executor no longer accepts work.
    Closed,
    /// No thread could be started to run the task.
    NoThread,
    /// No thread is idle at this moment, and the caller asked not to queue.
    Busy,
    /// The executor does not offer this operation.
    Unsupported,
}

impl<T> Rejected<T> {
    /// Creates a refusal of `value`.
    pub fn new(value: T, why: RejectReason) -> Self {
        Self {
            value: ByValue::new(value),
            why,
        }
    }

    /// Returns the reason of the refusal.
    pub fn why(&self) -> RejectReason {
        self.why
    }

    /// Returns `true` if the queue was full.
    pub fn is_full(&self) -> bool {
        self.why == RejectReason::Full
    }

    /// Returns `true` if the executor is shut down, or is shutting down.
    pub fn is_shutdown(&self) -> bool {
        self.why == RejectReason::Closed
    }

    /// Returns the refused value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Replaces the refused value with `f` of it and keeps the reason.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Rejected<U> {
        Rejected::new(f(self.value.into_inner()), self.why)
    }
}

impl<T> fmt::Debug for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> fmt::Display for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rejected: {}", self.why)
    }
}

impl<T> Error for Rejected<T> {}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the queue is full; try again later or shed load",
            Self::Closed => "the executor is shut down; submit to another one",
            Self::NoThread => "no thread could be started; try again when the system has room",
            Self::Busy => "no thread is free at this moment; queue it or run it yourself",
            Self::Unsupported => "this executor does not offer the operation",
        })
    }
}

/// The closure of a rejection policy: decides what happens to a task for which there is no room.
pub type RejectHandler =
    std::sync::Arc<dyn Fn(Rejected<Task>) -> Result<(), Rejected<Task>> + Send + Sync>;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Compiles only if a refusal of a value that is `Send` but not `Sync` is both.
    #[test]
    fn is_send_and_sync_for_every_value_that_is_send() {
        fn both<E: Error + Send + Sync + 'static>(error: E) -> Box<dyn Error + Send + Sync> {
            error.into()
        }
        let refused = Rejected::new(Cell::new(7), RejectReason::Closed);
        assert!(refused.is_shutdown() && !refused.is_full());
        assert!(
            both(refused)
                .downcast_ref::<Rejected<Cell<i32>>>()
                .is_some()
        );
    }
}
