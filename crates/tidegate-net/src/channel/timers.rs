//! Timers on the loop of a channel.

use std::cell::RefCell;
use std::time::Duration;

use tidegate_loop::{CoarseTimer, EventLoop};
use tidegate_promise::Completion;

use super::shared::Shared;

thread_local! {
    /// The loop of the channel whose handler runs on this thread, for the timers of that handler.
    static HOME: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
}

/// Sets the loop of the channel whose handler runs on this thread, away from that loop. Returns the
/// previous one.
pub(crate) fn replace_home(home: Option<EventLoop>) -> Option<EventLoop> {
    HOME.replace(home)
}

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
        None => {
            let home = HOME.with_borrow(Clone::clone).or_else(EventLoop::current)?;
            home.schedule(after, work).ok()
        }
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
