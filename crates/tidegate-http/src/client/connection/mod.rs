//! One connection to a server: sends a request, receives its response, and serves the next request.
//!
//! A connection is used again only after a response whose end is known, if both sides keep it open,
//! the whole request was sent and nothing was received behind the response. Bytes that arrive
//! while no request is outstanding end the connection; they are never delivered.
//!
//! | file | contents |
//! |---|---|
//! | `course` | what it is doing, and what it does next, as plain data with a diagram |
//! | this one | the state; requests that begin, and responses that arrive |
//! | `ends` | how an exchange and its connection end |
//! | `moves` | connections that another handler or another loop takes over |

pub(super) mod course;
mod ends;
mod moves;

pub(super) use self::moves::SWITCHED;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_net::HandlerContext;

use self::course::{After, Course, OnBytes, OnData, Reading, after};
use super::error::Kind;
use super::exchange_handler::ExchangeHandler;
use super::keep_alive::keep_alive_timeout;
use super::limits::ConnectionLimits;
use super::pool::{Lease, Reservation};
use super::slot::{Begun, Link, Slot};
use crate::codec::{
    BodyEvent, BodyFraming, BodyLimits, BodyStep, HeadLimits, HeadTable, KnownField,
    ResponseDecoder,
};
use crate::server::{Received, spare_table, take_data};

/// The deadline of the head, of the next part of the body, or of an idle connection.
const LIMIT: u8 = 0;
const TOO_MANY_INTERIM: &str = "it sent too many interim responses";

/// The state of one connection.
pub(super) struct Connection<R: Send + 'static> {
    decoder: ResponseDecoder,
    slot: Arc<Slot<R>>,
    /// For the pool, once the connection was in it.
    link: Option<Link<R>>,
    /// Received bytes that could not be handled yet.
    kept: BytesMut,
    /// The exchange in progress. Its course says whether there is one.
    current: Option<Begun<R>>,
    course: Course,
    limits: ConnectionLimits,
    lease: Option<Lease<Link<R>>>,
    /// The lease of the connect, which may be cancelled. Dropped after the socket.
    reservation: Option<Arc<Reservation<Link<R>>>>,
    /// How many requests were sent, and when the first was.
    served: u64,
    since: u64,
    /// How many bytes were sent before the request in progress, and at the last look at it.
    sent_before: u64,
    sent_seen: u64,
    /// For when its deadline is set, if that is not the one of a request; otherwise zero.
    watched_until: u64,
}

impl<R: ExchangeHandler> Connection<R> {
    pub(super) fn new(limits: ConnectionLimits, head: HeadLimits) -> Self {
        Self {
            decoder: ResponseDecoder::new(head, BodyLimits::DEFAULT),
            slot: Slot::new(),
            link: None,
            kept: BytesMut::new(),
            current: None,
            course: Course::Idle { until: u64::MAX },
            limits,
            lease: None,
            reservation: None,
            served: 0,
            since: 0,
            sent_before: 0,
            sent_seen: 0,
            watched_until: 0,
        }
    }

    /// Holds the lease of the connect until the connection is used or has ended.
    pub(super) fn holding(mut self, reservation: &Arc<Reservation<Link<R>>>) -> Self {
        self.reservation = Some(Arc::clone(reservation));
        self
    }

    /// Returns the slot in which exchanges begin.
    pub(super) fn slot(&self) -> Arc<Slot<R>> {
        Arc::clone(&self.slot)
    }

    /// Handles the start of the connection.
    pub(super) fn opened(&mut self, ctx: &mut HandlerContext<'_>) {
        let now = ctx.now();
        match self.course {
            Course::Idle { until: u64::MAX } => self.watch_idle(self.limits.idle, now, ctx),
            // It was idle on another loop.
            Course::Idle { until } => {
                let left = Duration::from_nanos(until.saturating_sub(now));
                self.watch_idle(left, now, ctx);
            }
            _ => self.watch(self.limits.head_timeout, ctx),
        }
    }

