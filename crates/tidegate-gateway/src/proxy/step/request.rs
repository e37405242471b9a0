//! The state of a request that is passed on.

use tidegate::http::Method;

use crate::command::{Problem, Reason};
use crate::proxy::times::Times;

/// One request, from its head to the last byte of its response.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct Request {
    pub(super) terms: Terms,
    /// The number of the attempt in progress, from 1.
    pub(super) attempt: u32,
    pub(super) stage: Stage,
    /// The connection of the attempt in progress was replaced.
    pub(super) replaced: bool,
    /// How many attempts had a server.
    pub(super) tried: u32,
    /// Some of the request was sent in an attempt that has ended.
    pub(super) was_sent: bool,
    /// Why the last attempt has failed that was made before the one in progress.
    pub(super) failed: Option<Reason>,
    pub(super) way: Way,
    pub(super) upload: Upload,
    /// All that was read of the body is kept.
    pub(super) is_kept: bool,
    /// How many bytes of the body were read.
    pub(super) received: u64,
    /// When the body was sent, or when the server last took no more of it; 0 before, and for a request
    /// without one.
    pub(super) sent_at: u64,
    pub(super) reply: Reply,
    /// The status of the response; 0 if it has not begun.
    pub(super) status: u16,
    /// How many bytes of the response's body were passed on.
    pub(super) passed: u64,
    /// When the time of the request is over, in nanoseconds. `u64::MAX` if nobody watches it.
    pub(super) until: u64,
    pub(super) times: Times,
}

/// What the route and the method of a request allow.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct Terms {
    pub(in crate::proxy) kind: Kind,
    /// The route has retries.
    pub(in crate::proxy) retries: bool,
    /// The route has another upstream for its fallback.
    pub(in crate::proxy) fallback: bool,
    /// The time that is kept for the fallback, in nanoseconds.
    pub(in crate::proxy) fallback_nanos: u64,
    /// The largest body that the request may have.
    pub(in crate::proxy) most_body: u64,
}

/// How often a request may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Kind {
    /// It only asks.
    Safe,
    /// Twice is as good as once.
    Idempotent,
    /// Once.
    Unsafe,
}

impl Kind {
    #[inline]
    pub(in crate::proxy) fn of(method: Method<'_>) -> Self {
        match method {
            _ if method.is_safe() => Self::Safe,
            Method::Put | Method::Delete => Self::Idempotent,
            _ => Self::Unsafe,
        }
    }
}

/// Where the attempt in progress is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It asks its command for admission, or waits for it.
    Admitting,
    /// It looks for a connection.
    Connecting,
    /// It is sent, and its response is received.
    Exchanging,
    /// It begins when the earlier attempt has given back what it held.
    Freeing,
    /// It begins after a pause.
    Pausing,
    /// The client has its response, or has left.
    Ended,
}

/// Which upstream the request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Primary,
    /// The upstream of the fallback admits no more requests.
    Refused,
    /// To that of the fallback, for this reason.
    Fallback(Reason),
}

/// How much of the body has gone to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Upload {
    /// There is no body.
    None,
    /// The client sends it when a server agrees to take it.
    Held,
    /// It goes as it comes. `blocked`: the server takes no more for now.
    Flowing { blocked: bool },
    /// All of it was sent, or nobody wants the rest.
    Done,
}

/// The response to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Reply {
    /// It has not begun.
    Owed,
    /// Its head was sent.
    Streaming,
    /// All of it was sent.
    Sent,
}

/// A side of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Side {
    Client = 1,
    Server = 2,
}

impl Request {
    /// Creates a request that was received at `began`, and whose time is over at `until`.
    // So that its parts are moved once.
    #[inline(always)]
    pub(in crate::proxy) fn new(terms: Terms, upload: Upload, began: u64, until: u64) -> Self {
        Self {
            terms,
            attempt: 1,
            stage: Stage::Admitting,
            replaced: false,
            tried: 0,
            was_sent: false,
            failed: None,
            way: Way::Primary,
            upload,
            is_kept: upload != Upload::None,
            received: 0,
            sent_at: 0,
            reply: Reply::Owed,
            status: 0,
            passed: 0,
            until,
            times: Times {
                began,
                ..Times::default()
            },
        }
    }

    /// Returns how many attempts had a server.
    pub(in crate::proxy) fn tried(&self) -> u32 {
        self.tried
    }

    /// Returns when the time of the request is over; `u64::MAX` once it has ended.
    pub(in crate::proxy) fn until(&self) -> u64 {
        match self.stage {
            Stage::Ended => u64::MAX,
            _ => self.until,
        }
    }

