//! One connection to a server: sends a request, receives its response, and serves the next request.
//!
//! ```text
//!   Idle ── begin ──▶ Head ── final head ──▶ Body ── end ──▶ Idle, or closed
//!     │                 │ 1xx: stays           │
//!     ▼ bytes, time     ▼ failure              ▼ failure, cancel
//!   closed            closed                 closed
//! ```
//!
//! A connection is used again only after a response whose end is known, if both sides keep it open,
//! the whole request was sent and nothing was received behind the response. Bytes that arrive
//! while no request is outstanding end the connection; they are never delivered.
//!
//! | file | contents |
//! |---|---|
//! | this one | the state; requests that begin, and responses that arrive |
//! | `ends` | how an exchange and its connection end |
//! | `moves` | connections that another handler or another loop takes over |

mod ends;
mod moves;

pub(super) use self::moves::SWITCHED;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_net::HandlerContext;

use super::error::Kind;
use super::exchange_handler::{ExchangeHandler, Flow};
use super::keep_alive::keep_alive_timeout;
use super::limits::ConnectionLimits;
use super::pool::{Lease, Reservation};
use super::slot::{Begun, Link, Slot};
use crate::codec::{
    BodyEvent, BodyFraming, BodyLimits, BodyStep, HeadLimits, HeadTable, KnownField,
    ResponseDecoder, ResponseHead,
};
use crate::server::{Received, spare_table, take_data};

/// The deadline of the head, of the next part of the body, or of an idle connection.
const LIMIT: u8 = 0;
/// How many interim responses a server may send to one request within [`INTERIM_PERIOD`]: a long
/// operation may report every few seconds that it goes on.
const MOST_INTERIM: u8 = 16;
/// The time in which interim responses are counted, in nanoseconds.
const INTERIM_PERIOD: u64 = 1_000_000_000;

/// Counts the interim responses to one request.
#[derive(Default)]
struct InterimCount {
    /// When the period began, in nanoseconds.
    since: u64,
    /// How many came in it.
    count: u8,
}

impl InterimCount {
    /// Counts one that comes at `now`. Returns `false` if there are too many.
    fn add(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.since) >= INTERIM_PERIOD {
            *self = Self {
                since: now,
                count: 0,
            };
        }
        self.count += 1;
        self.count <= MOST_INTERIM
    }
}

/// How far the exchange in progress is.
#[derive(Default)]
struct Course {
    /// The final head was received.
    in_body: bool,
    /// The receiver takes no more of the body for now.
    paused: bool,
    /// The receiver wants nothing more, and is dropped when the connection is closed: what it holds,
    /// such as a permit, lasts as long as the server may work for it.
    gone: bool,
    interim: InterimCount,
    responded: bool,
    keep: bool,
    /// Everything of the request was written when the final head came.
    complete: bool,
    /// How long the server keeps the connection, if it says so.
    server_idle: Option<Duration>,
    /// How many bytes the connection had sent at the last check.
    sent_seen: u64,
}

impl Course {
    /// Notes what the final head says.
    fn begin_body<R: Send + 'static>(
        &mut self,
        head: &ResponseHead<'_>,
        framing: BodyFraming,
        slot: &Slot<R>,
    ) {
        self.in_body = true;
        // A server may respond while it reads the request. After an error, or if it closes the
        // connection, the rest is not wanted (RFC 9112, section 9.5).
        let reads_on = head.keep_alive() && head.status() < 400;
        self.complete = match reads_on {
            // It stays complete.
            true => self.complete || slot.progress().complete,
            false => slot.stop(),
        };
        self.keep = head.keep_alive() && framing != BodyFraming::UntilClose;
        self.server_idle = head.get("keep-alive").and_then(keep_alive_timeout);
    }
}

/// The state of one connection.
pub(super) struct Connection<R: Send + 'static> {
    decoder: ResponseDecoder,
    slot: Arc<Slot<R>>,
    /// For the pool, once the connection was in it.
    link: Option<Link<R>>,
    /// Received bytes that could not be handled yet.
    kept: BytesMut,
    /// The exchange in progress, and how far it is.
    current: Option<Begun<R>>,
    course: Course,
    limits: ConnectionLimits,
    lease: Option<Lease<Link<R>>>,
    /// The lease of the connect, which may be cancelled. Dropped after the socket.
    reservation: Option<Arc<Reservation<Link<R>>>>,
    /// How many requests were sent, and when the first was.
    served: u64,
    since: u64,
    /// How many bytes were sent before the request in progress.
    sent_before: u64,
    /// When an idle connection ends, in nanoseconds.
    idle_until: u64,
    /// For when its deadline is set, if that is not the one of a request; otherwise zero.
    watched_until: u64,
    /// Nothing more is received, so a receiver that pauses gets the rest at once.
    input_over: bool,
    /// The connection has ended or is about to.
    over: bool,
}

