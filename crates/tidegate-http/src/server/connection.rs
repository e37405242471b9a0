//! One connection: receives requests, calls the service, and sends the responses in order.
//!
//! ```text
//!             head complete             response at once
//!   received ───────────────▶ service ────────────────────▶ sent
//!      │                         │ defer, stream               ▲
//!      │ body                    ▼                             │ first of the queue
//!      └──────▶ sink          queue of responses ──────────────┘
//! ```
//!
//! | phase | accepts requests | ends when |
//! |---|---|---|
//! | `Open` | yes | the client, the service or a drain asks for the end, or a request is refused |
//! | `Closing` | no; the body of the last request is still received | the queue is empty |
//! | `Lingering` | no; received bytes are dropped | the client ends, or the time for it is over |
//!
//! `Lingering` follows only if the client may still be sending: closing the socket at once would
//! reset the connection, and the client would lose the response.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tidegate_core::internal::contain;
use tidegate_net::Channel;
use tidegate_promise::Failure;

use super::body::{BodyError, Flow};
use super::head_writer::{ReplyTo, write_closing};
use super::input::Input;
use super::metrics::Tally;
use super::part::{Part, PartKind, StreamHead, Whole};
use super::queue::{ResponseQueue, Slot, Stream};
use super::request::{Intake, Request};
use super::response::{Response, ResponseParts, Served};
use super::service::Service;
use super::shared::ServerShared;
use super::wire::Wire;
use crate::codec::{
    BodyEncoder, BodyEvent, HeadTable, RefusalReason, RequestDecoder, RequestHead, encode,
};

/// The key of the one deadline that a connection has.
pub(crate) const CHECK: u8 = 0;
/// How many bytes of responses are gathered before the connection looks whether the client takes
/// them.
const GATHERED: usize = 32 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Closing,
    Lingering,
}

/// What a connection waits for; decides which time limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// For the next request.
    Idle,
    /// For the rest of a head.
    Head,
    /// For more of a body.
    Body,
    /// For the service, or for the client to take the response.
    Response,
    /// For the client to end a connection that the server has ended.
    End,
}

/// The state of one connection.
pub(crate) struct Connection<S> {
    service: S,
    shared: Arc<ServerShared>,
    channel: Option<Channel>,
    decoder: RequestDecoder,
    /// Received bytes that could not be handled yet.
    kept: BytesMut,
    /// What happens to the body of the request `current`.
    intake: Intake,
    current: u64,
    queue: ResponseQueue,
    tally: Tally,
    phase: Phase,
    waits: Waits,
    /// The connection has stopped reading.
    paused: bool,
    /// The service has enough of a body for the moment.
    body_paused: bool,
    /// The client may still be sending when the last response is sent.
    linger: bool,
    /// The clock's time at the last event, and when the current wait began.
    now: u64,
    since: u64,
    /// How many bytes were sent when the progress was last checked.
    sent: u64,
}

/// Why the loop over the received bytes stopped.
enum Stop {
    NeedsMore,
    Blocked,
}

impl<S: Service> Connection<S> {
    pub(crate) fn new(service: S, shared: Arc<ServerShared>) -> Self {
        let decoder = RequestDecoder::new(shared.limits.head, shared.limits.body);
        Self {
            service,
            shared,
            channel: None,
            decoder,
            kept: BytesMut::new(),
            intake: Intake::None,
            current: 0,
            queue: ResponseQueue::default(),
            tally: Tally::default(),
            phase: Phase::Open,
            waits: Waits::Idle,
            paused: false,
            body_paused: false,
            linger: false,
            now: 0,
            since: 0,
            sent: 0,
        }
    }

