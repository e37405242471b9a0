//! What a connection decides, as plain data: no socket, no clock, no lock.
//!
//! The connection says what has happened, and does what is returned: it calls the service, writes, and
//! closes. The bytes and the handles that wait here are only moved. `replies` has the order of responses.
//!
//! ```text
//! Stage     Open ──the last request is known──▶ Closing ──all responses are sent──▶ Ended
//!           accepts requests      receives the body of the last one      drops what is received
//!
//! Reading   Flows ◀──▶ Held                     a response, the service or the client is waited for
//!             │          │                      the client ends its half
//!             ▼          ▼
//!            End ◀── HeldToEnd                  nothing follows
//!
//! Turn      Shared ◀──▶ Alone                   beside other requests; the method is not safe
//!             └──▶ Undecided ──▶ Alone          the response may change the protocol
//!
//! Intake    None ──▶ Unasked ──▶ Sink(Reads ◀──▶ Holds)      the body of the last request; its end
//!                       └──────────▶ Discard ◀──┤            leads back to None
//!                                       └───────┴──▶ Dropped
//! ```

mod replies;
#[cfg(test)]
mod tests;

use bytes::BytesMut;

pub(super) use self::replies::{Fault, Filled, Next};
use crate::server::body::BodySink;
use crate::server::limits::Limits;
use crate::server::queue::{Queued, ResponseQueue, Slot};
use crate::server::request::{Intake, Pace};
use crate::server::switch::{Before, Drain, SwitchPlan};

/// Whether further requests are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Open,
    /// The connection ends with the outstanding responses.
    Closing(Tail),
    /// Everything is written.
    Ended,
}

/// What the client may still be sending when the last response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tail {
    /// Nothing, as far as is known.
    Read,
    /// Bytes behind the last request, or the rest of its body.
    Unread,
}

/// Whether received bytes are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    /// As they come.
    #[default]
    Flows,
    /// The connection has stopped reading: what was received is kept.
    Held,
    /// The same, and nothing follows what is kept: the client has ended its half.
    HeldToEnd,
    /// The client has ended its half, and what it has sent was handled.
    End,
}

/// Whether a further request may begin.
///
/// Pipelined requests may be handled at the same time only if all of them have safe methods (RFC 9112,
/// section 9.3.2). Another one begins when the responses of all earlier requests are complete, and the
/// next request begins when its own response is. Until then the connection does not read.
///
/// ```text
///   GET /a   GET /b   PUT /c           GET /d
///   ├──────────┤        held back: the queue is not empty
///      ├───────────┤
///                  ├───────────────┤   alone
///                                  ├───────── shared again
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    /// Beside others, up to the limit.
    #[default]
    Shared,
    /// Once the queue is empty: a request runs alone, or waits for that.
    Alone,
    /// Not before the response with this number decides about the protocol.
    Undecided(u64),
}

/// What is done with received bytes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A part of a body is received.
    Body,
    /// The service takes no more of the body for now.
    Held,
    /// A head begins.
    Head,
    /// Nothing: they follow the last request.
    Nothing,
}

/// What a connection waits for; decides which time limit holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Waits {
    /// For the next request.
    #[default]
    Idle,
    /// For the rest of a head.
    Head,
    /// For more of a body.
    Body,
    /// For the service, or for the client to take the response.
    Response,
    /// For the end of a connection that the server has ended: the client has to take the rest first.
    End,
    /// A head has ended or a body has gone on: the next wait has a limit of its own, whatever it is for.
    Anew,
}

/// The state of a connection, without the means to act.
#[derive(Default)]
pub(super) struct State {
    pub(super) stage: Stage,
    reading: Reading,
    pub(super) turn: Turn,
    pub(super) drain: Drain,
    /// The number of the last request, and what happens to its body.
    pub(super) current: Option<u64>,
    pub(super) intake: Intake,
    pub(super) queue: ResponseQueue,
    /// Received bytes that could not be handled yet.
    pub(super) kept: BytesMut,
    /// Settings: the most outstanding responses, and the most that is discarded of a body.
    outstanding: usize,
    discard: u64,
}

