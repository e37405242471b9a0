//! What follows an attempt without a response: another one, the upstream of the fallback, or the end.

use std::time::Duration;

use super::action::{Action, Ending};
use super::event::Failure;
use super::machine::{NOTHING, Pair, one};
use super::request::{Kind, Request, Side, Stage, Upload, Way};
use crate::command::{Problem, Reason};

impl Request {
    /// A new connection that its server has closed is replaced once, as one that was used before: a
    /// server that closes each of them would get one after the other.
    pub(super) fn broken(&mut self, now: u64) -> Pair {
        if !self.replaced {
            self.replaced = true;
            return one(Action::Replace);
        }
        self.again_or_give_up(true, Reason::Closed, now)
    }

    pub(super) fn attempt_failed(&mut self, failure: Failure, now: u64) -> Pair {
        if failure.sent {
            self.was_sent = true;
            // The end of an empty body stays: such a request may be sent again.
            self.is_kept &= self.received == 0;
        }
        // That is how servers end idle connections, and no failure. It happens once for each attempt, so
        // that a request is not sent on each connection that is idle.
        let is_stale = failure.stale && self.can_repeat() && self.is_unanswered();
        if is_stale && !self.replaced {
            self.replaced = true;
            self.unblock();
            self.stage = Stage::Connecting;
            return one(Action::Replace);
        }
        let safe = failure.safe || failure.silent && self.terms.kind != Kind::Unsafe;
        // It is the same with the next one.
        let safe = safe && failure.reason != Reason::Descriptors;
        self.again_or_give_up(safe, failure.reason, now)
    }

    pub(super) fn attempt_expired(&mut self, limit: u64, answered: bool, now: u64) -> Pair {
        if !self.is_unanswered() {
            return NOTHING;
        }
        if let Some(left) = self.attempt_left(now, limit) {
            return one(Action::Limit(left));
        }
        let is_sent = self.stage == Stage::Exchanging;
        let is_harmless = self.received == 0 && self.terms.kind != Kind::Unsafe;
        let safe = !is_sent || is_harmless && !answered;
        self.was_sent |= is_sent;
        let (next, _) = self.again_or_give_up(safe, Reason::Timeout, now);
        (Action::Blame(Side::Server), next)
    }

    /// The time of the request is over. It ends, or goes to the upstream of its fallback.
    pub(super) fn timed_out(&mut self, used: u64, now: u64) -> Pair {
        let side = self.late_side(used, now);
        let flows = matches!(self.upload, Upload::Flowing { .. });
        let (next, _) = match side == Side::Client && flows && self.is_unanswered() {
            // The client has still not sent its body, although the server would take it.
            true => self.end(Ending::Client(408, "the body did not come in time\n")),
            false => self.give_up(Reason::Timeout.into(), now),
        };
        (Action::Blame(side), next)
    }

    /// Asks for another attempt if that is `safe`, or gives up.
    fn again_or_give_up(&mut self, safe: bool, reason: Reason, now: u64) -> Pair {
        let may_repeat = safe && self.can_repeat() && self.is_unanswered();
        match may_repeat && self.terms.retries && self.fell_back().is_none() {
            true => one(Action::Retry(reason)),
            false => self.give_up(reason.into(), now),
        }
    }

    /// The next attempt needs what the connection of the earlier one holds, which may still be open.
    pub(super) fn retried(&mut self, reason: Reason, pause: Option<Duration>, now: u64) -> Pair {
        let Some(pause) = pause else {
            self.terms.retries = false;
            return self.give_up(reason.into(), now);
        };
        self.note_failed(reason);
        self.next_attempt(Stage::Freeing);
        (Action::Stop, Action::Free(pause))
    }

    pub(super) fn freed(&mut self, pause: Duration) -> Pair {
        if pause.is_zero() {
            return self.admit();
        }
        self.stage = Stage::Pausing;
        one(Action::Pause(pause))
    }

    /// Ends the request without a response of its upstream, unless that of its fallback takes it.
    pub(super) fn give_up(&mut self, problem: Problem, now: u64) -> Pair {
        let problem = self.problem_shown(problem);
        match self.fallback_left(now) {
            Some(left) => one(Action::Turn(problem, left)),
            None => self.end(Ending::Problem(problem)),
        }
    }

    /// Returns how many nanoseconds the upstream of the fallback has, `u64::MAX` if that has no limit.
    /// `None` if the request cannot go there.
    fn fallback_left(&self, now: u64) -> Option<u64> {
        let can_begin = self.terms.fallback && self.way == Way::Primary;
        let can_begin = can_begin && self.is_unanswered() && self.can_repeat();
        // Both services would carry out an unsafe request, also if it is idempotent.
        let was_sent = self.was_sent || self.stage == Stage::Exchanging;
        let is_harmless = self.terms.kind == Kind::Safe && self.received == 0;
        if !can_begin || was_sent && !is_harmless {
            return None;
        }
        if self.until == u64::MAX {
            return Some(u64::MAX);
        }
        let end = self.until.saturating_add(self.terms.fallback_nanos);
        Some(end.saturating_sub(now)).filter(|left| *left > 0)
    }

    pub(super) fn turned(&mut self, problem: Problem, admitted: bool) -> Pair {
        let reason = problem.reason;
        if !admitted {
            self.way = Way::Refused;
            return self.end(Ending::Problem(problem));
        }
        self.way = Way::Fallback(reason);
        if !reason.is_refusal() {
            self.note_failed(reason);
        }
        self.next_attempt(Stage::Admitting);
        // It has a timer of its own.
        self.until = u64::MAX;
        one(Action::Stop)
    }
}
