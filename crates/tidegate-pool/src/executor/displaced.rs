//! Jobs that are dropped to make room for others, and the failure of their completions.

use std::cell::Cell;
use std::error::Error;
use std::fmt;

/// The failure of an accepted job that was dropped: to make room for another, because its queue shed
/// it, or because its pool has no thread and can start none.
///
/// ```
/// use tidegate_pool::DisplacedError;
/// use tidegate_promise::Failure;
///
/// let failure = Failure::new(DisplacedError);
/// assert!(failure.downcast_ref::<DisplacedError>().is_some());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DisplacedError;

impl fmt::Display for DisplacedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the job was displaced: its queue was full or shed it, or its pool has no thread; \
             submit it again or shed load",
        )
    }
}

impl Error for DisplacedError {}

tidegate_core::debug_as_display!(DisplacedError);

thread_local! {
    /// `true` while this thread drops a displaced job, until the promise of that job has seen it.
    /// The promise of a closure takes it in `Drop`, so that no task needs a field for it.
    static DISPLACING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `drop`; the job that it drops counts as displaced.
pub(crate) fn displacing(drop: impl FnOnce()) {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            DISPLACING.set(self.0);
        }
    }
    let _restore = Restore(DISPLACING.replace(true));
    drop();
}

/// Returns `true` while this thread drops a displaced job.
pub(crate) fn is_displacing() -> bool {
    DISPLACING.try_with(Cell::get).unwrap_or(false)
}

/// Does the same for the promise of the job. Promises that are dropped after it are not displaced.
pub(super) fn take_displacing() -> bool {
    DISPLACING.try_with(Cell::take).unwrap_or(false)
}