/// Requests: when one begins, and what follows it.
impl State {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            outstanding: limits.outstanding,
            discard: limits.discard,
            ..Self::default()
        }
    }

    /// Returns what is done with received bytes.
    #[inline]
    pub(super) fn look(&self) -> Look {
        match (&self.intake, self.stage) {
            (Intake::None, Stage::Open) => Look::Head,
            (Intake::None, _) | (_, Stage::Ended) => Look::Nothing,
            (Intake::Sink(_, Pace::Holds), _) => Look::Held,
            _ => Look::Body,
        }
    }

    /// Returns `true` unless a request has to wait for outstanding responses.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        match self.turn {
            Turn::Shared => self.queue.len() < self.outstanding,
            Turn::Alone => self.queue.is_empty(),
            Turn::Undecided(_) => false,
        }
    }

    /// Begins a request, and returns its number.
    #[inline]
    pub(super) fn begin(&mut self, has_body: bool) -> u64 {
        let seq = self.queue.next_seq();
        self.current = Some(seq);
        self.intake = match has_body {
            true => Intake::Unasked,
            false => Intake::None,
        };
        seq
    }

    /// Returns `true` if nothing is left to do for the current request but its response.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.intake, Intake::None) && self.stage == Stage::Open
    }

    /// Accepts no further request.
    pub(super) fn close(&mut self, tail: Tail) {
        self.stage = match self.stage {
            Stage::Open => Stage::Closing(tail),
            Stage::Closing(before) => Stage::Closing(before.max(tail)),
            Stage::Ended => Stage::Ended,
        };
    }

    /// Accepts no further request of a client that sends nothing more.
    pub(super) fn close_at_end(&mut self) {
        if self.stage != Stage::Ended {
            self.stage = Stage::Closing(Tail::Read);
        }
    }

    #[inline]
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self.turn, Turn::Undecided(_))
    }

    /// Goes on with HTTP: the response `seq` does not change the protocol. What follows waits until it
    /// is complete, as its method may be one that is not safe.
    #[inline]
    pub(super) fn decided(&mut self, seq: u64) {
        if self.turn == Turn::Undecided(seq) {
            self.turn = Turn::Alone;
            if self.reading == Reading::End {
                self.close_at_end();
            }
        }
    }

    /// Removes the response that changes the protocol, if it is the next one.
    pub(super) fn take_switch(&mut self) -> Option<(Box<SwitchPlan>, Option<u64>)> {
        if self.stage != Stage::Open || !matches!(self.queue.front_mut(), Some(Slot::Switch(_))) {
            return None;
        }
        let Queued { slot, began } = self.queue.pop()?;
        match slot {
            Slot::Switch(plan) => Some((plan, began)),
            _ => None,
        }
    }

    /// Passes the connection on: returns what its next handlers have to know.
    pub(super) fn hand_over(&mut self) -> Before {
        self.stage = Stage::Ended;
        Before {
            received: std::mem::take(&mut self.kept).freeze(),
            input_ended: self.has_input_ended(),
            drain: self.drain,
        }
    }
}

/// Reading, and its end.
impl State {
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        matches!(self.reading, Reading::Held | Reading::HeldToEnd)
    }

    fn has_input_ended(&self) -> bool {
        matches!(self.reading, Reading::HeldToEnd | Reading::End)
    }

    /// Notes whether something has to be waited for. Returns `true` if reading stops or goes on.
    #[inline]
    pub(super) fn hold(&mut self, held: bool) -> bool {
        if held == self.is_held() {
            return false;
        }
        self.reading = match self.reading {
            Reading::Flows => Reading::Held,
            Reading::Held => Reading::Flows,
            Reading::HeldToEnd => Reading::End,
            Reading::End => Reading::HeldToEnd,
        };
        true
    }

    /// Returns `true` if what is kept should be looked at again.
    #[inline]
    pub(super) fn may_resume(&self) -> bool {
        self.is_held() && self.stage != Stage::Ended && self.look() != Look::Held
    }

    /// Notes that the client has ended its half. Returns `true` if nothing waits that it has sent before.
    pub(super) fn input_ended(&mut self) -> bool {
        self.reading = match self.is_held() {
            true => Reading::HeldToEnd,
            false => Reading::End,
        };
        self.is_at_end()
    }

    /// Returns `true` if everything was handled that a client has sent before it ended its half.
    #[inline]
    pub(super) fn is_at_end(&self) -> bool {
        self.reading == Reading::End && self.stage != Stage::Ended && !self.is_undecided()
    }

    /// Returns `true` if bytes of the next head were received.
    fn has_begun_head(&self) -> bool {
        !self.kept.is_empty() && !self.in_body()
    }

    /// Returns what the connection waits for.
    #[inline]
    pub(super) fn waits_for(&self) -> Waits {
        match (self.look(), self.stage) {
            (_, Stage::Ended) => Waits::End,
            (Look::Body, _) => Waits::Body,
            // Kept bytes of a connection that has stopped reading are no slow head.
            _ if !self.queue.is_empty() || self.is_held() => Waits::Response,
            _ if !self.kept.is_empty() => Waits::Head,
            _ => Waits::Idle,
        }
    }
}

/// The body of the current request.
impl State {
    #[inline]
    pub(super) fn in_body(&self) -> bool {
        !matches!(self.intake, Intake::None)
    }