    /// Takes the exchange that has begun, if there is one.
    fn load(&mut self, ctx: &HandlerContext<'_>) {
        if !matches!(self.course, Course::Idle { .. }) || !self.slot.take(&mut self.current) {
            return;
        }
        self.course = Course::BEGUN;
        self.sent_seen = self.sent_before;
        let lease = self.current.as_mut().and_then(|begun| begun.lease.take());
        if let Some(lease) = lease {
            self.limits = self.limits.with_jitter(lease.id());
            self.since = ctx.now();
            self.lease = Some(lease);
            self.reservation = None;
        }
        self.served += 1;
    }

    /// Sets the time after which an idle connection ends. The deadline is not later than that of
    /// the head of a request that begins meanwhile: when it passes, the connection looks again. So an
    /// earlier deadline stays, which costs less than to move it with each request.
    fn watch_idle(&mut self, idle: Duration, now: u64, ctx: &mut HandlerContext<'_>) {
        self.course = Course::Idle {
            until: after(now, idle),
        };
        let wait = idle.min(self.limits.head_timeout);
        let until = after(now, wait);
        if !(now + 1..=until).contains(&self.watched_until) {
            self.watched_until = until;
            ctx.deadline(LIMIT, wait);
        }
    }

    /// Sets the deadline of a request in progress.
    fn watch(&mut self, limit: Duration, ctx: &mut HandlerContext<'_>) {
        self.watched_until = 0;
        ctx.deadline(LIMIT, limit);
    }

    /// Handles received bytes.
    pub(super) fn received(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        let sent = ctx.sent_bytes() != self.sent_before;
        match self.course.on_bytes(sent) {
            OnBytes::Read => {}
            OnBytes::Ignore => return ctx.give_back(bytes),
            OnBytes::Close => {
                ctx.give_back(bytes);
                return self.close(ctx);
            }
            OnBytes::Fail => {
                ctx.give_back(bytes);
                return self.fail(Kind::Closed(None), ctx);
            }
        }
        if self.kept.is_empty() {
            return self.advance(Received::from(bytes), ctx);
        }
        self.kept.extend_from_slice(&bytes);
        ctx.give_back(bytes);
        self.advance_kept(ctx);
    }

    /// Handles as much as possible of what was kept.
    fn advance_kept(&mut self, ctx: &mut HandlerContext<'_>) {
        let kept = std::mem::take(&mut self.kept);
        self.advance(Received::joined(kept), ctx);
    }

    /// Handles as much of `input` as possible, and keeps the rest.
    fn advance(&mut self, mut input: Received, ctx: &mut HandlerContext<'_>) {
        let mut table = spare_table::take();
        loop {
            let more = match self.course {
                Course::Head { .. } => {
                    if !input.is_empty() {
                        self.course.on_part();
                    }
                    self.take_head(&mut input, &mut table, ctx)
                }
                Course::Body { reading, .. } if reading != Reading::Paused => {
                    self.take_body(&mut input, ctx)
                }
                _ => false,
            };
            if !more {
                break;
            }
        }
        spare_table::put_back(table);
        if let Course::Head { answered: true, .. } = self.course {
            self.slot.answer_began();
        }
        let (rest, spent) = input.keep();
        if let Some(rest) = rest.filter(|_| self.course.is_receiving()) {
            self.kept = rest;
        }
        ctx.give_back(spent);
    }

