//! The deadlines of a channel's handlers.
//!
//! All deadlines of a channel share one coarse timer, which is set for the earliest of them or for a
//! time before it. Moving a deadline to a later time only stores the time. When the timer fires, the
//! channel checks its deadlines: those that are due are delivered, and the timer is set again for the
//! earliest of the others.
//!
//! # Invariants
//!
//! * `check` is not after any deadline, unless the loop accepts no more timers.
//! * A deadline is removed before it is delivered, so each is delivered once.
//! * A closed channel has none.

use std::time::Duration;

use tidegate_core::internal::as_nanos;
use tidegate_loop::CoarseTimer;

use super::channel_request::ChannelRequest;
use super::event::HandlerEvent;
use super::io::{ChannelIo, Rare};
use super::shared::Shared;
use super::timers::{self, HandlerTimers};

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// The deadlines of one channel.
#[derive(Debug)]
pub(crate) struct Deadlines {
    deadlines: Vec<Deadline>,
    /// When the timer fires, or has fired without a check since; `NEVER` without a timer.
    check: u64,
    timer: Option<CoarseTimer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    at: u64,
    /// The id of its handler.
    handler: u32,
    key: u8,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            deadlines: Vec::new(),
            check: NEVER,
            timer: None,
        }
    }
}

impl Deadline {
    /// Returns the id of the handler, and the event for it.
    pub(super) fn event(self) -> (u32, HandlerEvent) {
        (self.handler, HandlerEvent::Deadline(self.key))
    }
}

impl Deadlines {
    fn set(&mut self, handler: u32, key: u8, at: u64) {
        let mut all = self.deadlines.iter_mut();
        match all.find(|one| (one.handler, one.key) == (handler, key)) {
            Some(known) => known.at = at,
            None => self.deadlines.push(Deadline { at, handler, key }),
        }
    }

    fn earliest(&self) -> u64 {
        let times = self.deadlines.iter().map(|one| one.at);
        times.min().unwrap_or(NEVER)
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.cancel();
        }
    }
}

impl ChannelIo {
    /// Sets a deadline of `handler`, or moves it.
    pub(crate) fn set_handler_deadline(&mut self, handler: u32, key: u8, after: Duration) {
        let clock = self.shared.executor().clock();
        let now = self.lent.get_or_insert_default().coarse_nanos(clock);
        if self.state.is_closed() {
            return;
        }
        let at = now.saturating_add(as_nanos(after));
        let deadlines = &mut self.rare.get_or_insert_default().deadlines;
        deadlines.set(handler, key, at);
        if at < deadlines.check {
            self.set_check(at);
        }
    }

    /// Removes all deadlines and timers of handlers, because the channel is closed.
    pub(super) fn end_deadlines(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.deadlines = Deadlines::default();
            rare.timers = HandlerTimers::default();
        }
    }

    pub(crate) fn clear_deadline(&mut self, handler: u32, key: u8) {
        if let Some(rare) = &mut self.rare {
            let all = &mut rare.deadlines.deadlines;
            all.retain(|one| (one.handler, one.key) != (handler, key));
        }
    }

    /// Removes the deadlines and timers of a handler that is removed.
    pub(crate) fn clear_deadlines_of(&mut self, handler: u32) {
        if let Some(rare) = &mut self.rare {
            let all = &mut rare.deadlines.deadlines;
            all.retain(|one| one.handler != handler);
            rare.timers.end_of(handler);
        }
    }

    /// Sets the timer for the time `at`.
    #[cold]
    fn set_check(&mut self, at: u64) {
        let after = at.saturating_sub(self.shared.executor().clock().nanos());
        let after = Duration::from_nanos(after);
        let channel = self.weak();
        let Some(Rare { deadlines, .. }) = self.rare.as_deref_mut() else {
            return;
        };
        let timer = deadlines.timer.take();
        let timer = timer.filter(|timer| timer.reset(after)).or_else(|| {
            timers::schedule_coarse(&self.shared, after, move || {
                if let Some(channel) = channel.upgrade() {
                    // Refused: the channel is closed.
                    let _ = Shared::post(&channel, ChannelRequest::CheckDeadlines, true);
                }
            })
        });
        // A loop that accepts no more timers is shutting down, and closes its channels.
        deadlines.check = if timer.is_some() { at } else { NEVER };
        deadlines.timer = timer;
    }

    /// Returns the deadlines that are due, earliest first.
    pub(super) fn due_deadlines(&self) -> Vec<Deadline> {
        let now = self.shared.executor().clock().nanos();
        let all = self.rare.iter().flat_map(|rare| &rare.deadlines.deadlines);
        let mut due: Vec<Deadline> = Vec::new();
        for one in all.filter(|one| one.at <= now) {
            // There are few: one for each handler at most.
            let place = due.partition_point(|earlier| earlier.at <= one.at);
            due.insert(place, *one);
        }
        due
    }

    /// Removes `due` to deliver it. Returns `false` if its handler has moved or cleared it meanwhile.
    pub(super) fn take_deadline(&mut self, due: Deadline) -> bool {
        let Some(rare) = &mut self.rare else {
            return false;
        };
        let all = &mut rare.deadlines.deadlines;
        let at = all.iter().position(|one| *one == due);
        at.map(|at| all.swap_remove(at)).is_some()
    }

    /// Sets the timer, which has fired, for the earliest deadline.
    pub(super) fn set_next_check(&mut self) {
        let Some(Rare { deadlines, .. }) = self.rare.as_deref_mut() else {
            return;
        };
        deadlines.check = NEVER;
        match deadlines.earliest() {
            NEVER => {}
            at => self.set_check(at),
        }
    }
}