    /// Returns why the request goes to the upstream of its fallback, if it does.
    pub(in crate::proxy) fn fell_back(&self) -> Option<Reason> {
        match self.way {
            Way::Fallback(reason) => Some(reason),
            Way::Primary | Way::Refused => None,
        }
    }

    /// Returns `true` if the upstream of the fallback has not admitted the request.
    pub(in crate::proxy) fn was_refused_by_fallback(&self) -> bool {
        self.way == Way::Refused
    }

    /// Returns `true` if more of the body may come.
    #[inline]
    pub(in crate::proxy) fn has_body(&self) -> bool {
        matches!(self.upload, Upload::Held | Upload::Flowing { .. })
    }

    /// Returns `true` if the attempt is the one in progress.
    pub(in crate::proxy) fn is_at(&self, attempt: u32) -> bool {
        self.attempt == attempt && self.stage != Stage::Ended
    }

    /// Returns `true` if the attempt still asks for its admission.
    pub(in crate::proxy) fn asks(&self, attempt: u32) -> bool {
        self.attempt == attempt && self.stage == Stage::Admitting
    }

    /// Returns `true` if the attempt looks for a connection.
    pub(in crate::proxy) fn searches(&self, attempt: u32) -> bool {
        self.attempt == attempt && self.stage == Stage::Connecting
    }

    /// Returns `true` if the server would take more of the body, and has got all that came.
    pub(in crate::proxy) fn waits_for_client(&self) -> bool {
        let flows = Upload::Flowing { blocked: false };
        self.stage == Stage::Exchanging && self.upload == flows
    }

    pub(in crate::proxy) fn times(&self) -> &Times {
        &self.times
    }

    /// Returns the bytes of both bodies.
    pub(in crate::proxy) fn bytes(&self) -> (u64, u64) {
        (self.received, self.passed)
    }

    pub(in crate::proxy) fn status(&self) -> u16 {
        self.status
    }

    pub(in crate::proxy) fn reply(&self) -> Reply {
        self.reply
    }

    /// Returns `true` if nothing of the response was sent.
    pub(super) fn is_unanswered(&self) -> bool {
        self.reply == Reply::Owed
    }

    /// Returns `true` if the request can be sent again: no byte of its body was read, or what was read
    /// is kept.
    pub(super) fn can_repeat(&self) -> bool {
        self.received == 0 || self.is_kept
    }

    /// Notes why an attempt has failed, before the next one.
    pub(super) fn note_failed(&mut self, reason: Reason) {
        if self.failed.is_none() || !reason.is_refusal() {
            self.failed = Some(reason);
        }
    }

    /// Returns the problem that the client gets. A request of which an attempt was made is not refused
    /// any more: what is refused is only the next attempt.
    pub(super) fn problem_shown(&self, problem: Problem) -> Problem {
        let failed = self.failed.filter(|_| problem.reason.is_refusal());
        failed.map_or(problem, Problem::from)
    }

    /// Makes the next attempt the one in progress.
    pub(super) fn next_attempt(&mut self, stage: Stage) {
        self.attempt += 1;
        self.replaced = false;
        self.stage = stage;
        self.unblock();
    }

    /// The server takes more of the body. Returns `true` if it took no more before.
    pub(super) fn unblock(&mut self) -> bool {
        let blocked = Upload::Flowing { blocked: true };
        let was_blocked = self.upload == blocked;
        if was_blocked {
            self.upload = Upload::Flowing { blocked: false };
        }
        was_blocked
    }

    /// Returns which side has used up the time of the attempt; the client was waited for for `used`
    /// nanoseconds. A server whose client has used more than half of the time is not to blame: otherwise
    /// clients that send their bodies slowly could open its breaker.
    pub(super) fn late_side(&self, used: u64, now: u64) -> Side {
        let is_client = match self.upload {
            _ if self.stage != Stage::Exchanging => false,
            Upload::Held | Upload::Flowing { .. } => self.waits_for_client(),
            Upload::None | Upload::Done => used > now.saturating_sub(self.times.connected) / 2,
        };
        match is_client {
            true => Side::Client,
            false => Side::Server,
        }
    }

    /// Returns what an attempt has left of its time, which is `limit`, when its timer expires, if the
    /// client has used up the rest: the time does not run while the client sends the body, and begins
    /// anew with the last byte, or when the server takes no more.
    pub(super) fn attempt_left(&self, now: u64, limit: u64) -> Option<u64> {
        if self.waits_for_client() {
            return Some(limit);
        }
        let left = limit.checked_sub(now.saturating_sub(self.sent_at))?;
        (left > 0 && self.sent_at > self.times.admitted).then_some(left)
    }
}
