//! Timers on the loop of a channel.

use std::time::Duration;

use tidegate_loop::{CoarseTimer, EventLoop};
use tidegate_promise::Completion;

use super::shared::Shared;

/// The work of a timer. Boxed, because a timer and its completion are compiled for each type.
pub(crate) type TimedWork = Box<dyn FnOnce() + Send>;

/// Runs `work` on the channel's loop after a delay of `after`. Returns `None` if the loop accepts
/// no more timers.
pub(super) fn schedule(
    shared: &Shared,
    after: Duration,
    work: TimedWork,
) -> Option<Completion<()>> {
    match shared.roam() {
        Some(roam) => roam.timers()?.schedule(after, work).ok(),
        None => EventLoop::current()?.schedule(after, work).ok(),
    }
}

/// Runs `work` on the channel's loop after a delay of `after`, up to a tick late. Returns `None` if
/// the loop accepts no more timers. Called on that loop, or in a task of it.
pub(super) fn schedule_coarse(
    shared: &Shared,
    after: Duration,
    work: impl FnOnce() + Send + 'static,
) -> Option<CoarseTimer> {
    match shared.roam() {
        Some(roam) => roam.timers()?.schedule_coarse(after, work).ok(),
        None => EventLoop::current()?.schedule_coarse(after, work).ok(),
    }
}