    /// Handles a head. Returns `false` if more bytes are needed or the connection has ended.
    fn take_head(
        &mut self,
        input: &mut Received,
        table: &mut HeadTable,
        ctx: &mut HandlerContext<'_>,
    ) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        let method = current.method;
        let head = match self.decoder.head(input, table, method) {
            Ok(Some(head)) => head,
            Ok(None) => return false,
            Err(reason) => {
                self.fail(Kind::BadResponse(reason), ctx);
                return false;
            }
        };
        let (length, framing) = (head.len(), head.framing(method));
        if framing == BodyFraming::Tunnel {
            let received = input.slice(length..input.len());
            // Otherwise the rest of the request would be taken for the other protocol.
            let complete = self.slot.progress().complete;
            let unnamed = head.status() == 101 && head.known(KnownField::Upgrade).is_none();
            let switch = complete.then(|| current.receiver.switch(head, received, ctx));
            match switch.flatten() {
                Some(handler) => self.hand_over(handler, ctx),
                None => self.fail(Kind::switched(complete, unnamed), ctx),
            }
            input.advance(input.len());
            return false;
        }
        if head.status() < 200 {
            let accepted = self.course.on_interim(ctx.now());
            match accepted {
                true => current.receiver.interim(head, ctx),
                false => self.fail(Kind::Unexpected(TOO_MANY_INTERIM), ctx),
            }
            input.advance(length);
            return accepted;
        }
        let is_kept = head.keep_alive() && framing != BodyFraming::UntilClose;
        let time = || head.get("keep-alive").and_then(keep_alive_timeout);
        self.course.on_head(match is_kept {
            true => After::Keep(time().unwrap_or(Duration::MAX)),
            false => After::Close,
        });
        // A server may respond while it reads the request. After an error, or if it closes the
        // connection, the rest is not wanted (RFC 9112, section 9.5).
        if !head.keep_alive() || head.status() >= 400 {
            self.slot.stop();
        }
        if R::TAKES_WHOLE
            && let Some(body) = whole_body(&mut self.decoder, input, length, framing)
        {
            let end = body.end;
            let (received, body) = input.within(body);
            current.receiver.whole(head, framing, received, body, ctx);
            input.advance(end);
            // The decoder is at the end of the message.
            return self.take_body(input, ctx);
        }
        current.receiver.head(head, framing, ctx);
        input.advance(length);
        match framing.is_empty() {
            true => self.finish(input, ctx),
            false => self.watch(self.limits.body_timeout, ctx),
        }
        !framing.is_empty()
    }

    /// Handles a part of the body. Returns `false` if more bytes are needed or the response has
    /// ended.
    fn take_body(&mut self, input: &mut Received, ctx: &mut HandlerContext<'_>) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        let step = match self.decoder.body(input) {
            Ok(step) => step,
            Err(reason) => {
                self.fail(Kind::BadResponse(reason), ctx);
                return false;
            }
        };
        match step.event {
            BodyEvent::More => {
                input.advance(step.consumed);
                return false;
            }
            BodyEvent::Data(range) => {
                let decoder = &mut self.decoder;
                let chunk = |input: &[u8], most| decoder.small_chunk(input, most);
                let data = take_data(input, step.consumed, range, chunk);
                self.watched_until = 0;
                ctx.deadline(LIMIT, self.limits.body_timeout);
                let flow = current.receiver.data(data, ctx);
                match self.course.on_data(flow) {
                    OnData::Read => {}
                    OnData::Pause => {
                        ctx.set_auto_read(false);
                        ctx.clear_deadline(LIMIT);
                    }
                    OnData::Leave => {
                        self.leave(ctx);
                        return false;
                    }
                }
            }
            BodyEvent::Trailers(range) => {
                let lines = input.take_part(step.consumed, range);
                current.receiver.trailers(lines, ctx);
            }
            BodyEvent::End => {
                input.advance(step.consumed);
                self.finish(input, ctx);
                return false;
            }
        }
        true
    }

    /// Goes on after the receiver of exchange `id` has paused.
    pub(super) fn resume(&mut self, id: u64, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        if let Some(current) = &self.current
            && current.id == id
            && self.course.on_resume()
        {
            ctx.set_auto_read(true);
            self.watch(self.limits.body_timeout, ctx);
            self.advance_kept(ctx);
        }
    }

    /// Handles that the connection takes more of a request.
    pub(super) fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        if let Some(current) = self.current.as_mut().filter(|_| self.course.is_receiving()) {
            current.receiver.writable(ctx);
        }
    }
}

/// Takes the body that follows a head of this length, if all of it was received. Returns where it is.
fn whole_body(
    decoder: &mut ResponseDecoder,
    input: &Received,
    head: usize,
    framing: BodyFraming,
) -> Option<Range<usize>> {
    let BodyFraming::Length(length @ 1..) = framing else {
        return None;
    };
    let end = head.checked_add(usize::try_from(length).ok()?)?;
    if end > input.len() {
        return None;
    }
    match decoder.body(&input[head..end]) {
        Ok(BodyStep {
            event: BodyEvent::Data(_),
            ..
        }) => Some(head..end),
        // Refused: the decoder says so again.
        _ => None,
    }
}