    /// Returns `true` if the service receives the body, even if it has enough for the moment.
    #[inline]
    pub(super) fn has_reader(&self) -> bool {
        matches!(self.intake, Intake::Sink(..))
    }

    /// Returns `true` if the service waits for the body of request `seq`.
    #[inline]
    pub(super) fn reads_for(&self, seq: u64) -> bool {
        matches!(self.intake, Intake::Sink(_, Pace::Reads)) && self.current == Some(seq)
    }

    #[inline]
    pub(super) fn set_pace(&mut self, new: Pace) {
        if let Intake::Sink(_, pace) = &mut self.intake {
            *pace = new;
        }
    }

    /// Returns the slot of the current request, unless its response was sent.
    fn slot(&mut self) -> Option<&mut Slot> {
        self.queue.get_mut(self.current?)
    }

    /// Waits for the service alone from `now` on, if the current request has no response yet.
    pub(super) fn wait_from(&mut self, now: u64) {
        if let Some(Slot::Waiting { since, .. }) = self.slot() {
            *since = now;
        }
    }

    /// Notes that something of the body was received: its client needs no `100 Continue`.
    pub(super) fn body_moved(&mut self) {
        if let Some(Slot::Waiting { owes_continue, .. }) = self.slot() {
            *owes_continue = false;
        }
    }

    /// Drops the rest of the body. Returns what received it.
    pub(super) fn drop_body(&mut self) -> Option<Box<dyn BodySink>> {
        let rest = match self.intake {
            Intake::None => Intake::None,
            _ => Intake::Dropped,
        };
        std::mem::replace(&mut self.intake, rest).into_sink()
    }

    /// Accepts nothing more after a refusal. Returns what received the body.
    pub(super) fn refuse(&mut self) -> Option<Box<dyn BodySink>> {
        self.close(Tail::Unread);
        std::mem::take(&mut self.intake).into_sink()
    }

    /// Counts discarded bytes. Returns `false` if they are too many.
    pub(super) fn discard(&mut self, length: u64) -> bool {
        let Intake::Discard(left) = &mut self.intake else {
            return true;
        };
        let less = left.checked_sub(length);
        *left = less.unwrap_or(0);
        less.is_some()
    }

    /// Discards the rest of a body that nothing reads, of which so much is `missing`, if it is known.
    /// Returns `false` if that is too much.
    pub(super) fn discard_rest(&mut self, missing: Option<u64>) -> bool {
        self.intake = Intake::Discard(self.discard);
        !self.has_too_much_left(missing)
    }

    /// Returns `true` if more of the current body is missing than is discarded: unless the service reads
    /// it, the connection ends with the response. A service that collects reads it. The rest of a chunked
    /// body is unknown, and may be small.
    pub(super) fn has_too_much_left(&self, missing: Option<u64>) -> bool {
        let most = match &self.intake {
            Intake::Discard(left) => *left,
            Intake::Sink(sink, _) if sink.takes_all() => return false,
            _ => self.discard,
        };
        missing.is_some_and(|missing| missing > most)
    }
}

/// The end of the connection.
impl State {
    /// Returns `true` if no more requests are accepted and every response is sent, unless the service still
    /// reads the body of the last request.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Closing(_)) && self.queue.is_empty() && !self.has_reader()
    }

    /// Returns `true` if the client may still be sending when the last response is sent. A close with
    /// received bytes in the socket would reset what it has not read.
    pub(super) fn has_to_linger(&self) -> bool {
        let is_unread = match self.reading {
            Reading::Flows => !self.kept.is_empty(),
            // The rest waits in the socket.
            Reading::Held => true,
            Reading::HeldToEnd | Reading::End => false,
        };
        is_unread || self.in_body() || self.stage == Stage::Closing(Tail::Unread)
    }

    /// Returns `true` if no request is outstanding or has begun.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Open && self.queue.is_empty() && !self.has_begun_head()
    }

    /// Accepts no further request of a server that drains if responses are outstanding: the last one
    /// of them ends the connection. A request of which a part was received is still served, unless it
    /// waits for the outstanding ones. So is one that may change the protocol. A client whose last response
    /// has begun does not know that it is the last one: until the announcement is over, its next request
    /// is served, and the response to that one says so.
    pub(super) fn close_in_drain(&mut self) {
        let begun = self.has_begun_head() && !self.is_held();
        let untold = !self.drain.begun && self.queue.last_keeps_open();
        let goes_on = self.queue.is_empty() || begun || self.is_undecided() || untold;
        if self.stage == Stage::Open && !goes_on {
            self.close(Tail::Read);
        }
    }
}
