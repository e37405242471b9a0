//! The step: the state of a request and an event make the next state and what is to be done.

use tidegate::http::client::Flow;

use super::action::{Action, Actions, Ending};
use super::event::Event;
use super::request::{Reply, Request, Stage, Upload};

/// The first action and the one after it.
pub(super) type Pair = (Action, Action);

/// Nothing is to be done.
pub(super) const NOTHING: Pair = (Action::None, Action::None);

/// Returns one action.
#[inline]
pub(super) fn one(action: Action) -> Pair {
    (action, Action::None)
}

/// Takes a step. `of` is the attempt whose event it is, unless it is one of the request as a whole.
/// `now` returns the time, in nanoseconds, for the events that need it.
// Each caller knows its event, so its arm becomes part of the caller.
#[inline(always)]
pub(in crate::proxy) fn step(
    request: &mut Request,
    of: Option<u32>,
    event: Event,
    now: impl FnOnce() -> u64,
) -> Actions {
    let is_late = of.is_some_and(|attempt| attempt != request.attempt);
    let (first, then) = match is_late || request.stage == Stage::Ended {
        // Nothing else looks for late events.
        true => one(Action::Late),
        false => request.take(event, now),
    };
    Actions {
        attempt: request.attempt,
        first,
        then,
    }
}

impl Request {
    #[inline(always)]
    fn take(&mut self, event: Event, now: impl FnOnce() -> u64) -> Pair {
        match event {
            Event::Begin | Event::Paused => self.admit(),
            Event::Admitted => self.admitted(now()),
            Event::Denied(problem) => self.give_up(problem, now()),
            Event::Picked { connected } => self.picked(connected),
            Event::Connected => one(Action::Begin),
            Event::Begun => self.begun(now()),
            Event::Broken => self.broken(now()),
            Event::Failed(failure) => self.attempt_failed(failure, now()),
            Event::Expired { limit, answered } => self.attempt_expired(limit, answered, now()),
            Event::Retried(reason, pause) => self.retried(reason, pause, now()),
            Event::Freed(pause) => self.freed(pause),
            Event::Turned(problem, admitted) => self.turned(problem, admitted),
            Event::Informed if self.is_unanswered() => one(Action::Inform),
            Event::Informed => NOTHING,
            Event::Agreed => self.agreed(),
            Event::Head {
                status,
                passed,
                ends,
            } => self.head(status, passed, ends, now),
            Event::Part if self.reply == Reply::Streaming => one(Action::PassOn),
            Event::Part => NOTHING,
            Event::Passed(bytes) => self.passed(bytes),
            Event::Room if self.stage == Stage::Exchanging => one(Action::Resume),
            Event::Room => NOTHING,
            Event::Switched => self.switched(),
            Event::Responded => self.end(Ending::Served),
            Event::Writable => match self.unblock() {
                true => one(Action::Pump),
                false => NOTHING,
            },
            Event::Received { bytes, kept } => self.received(bytes, kept),
            Event::Written(flow) => self.written(flow, now),
            Event::Resent { blocked } => self.resent(blocked),
            Event::BodyEnded => self.body_ended(now()),
            Event::BodyTooLarge => self.body_too_large(),
            Event::TimedOut { used } => self.timed_out(used, now()),
            Event::BodyRefused(reason) => self.end(Ending::Refused(reason)),
            Event::Left(why) => self.end(Ending::Left(why)),
        }
    }

    /// Ends the request. Nothing more begins for it.
    #[inline]
    pub(super) fn end(&mut self, ending: Ending) -> Pair {
        self.stage = Stage::Ended;
        one(Action::End(ending))
    }

    pub(super) fn admit(&mut self) -> Pair {
        self.stage = Stage::Admitting;
        one(Action::Admit)
    }

    #[inline]
    fn admitted(&mut self, now: u64) -> Pair {
        self.stage = Stage::Connecting;
        self.times.admitted = now;
        self.times.first.get_or_insert(now);
        one(Action::Pick)
    }

    #[inline]
    fn picked(&mut self, connected: bool) -> Pair {
        self.tried += 1;
        one(match connected {
            true => Action::Begin,
            false => Action::Search,
        })
    }

    #[inline]
    fn begun(&mut self, now: u64) -> Pair {
        self.stage = Stage::Exchanging;
        self.times.connected = now;
        let next = match self.upload {
            Upload::None => return NOTHING,
            Upload::Held => Action::Expect,
            Upload::Flowing { .. } => Action::Pump,
            Upload::Done => Action::None,
        };
        let was_read = self.received > 0 || self.upload == Upload::Done;
        match was_read && self.is_kept {
            true => (Action::Resend, next),
            false => one(next),
        }
    }

    /// The client is asked for its body when the body is first read.
    fn agreed(&mut self) -> Pair {
        if self.upload != Upload::Held {
            return NOTHING;
        }
        self.upload = Upload::Flowing { blocked: false };
        one(Action::Pump)
    }

    #[inline]
    fn head(&mut self, status: u16, passed: u64, ends: bool, now: impl FnOnce() -> u64) -> Pair {
        if !self.is_unanswered() {
            return NOTHING;
        }
        self.times.head = now();
        if self.upload == Upload::Held {
            // The server responds without the body, so the client keeps it.
            self.upload = Upload::Done;
        }
        // Nothing is sent again after this, and the time that was kept for the fallback is left for the
        // rest of the response.
        self.is_kept = false;
        if self.fell_back().is_none() && self.until < u64::MAX {
            self.until = self.until.saturating_add(self.terms.fallback_nanos);
        }
        self.status = status;
        self.reply = match ends {
            true => Reply::Sent,
            false => Reply::Streaming,
        };
        self.passed(passed);
        one(Action::Respond)
    }

    /// A response of status 205 has no content, whatever its server sends: the client gets none.
    #[inline]
    fn passed(&mut self, bytes: u64) -> Pair {
        if self.status != 205 {
            self.passed += bytes;
        }
        NOTHING
    }

    fn switched(&mut self) -> Pair {
        if !self.is_unanswered() {
            return NOTHING;
        }
        self.stage = Stage::Ended;
        (self.status, self.reply) = (101, Reply::Sent);
        one(Action::Switch)
    }

    #[inline]
    fn received(&mut self, bytes: u64, kept: bool) -> Pair {
        self.is_kept &= kept;
        self.received += bytes;
        match self.received > self.terms.most_body {
            true => self.body_too_large(),
            false => one(Action::Write),
        }
    }

    fn body_too_large(&mut self) -> Pair {
        self.end(Ending::Client(413, "the body is too large\n"))
    }

    #[inline]
    fn written(&mut self, flow: Flow, now: impl FnOnce() -> u64) -> Pair {
        match flow {
            Flow::More => return NOTHING,
            Flow::Pause => self.upload = Upload::Flowing { blocked: true },
            // The response has come, or the connection has ended: its event says so.
            Flow::Gone => (self.upload, self.is_kept) = (Upload::Done, false),
        }
        self.sent_at = now();
        NOTHING
    }

    fn resent(&mut self, blocked: bool) -> Pair {
        if matches!(self.upload, Upload::Flowing { .. }) {
            self.upload = Upload::Flowing { blocked };
        }
        NOTHING
    }

    fn body_ended(&mut self, now: u64) -> Pair {
        self.upload = Upload::Done;
        self.sent_at = now;
        NOTHING
    }
}
