//! The settings from the builder that the event loop's thread needs.

use std::time::Duration;

use crate::core::budget::Spans;

/// The settings from the builder that the event loop's thread needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// `true` if the run time of each task is measured.
    pub(crate) time_tasks: bool,
    /// The tick of the wheel for coarse timeouts.
    pub(crate) coarse_tick: Duration,
    /// How long a turn may spend on each kind of work.
    pub(crate) spans: Spans,
    /// `true` if an idle thread may spin before it sleeps.
    pub(crate) spin: bool,
    /// `true` if the event loop's thread must not block.
    pub(crate) pinned: bool,
    /// `true` if a strategy drives the event loop: work that runs on the event loop itself must not
    /// block.
    pub(crate) driven: bool,
    /// Idle nanoseconds after which the event loop gives its thread back; 0 means never.
    pub(crate) idle_stop: u64,
}