    /// Begins, when the channel is open.
    pub(crate) fn open<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.channel = Some(wire.channel());
        self.shared.counters.opened();
        wire.set_half_closure(true);
        self.settle(wire);
    }

    /// Ends, when the channel is closed.
    pub(crate) fn closed(&mut self) {
        self.phase = Phase::Lingering;
        self.fail_body(BodyError::Closed);
        while self.queue.pop().is_some() {}
        self.kept = BytesMut::new();
        self.shared.counters.take(&mut self.tally);
        if self.channel.take().is_some() {
            self.shared.counters.closed();
        }
    }

    /// Handles received bytes.
    #[inline]
    pub(crate) fn received<'a>(&mut self, bytes: Bytes, wire: &mut impl Wire<'a>) {
        self.tally.received(bytes.len());
        self.now = wire.now();
        if self.phase == Phase::Lingering {
            return wire.give_back(bytes);
        }
        if self.kept.is_empty() {
            return self.advance(bytes, wire);
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(&bytes);
        wire.give_back(bytes);
        self.advance(kept, wire);
    }

    /// Handles as much of `input` as possible, and keeps the rest.
    fn advance<'a, I: Input>(&mut self, mut input: I, wire: &mut impl Wire<'a>) {
        let mut table = HeadTable::new();
        let stop = loop {
            if self.decoder.in_body() && self.phase != Phase::Lingering {
                match self.take_body(&mut input, wire) {
                    None => continue,
                    Some(stop) => break stop,
                }
            }
            if self.phase != Phase::Open {
                // Nothing after the last request is looked at.
                input.advance(input.len());
                break Stop::NeedsMore;
            }
            if input.is_empty() {
                break Stop::NeedsMore;
            }
            if self.is_blocked(wire) {
                break Stop::Blocked;
            }
            match self.decoder.head(&input, &mut table) {
                Ok(Some(head)) => {
                    let length = head.len();
                    self.serve(head, wire);
                    input.advance(length);
                }
                Ok(None) => break Stop::NeedsMore,
                Err(reason) => self.refuse(reason, wire),
            }
        };
        self.paused_by(matches!(stop, Stop::Blocked), wire);
        // Usually everything was handled, and the memory goes back to the loop.
        let (kept, spent) = input.keep();
        self.kept = kept;
        wire.give_back(spent);
    }

    /// Returns `true` if no further request may be handled now: too many responses are outstanding,
    /// or the client does not take them.
    #[inline]
    fn is_blocked<'a>(&self, wire: &mut impl Wire<'a>) -> bool {
        if self.queue.len() >= self.shared.limits.outstanding {
            return true;
        }
        if wire.output().len() >= GATHERED {
            wire.flush();
        }
        !wire.is_writable()
    }

    /// Stops or resumes reading.
    #[inline]
    fn paused_by<'a>(&mut self, blocked: bool, wire: &mut impl Wire<'a>) {
        if blocked != self.paused {
            self.paused = blocked;
            wire.set_auto_read(!blocked);
        }
    }

    /// Goes on with what was kept, if the reason to wait is gone.
    pub(crate) fn resume<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.paused && !self.body_paused && self.phase != Phase::Lingering {
            let kept = std::mem::take(&mut self.kept);
            self.advance(kept, wire);
        }
    }

    /// Calls the service for a request.
    #[inline]
    fn serve<'a>(&mut self, head: RequestHead<'_>, wire: &mut impl Wire<'a>) {
        self.tally.request();
        let length = head.framing().length();
        if length.is_some_and(|length| length > self.shared.limits.body.body) {
            return self.refuse(RefusalReason::BodyTooLarge, wire);
        }
        let Some(channel) = &self.channel else { return };
        let to = ReplyTo::of(&head);
        let direct = self.queue.is_empty();
        self.current = self.queue.next_seq();
        self.intake = match head.framing().is_empty() {
            true => Intake::None,
            false => Intake::Unasked,
        };
        let mut apart = BytesMut::new();
        let (mut served, mut status) = (Served::Nothing, 500);
        let out = if direct { wire.output() } else { &mut apart };
        let start = out.len();
        let request = Request::new(head, &mut self.intake, channel, self.current);
        let parts = ResponseParts {
            out,
            served: &mut served,
            status: &mut status,
            to,
            seq: self.current,
            shared: &self.shared,
            channel,
            now: self.now,
        };
        let response = Response::new(parts);
        let ran = contain(|| self.service.call(request, response));
        if let Err(panic) = ran {
            self.shared.counters.panicked();
            wire.report(&Failure::from_panic_of(
                "the service of an HTTP server",
                panic,
            ));
            self.phase = Phase::Closing;
        }
        let expects = head.expects_continue();
        match served {
            Served::Written { body, close } if direct && self.is_plain(expects) => {
                self.tally.response(status);
                if !body.is_empty() {
                    wire.send(body);
                }
                if close {
                    self.close_after_response(wire);
                }
            }
            served => {
                let out = if direct { wire.output() } else { &mut apart };
                let served = self.replace_missing(served, out, start, to, &mut status);
                let head = if direct { BytesMut::new() } else { apart };
                self.enqueue(served, head, direct, to, status, expects);
                self.pump(wire);
            }
        }
    }

    /// Returns `true` if nothing is left to do for the request but its response.
    #[inline]
    fn is_plain(&self, expects_continue: bool) -> bool {
        matches!(self.intake, Intake::None) && !expects_continue && self.phase == Phase::Open
    }

    /// Writes status 500 in place of a response that the service did not make.
    fn replace_missing(
        &mut self,
        served: Served,
        out: &mut BytesMut,
        start: usize,
        to: ReplyTo,
        status: &mut u16,
    ) -> Served {
        match &served {
            Served::Nothing => self.shared.counters.dropped(),
            Served::Mistake(mistake) => self.shared.counters.mistake(*mistake),
            _ => return served,
        }
        out.truncate(start);
        let date = self.shared.wall.date_at(self.now);
        write_closing(out, 500, to, &date);
        *status = 500;
        Served::Written {
            body: Bytes::new(),
            close: true,
        }
    }

    /// Puts a response into the queue, and decides what becomes of the request's body. `head` is
    /// what was written of the response; if `direct`, it is already on its way.
    fn enqueue(
        &mut self,
        served: Served,
        head: BytesMut,
        direct: bool,
        to: ReplyTo,
        status: u16,
        expects_continue: bool,
    ) {
        let asked = matches!(self.intake, Intake::Sink(_));
        let mut ends = !to.keep_alive;
        let slot = match served {
            Served::Deferred => Slot::Waiting {
                to,
                owes_continue: expects_continue && asked,
            },
            Served::Streams { framing, close } => {
                ends |= close;
                let encoder = BodyEncoder::new(framing);
                let head = StreamHead {
                    head,
                    framing,
                    close,
                    status,
                };
                Slot::Stream(Box::new(Stream::new(head, direct, encoder)))
            }
            Served::Written { body, close } => {
                ends |= close;
                Slot::Ready(Whole {
                    head,
                    body,
                    close,
                    status,
                })
            }
            Served::Nothing | Served::Mistake(_) => return,
        };
        let deferred = matches!(slot, Slot::Waiting { .. });
        self.queue.push(slot);
        if matches!(self.intake, Intake::Unasked) {
            self.intake = Intake::Discard(self.shared.limits.discard);
        }
        // A client that waits for `100 Continue` and got a response may send the body or not:
        // nothing after this response can be understood.
        if expects_continue && !(asked && deferred) {
            (ends, self.linger) = (true, true);
        }
        if ends {
            self.phase = Phase::Closing;
        }
    }

    /// Receives a piece of a body. Returns why no more can be received now.
    fn take_body<'a, I: Input>(&mut self, input: &mut I, wire: &mut impl Wire<'a>) -> Option<Stop> {
        if self.body_paused {
            return Some(Stop::Blocked);
        }
        let step = match self.decoder.body(input) {
            Ok(step) => step,
            Err(reason) => {
                self.refuse_body(reason, wire);
                return None;
            }
        };
        match step.event {
            BodyEvent::More => {
                input.advance(step.consumed);
                return Some(Stop::NeedsMore);
            }
            BodyEvent::Data(range) => {
                let data = input.take_part(step.consumed, range);
                self.take_data(data, wire);
            }
            BodyEvent::Trailers(range) => {
                let lines = input.take_part(step.consumed, range);
                if let Intake::Sink(sink) = &mut self.intake {
                    sink.trailers(lines);
                }
            }
            BodyEvent::End => {
                input.advance(step.consumed);
                if let Intake::Sink(sink) = std::mem::take(&mut self.intake) {
                    sink.end();
                }
            }
        }
        None
    }

    fn take_data<'a>(&mut self, data: Bytes, wire: &mut impl Wire<'a>) {
        match &mut self.intake {
            Intake::Sink(sink) => match sink.data(data) {
                Flow::More => {}
                Flow::Pause => self.body_paused = true,
                Flow::Enough => self.intake = Intake::Discard(self.shared.limits.discard),
            },
            Intake::Discard(left) => match left.checked_sub(data.len() as u64) {
                Some(less) => *left = less,
                None => self.give_up_body(wire),
            },
            Intake::None | Intake::Unasked => {}
        }
    }

    /// Stops receiving a body that nothing reads: the connection ends with the outstanding
    /// responses.
    fn give_up_body<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.intake = Intake::None;
        self.decoder.refuse(RefusalReason::BodyTooLarge);
        (self.phase, self.linger) = (Phase::Closing, true);
        self.pump(wire);
    }

    /// Refuses a head, or the wait for one: responds with one status, and ends the connection.
    #[cold]
    fn refuse<'a>(&mut self, reason: RefusalReason, wire: &mut impl Wire<'a>) {
        let refusal = self.refusal(reason, ReplyTo::unknown());
        self.queue.push(refusal);
        self.end_refused(reason, wire);
    }

    /// Refuses the body of the current request. The request gets the status, unless it has its
    /// response already.
    #[cold]
    fn refuse_body<'a>(&mut self, reason: RefusalReason, wire: &mut impl Wire<'a>) {
        let current = self.current;
        if let Some(Slot::Waiting { to, .. }) = self.queue.get_mut(current) {
            let to = *to;
            let refusal = self.refusal(reason, to);
            if let Some(slot) = self.queue.get_mut(current) {
                *slot = refusal;
            }
        }
        self.end_refused(reason, wire);
    }

    fn refusal(&self, reason: RefusalReason, to: ReplyTo) -> Slot {
        let mut head = BytesMut::new();
        let date = self.shared.wall.date_at(self.now);
        write_closing(&mut head, reason.status(), to, &date);
        Slot::Ready(Whole {
            head,
            body: Bytes::new(),
            close: true,
            status: reason.status(),
        })
    }

    /// Ends the connection after a refusal. Nothing that follows is looked at.
    fn end_refused<'a>(&mut self, reason: RefusalReason, wire: &mut impl Wire<'a>) {
        self.decoder.refuse(reason);
        self.shared.counters.refused(reason);
        (self.phase, self.linger) = (Phase::Closing, true);
        self.fail_body(BodyError::Refused(reason));
        self.pump(wire);
    }

    fn fail_body(&mut self, why: BodyError) {
        if let Intake::Sink(sink) = std::mem::take(&mut self.intake) {
            sink.fail(why);
        }
        self.body_paused = false;
    }

    /// Handles a message about a response, from any thread.
    pub(crate) fn part<'a>(&mut self, part: Part, wire: &mut impl Wire<'a>) {
        let Part { seq, what } = part;
        self.now = wire.now();
        match what {
            PartKind::ReadMore if seq == self.current => self.body_paused = false,
            PartKind::BodyDropped if seq == self.current => {
                self.body_paused = false;
                if let Intake::Sink(_) = self.intake {
                    self.intake = Intake::Discard(self.shared.limits.discard);
                }
            }
            PartKind::ReadMore | PartKind::BodyDropped => return,
            what => {
                self.fill(seq, what, wire);
                self.pump(wire);
            }
        }
        self.resume(wire);
        self.settle(wire);
    }

    /// Puts a part of a response into its slot.
    fn fill<'a>(&mut self, seq: u64, what: PartKind, wire: &mut impl Wire<'a>) {
        let Some(slot) = self.queue.get_mut(seq) else {
            return;
        };
        match (slot, what) {
            (slot @ Slot::Waiting { .. }, PartKind::Whole(whole)) => *slot = Slot::Ready(whole),
            (slot @ Slot::Waiting { .. }, PartKind::Head(head)) => {
                let encoder = BodyEncoder::new(head.framing);
                *slot = Slot::Stream(Box::new(Stream::new(head, false, encoder)));
            }
            (slot @ Slot::Waiting { .. }, PartKind::Dropped) => {
                self.shared.counters.dropped();
                let Slot::Waiting { to, .. } = *slot else {
                    return;
                };
                let mut head = BytesMut::new();
                write_closing(&mut head, 500, to, &self.shared.wall.date_at(self.now));
                *slot = Slot::Ready(Whole {
                    head,
                    body: Bytes::new(),
                    close: true,
                    status: 500,
                });
            }
            (Slot::Stream(stream), PartKind::Data(bytes)) => stream.held.push_back(bytes),
            (Slot::Stream(stream), PartKind::End { trailers }) => stream.end = Some(trailers),
            (Slot::Stream(_), PartKind::Dropped) => {
                // The client must not take the part for the whole.
                self.shared.counters.dropped();
                wire.close();
            }
            _ => {}
        }
    }

    /// Sends what is first in the queue, as far as it is known.
    fn pump<'a>(&mut self, wire: &mut impl Wire<'a>) {
        while let Some(slot) = self.queue.front_mut() {
            let close = match slot {
                Slot::Waiting { owes_continue, .. } => {
                    if std::mem::take(owes_continue) {
                        wire.output().put_slice(encode::CONTINUE);
                    }
                    return self.end_if_done(wire);
                }
                Slot::Ready(whole) => {
                    self.tally.response(whole.status);
                    for bytes in [
                        std::mem::take(&mut whole.head).freeze(),
                        whole.body.split_off(0),
                    ] {
                        if !bytes.is_empty() {
                            wire.send(bytes);
                        }
                    }
                    whole.close
                }
                Slot::Stream(stream) => match stream.send(wire, &mut self.tally) {
                    Ok(true) => stream.close,
                    Ok(false) => return,
                    Err(mistake) => {
                        // More or less than the declared length: the client must not take it for
                        // the whole.
                        self.shared.counters.mistake(mistake);
                        return wire.close();
                    }
                },
            };
            self.queue.pop();
            if close {
                while self.queue.pop().is_some() {}
                self.phase = Phase::Closing;
            }
        }
        self.end_if_done(wire);
    }

    /// Ends the connection after a response that was written at once.
    fn close_after_response<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.phase = Phase::Closing;
        self.end_if_done(wire);
    }

    /// Ends the connection if no more requests are accepted and every response is sent.
    fn end_if_done<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.phase != Phase::Closing || !self.queue.is_empty() {
            return;
        }
        if self.decoder.in_body() && matches!(self.intake, Intake::Sink(_)) {
            // The service still reads the body of the last request.
            return;
        }
        if self.linger || self.decoder.in_body() {
            self.phase = Phase::Lingering;
            self.paused_by(false, wire);
            return wire.shutdown_output();
        }
        self.phase = Phase::Lingering;
        wire.close_when_flushed();
    }

    /// Handles the end of the client's stream.
    pub(crate) fn input_ended<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.now = wire.now();
        match self.phase {
            Phase::Lingering => return wire.close_when_flushed(),
            Phase::Open | Phase::Closing => {}
        }
        if self.decoder.in_body() {
            // There is no client that could read a status: it has given up.
            self.fail_body(BodyError::Closed);
            return wire.close();
        }
        self.phase = Phase::Closing;
        self.linger = false;
        self.end_if_done(wire);
        self.settle(wire);
    }

    /// Handles the announcement of a drain: connections are still accepted, and each one ends with
    /// its next response.
    pub(crate) fn announce_drain(&mut self) {
        self.shared.begin_drain();
    }

    /// Handles a drain of the server: an idle connection ends at once, another one with its
    /// response.
    pub(crate) fn drain<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.shared.begin_drain();
        let busy = !self.queue.is_empty() || self.decoder.in_body() || !self.kept.is_empty();
        if !busy && self.phase == Phase::Open {
            self.close_after_response(wire);
        }
    }

    /// Sends what was written, counts it, and sets the time limit for what comes next.
    #[inline]
    pub(crate) fn settle<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.shared.counters.take(&mut self.tally);
        wire.flush();
        let waits = self.waits_for();
        if waits == Waits::Head && self.waits == Waits::Head {
            // A head has its time from its first byte, not from its last one.
            return;
        }
        self.waits = waits;
        self.since = self.now;
        self.check_later(wire);
    }

    fn waits_for(&self) -> Waits {
        match self.phase {
            Phase::Lingering => Waits::End,
            _ if self.decoder.in_body() && !self.body_paused => Waits::Body,
            _ if !self.queue.is_empty() => Waits::Response,
            _ if !self.kept.is_empty() => Waits::Head,
            _ => Waits::Idle,
        }
    }

    fn check_later<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let limits = &self.shared.limits;
        let after = match self.waits {
            Waits::Idle => limits.idle.min(limits.send_time),
            Waits::Head => limits.head_time,
            Waits::Body => limits.body_time,
            Waits::Response => limits.send_time,
            Waits::End => limits.linger,
        };
        wire.deadline(CHECK, after);
    }

    /// Handles the end of a time limit.
    pub(crate) fn check<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.now = wire.now();
        match self.waits {
            Waits::Head => self.refuse(RefusalReason::HeadTimeout, wire),
            Waits::Body => self.refuse_body(RefusalReason::BodyTimeout, wire),
            Waits::End => return wire.close(),
            Waits::Idle | Waits::Response => {
                let sent = std::mem::replace(&mut self.sent, wire.sent_bytes());
                if wire.has_unsent() {
                    if sent == self.sent && self.now.saturating_sub(self.since) > 0 {
                        // The client has taken nothing since the last check.
                        return wire.close();
                    }
                } else if self.waits == Waits::Idle {
                    let waited = self.now.saturating_sub(self.since);
                    let idle = u64::try_from(self.shared.limits.idle.as_nanos());
                    if waited >= idle.unwrap_or(u64::MAX) {
                        self.phase = Phase::Lingering;
                        return wire.close_when_flushed();
                    }
                }
                return self.check_later(wire);
            }
        }
        self.settle(wire);
    }
}