impl<R: ExchangeHandler> Connection<R> {
    pub(super) fn new(limits: ConnectionLimits, head: HeadLimits) -> Self {
        Self {
            decoder: ResponseDecoder::new(head, BodyLimits::DEFAULT),
            slot: Slot::new(),
            link: None,
            kept: BytesMut::new(),
            current: None,
            course: Course::default(),
            limits,
            lease: None,
            reservation: None,
            served: 0,
            since: 0,
            sent_before: 0,
            idle_until: u64::MAX,
            watched_until: 0,
            input_over: false,
            over: false,
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
        let idle = match self.idle_until {
            u64::MAX => self.limits.idle,
            // It was idle on another loop.
            until => Duration::from_nanos(until.saturating_sub(now)),
        };
        self.watch_idle(idle, now, ctx);
    }

    /// Takes the exchange that has begun, if there is one.
    fn load(&mut self, ctx: &HandlerContext<'_>) {
        if self.current.is_some() {
            return;
        }
        let Some(complete) = self.slot.take(&mut self.current) else {
            return;
        };
        self.course = Course {
            complete,
            sent_seen: self.sent_before,
            ..Course::default()
        };
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
        self.idle_until = after(now, idle);
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
        if self.over {
            return ctx.give_back(bytes);
        }
        self.load(ctx);
        if self.current.is_some() && ctx.sent_bytes() == self.sent_before {
            // Nothing of the request was sent, so this is no response to it.
            ctx.give_back(bytes);
            return self.fail(Kind::Closed(None), ctx);
        }
        if self.current.is_none() {
            // Nothing was asked for: whatever this is, it belongs to no call.
            ctx.give_back(bytes);
            return self.close(ctx);
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
        while self.current.is_some() {
            self.course.responded |= !input.is_empty();
            let more = match self.course.in_body {
                true => self.take_body(&mut input, ctx),
                false => self.take_head(&mut input, &mut table, ctx),
            };
            if !more {
                break;
            }
        }
        spare_table::put_back(table);
        let is_needed = self.current.is_some();
        if is_needed && self.course.responded && !self.course.in_body {
            self.slot.answer_began();
        }
        let (rest, spent) = input.keep();
        if let Some(rest) = rest.filter(|_| is_needed) {
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
            let handler = match complete {
                true => current.receiver.switch(head, received, ctx),
                false => None,
            };
            match handler {
                Some(handler) => self.hand_over(handler, ctx),
                None => self.fail(Kind::switched(complete, unnamed), ctx),
            }
            input.advance(input.len());
            return false;
        }
        if head.status() < 200 {
            if !self.course.interim.add(ctx.now()) {
                let what = "it sent too many interim responses";
                self.fail(Kind::Unexpected(what), ctx);
                return false;
            }
            current.receiver.interim(head, ctx);
            input.advance(length);
            return true;
        }
        self.course.begin_body(&head, framing, &self.slot);
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
        if framing.is_empty() {
            self.finish(input, ctx);
            return false;
        }
        self.watch(self.limits.body_timeout, ctx);
        true
    }

    /// Handles a part of the body. Returns `false` if more bytes are needed or the response has
    /// ended.
    fn take_body(&mut self, input: &mut Received, ctx: &mut HandlerContext<'_>) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        if self.course.paused {
            return false;
        }
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
                match current.receiver.data(data, ctx) {
                    Flow::More => {}
                    Flow::Pause => self.pause(ctx),
                    Flow::Gone => {
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

    fn pause(&mut self, ctx: &mut HandlerContext<'_>) {
        if self.current.is_some() && !self.input_over {
            self.course.paused = true;
            ctx.set_auto_read(false);
            // Now the receiver is slow, not the server.
            self.watched_until = 0;
            ctx.clear_deadline(LIMIT);
        }
    }

    /// Goes on after the receiver of exchange `id` has paused.
    pub(super) fn resume(&mut self, id: u64, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        if let Some(current) = &self.current
            && current.id == id
            && !self.course.gone
            && std::mem::take(&mut self.course.paused)
        {
            ctx.set_auto_read(true);
            self.watch(self.limits.body_timeout, ctx);
            self.advance_kept(ctx);
        }
    }

    /// Handles that the connection takes more of a request.
    pub(super) fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        if let Some(current) = self.current.as_mut().filter(|_| !self.course.gone) {
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

/// Returns the time `wait` after `now`, in nanoseconds.
fn after(now: u64, wait: Duration) -> u64 {
    now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
}
