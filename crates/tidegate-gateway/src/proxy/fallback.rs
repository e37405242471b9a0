//! The way of a request to the upstream of its fallback.

use std::time::Duration;

use tidegate::isolate::Event;

use super::flight::{Flight, Stage, State};
use super::flights::Watched;
use crate::command::Reason;

impl Flight {
    /// Turns the request to the upstream of its fallback. Returns `false` if there is none, if it
    /// admits no more requests, or if the request cannot be sent again. An upgrade would be a tunnel
    /// beside the limit of tunnels.
    pub(super) fn fall_back(&self, instead_of: Reason) -> bool {
        let Some(fallback) = self.proxy.fallback_route() else {
            return false;
        };
        let now = self.now();
        let left = |state: &State| {
            let can_begin = state.fell_back.is_none() && state.is_unanswered();
            let can_begin = can_begin && state.can_repeat() && self.tunnel.is_none();
            // Both services would carry out an unsafe request, also if it is idempotent.
            let was_sent = state.was_sent || matches!(state.stage, Stage::Exchanging(_));
            let is_harmless = self.head.as_head().method().is_safe() && state.body_bytes == 0;
            let can_begin = can_begin && (!was_sent || is_harmless);
            let left = self.proxy.fallback_time(state.until, now);
            left.filter(|_| can_begin)
        };
        if self.lock().and_then(|state| left(&state)).is_none() {
            return false;
        }
        // The command and its listeners run outside of the lock.
        let Ok(entry) = fallback.command.admit() else {
            self.proxy.command.count(Event::FallbackRejection);
            if let Some(mut state) = self.lock() {
                state.fallback_refused = true;
            }
            return false;
        };
        let Some(mut state) = self.lock() else {
            return false;
        };
        let Some(left) = left(&state) else {
            return false;
        };
        let stage = self.begin_fallback(&mut state, instead_of, left);
        let attempt = state.attempt;
        drop(state);
        stage.stop();
        self.connect(attempt, entry, now);
        true
    }

    /// Turns the request to the upstream of its fallback, for which it has the rest of its time.
    /// Returns the stage that has to be stopped.
    fn begin_fallback(&self, state: &mut State, instead_of: Reason, left: Duration) -> Stage {
        state.attempt += 1;
        state.fell_back = Some(instead_of);
        if !instead_of.is_refusal() {
            state.note_failed(instead_of);
        }
        state.server = None;
        state.blocked = false;
        // It has a timer of its own.
        state.until = u64::MAX;
        for timer in [state.limit.take(), state.attempt_limit.take()]
            .into_iter()
            .flatten()
        {
            timer.cancel();
        }
        if left < Duration::MAX {
            let flight = self.clone();
            let expire = move || Watched::time_out(&flight);
            state.limit = self.gate().after(self.home, left, expire);
        }
        std::mem::replace(&mut state.stage, Stage::Admitting)
    }
}
