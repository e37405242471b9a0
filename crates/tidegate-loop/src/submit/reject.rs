//! The policies for a task that a loop cannot take; `execute.rs` follows them.

use std::fmt;
use std::time::Duration;

use tidegate_core::RejectWith;

/// What a loop does with a task for which its lane has no room.
///
/// A closed loop always refuses; the policy is about full ones.
#[derive(Clone, Default)]
pub enum RejectPolicy {
    /// Gives the task back at once.
    #[default]
    Fail,
    /// Wakes the loop, waits for `pause` and tries again, up to `attempts` times; then gives
    /// the task back. On the loop's own thread, where waiting would be a deadlock, and on any
    /// other that must not block, it gives it back at once. A pause ends early when the token of
    /// [`EventLoop::execute_with`](crate::EventLoop::execute_with) is tripped, and a long one when
    /// the loop ends.
    Backoff {
        /// How often to try again; at least once.
        attempts: u32,
        /// How long to wait before each.
        pause: Duration,
    },
    /// Asks the closure: it gets the refusal and either deals with the task or passes it on. It
    /// runs on the submitter's thread.
    With(RejectWith),
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
