//! What a loop was built with and its thread needs.

use std::time::Duration;

use crate::core::budget::Spans;

/// What a loop was built with and its thread needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether each task is timed.
    pub(crate) time_tasks: bool,
    /// How fine the wheel for coarse timeouts is.
    pub(crate) timeout_tick: Duration,
    /// How long a turn may spend on each kind of work.
    pub(crate) spans: Spans,
    /// Whether an idle thread may look a while before it sleeps.
    pub(crate) spin: bool,
    /// The loop's thread must not block.
    pub(crate) pinned: bool,
    /// A strategy drives the loop: what the loop itself runs must not block.
    pub(crate) driven: bool,
    /// Nanoseconds of idleness after which the loop gives its thread back; 0 means never.
    pub(crate) idle_stop: u64,
}
