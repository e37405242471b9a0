//! Timers on the loop of a channel.

use std::time::Duration;

use tidegate_loop::internal::{LoopScheduler, TimerLink};
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
    with_timers(shared, |timers| timers.schedule(after, work).ok())
}

/// Runs `work` like [`schedule`], and returns a link that cancels it.
pub(super) fn schedule_linked(
    shared: &Shared,
    after: Duration,
    work: TimedWork,
) -> Option<(Completion<()>, TimerLink)> {
    with_timers(shared, |timers| timers.schedule_linked(after, work).ok())
}

/// Runs `work` on the channel's loop after a delay of `after`, up to a tick late. Returns `None` if
/// the loop accepts no more timers. Called on that loop, or in a task of it.
pub(super) fn schedule_coarse(
    shared: &Shared,
    after: Duration,
    work: impl FnOnce() + Send + 'static,
) -> Option<CoarseTimer> {
    with_timers(shared, |timers| timers.schedule_coarse(after, work).ok())
}

fn with_timers<T>(
    shared: &Shared,
    schedule: impl FnOnce(&LoopScheduler) -> Option<T>,
) -> Option<T> {
    match shared.roam() {
        Some(roam) => schedule(roam.timers()?),
        None => schedule(&EventLoop::current()?.timers()),
    }
}

/// The timers of a channel's handlers, with the ids of the handlers. They end with this value.
///
/// Those that have run are removed when others need their memory.
#[derive(Debug, Default)]
pub(super) struct HandlerTimers(Vec<(u32, TimerLink)>);

impl HandlerTimers {
    pub(super) fn add(&mut self, handler: u32, timer: TimerLink) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|(_, timer)| timer.is_pending());
            self.0.reserve(self.0.len() + 1);
        }
        self.0.push((handler, timer));
    }

    /// Cancels the timers of a handler.
    pub(super) fn end_of(&mut self, handler: u32) {
        let ended = self.0.extract_if(.., |(own, _)| *own == handler);
        ended.for_each(|(_, timer)| timer.cancel());
    }
}

impl Drop for HandlerTimers {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, timer)| timer.cancel());
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::ManualClock;

    use super::*;

    #[test]
    fn timers_that_have_run_are_not_kept() {
        let home = EventLoop::builder("alone").clock(ManualClock::new());
        let (home, mut hand) = home.build_manual().unwrap();
        let mut timers = HandlerTimers::default();
        for round in 0..1_000 {
            let after = match round % 100 {
                0 => Duration::from_secs(1),
                _ => Duration::ZERO,
            };
            let (_done, link) = home.timers().schedule_linked(after, || ()).unwrap();
            timers.add(7, link);
            while hand.turn() {}
        }
        assert!(timers.0.len() <= 32, "{} are kept", timers.0.len());
        timers.end_of(8);
        let pending = timers.0.iter().filter(|(_, timer)| timer.is_pending());
        assert_eq!(pending.count(), 10);
        timers.end_of(7);
        while hand.turn() {}
        assert_eq!((timers.0.len(), home.metrics().timers_pending), (0, 0));
    }
}
