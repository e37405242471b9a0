//! The policies for a task that an event loop cannot accept; `execute.rs` applies them.

use std::fmt;
use std::time::Duration;

use tidegate_core::executor::RejectHandler;

/// What an event loop does with a task that does not fit into its lane.
///
/// A closed event loop always refuses; the policy applies only to a full one.
#[derive(Clone, Default)]
pub enum RejectPolicy {
    /// Returns the task at once.
    #[default]
    Fail,
    /// Wakes the event loop, waits for `pause` and tries again, up to `attempts` times; then
    /// returns the task. On the event loop's own thread, where waiting would be a deadlock, and on
    /// any other thread that must not block, it returns the task at once. A long pause also ends
    /// when the event loop ends.
    Backoff {
        /// How often to try again; at least once.
        attempts: u32,
        /// How long to wait before each attempt.
        pause: Duration,
    },
    /// Calls the closure with the refusal. The closure either handles the task or returns the
    /// refusal. It runs on the submitter's thread. A future can only be polled by its event loop: if
    /// the closure runs or drops the task of a `spawn`, that call returns the future as refused.
    With(RejectHandler),
}

impl fmt::Debug for RejectPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail => f.write_str("Fail"),
            Self::Backoff { attempts, pause } => f
                .debug_struct("Backoff")
                .field("attempts", attempts)
                .field("pause", pause)
                .finish(),
            Self::With(_) => f.write_str("With(..)"),
        }
    }
}
