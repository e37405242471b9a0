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

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_net::{Handler, HandlerContext, PipelineChange};
use tidegate_promise::Failure;

use super::failure::{ExchangeError, ExchangeFailure};
use super::keep_alive::keep_alive_timeout;
use super::pool::Lease;
use super::slot::{Begun, Link, Slot};
use crate::codec::{
    BodyFraming, BodyLimits, BodyPart, HeadLimits, HeadTable, Method, ResponseDecoder, ResponseHead,
};

/// The deadline of the head, of the next part of the body, or of an idle connection.
const LIMIT: u8 = 0;
/// The name of a handler that has taken a connection over.
const SWITCHED: &str = "switched";
/// How many interim responses a server may send to one request.
const MOST_INTERIM: u8 = 16;

/// Whether the receiver of a body takes more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It takes more.
    More,
    /// It takes no more until [`Exchange::resume`](super::Exchange::resume) is called.
    Pause,
    /// It never takes more: the connection ends.
    Gone,
}

/// Receives one response. Its methods run on the connection's loop.
pub(super) trait Receiver: Send + 'static {
    /// Called with each interim head.
    fn interim(&mut self, head: ResponseHead<'_>, ctx: &mut HandlerContext<'_>) {
        let _ = (head, ctx);
    }
    /// Called with the final head.
    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>);
    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow;
    fn trailers(&mut self, lines: Bytes, ctx: &mut HandlerContext<'_>);
    /// Called when the connection takes more of the request.
    fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        let _ = ctx;
    }
    /// Called if the server changes the protocol; `received` follows its head. Returns the handler
    /// that takes the connection over.
    fn switch(
        &mut self,
        head: ResponseHead<'_>,
        received: Bytes,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<Handler> {
        let _ = (head, received, ctx);
        None
    }
    fn end(self, ctx: &mut HandlerContext<'_>);
    fn fail(self, why: ExchangeError, ctx: &mut HandlerContext<'_>);
}

/// Limits of time and use of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    pub(super) head_timeout: Duration,
    pub(super) body_timeout: Duration,
    pub(super) idle: Duration,
    pub(super) max_age: Duration,
    pub(super) max_requests: u64,
}

impl ConnectionLimits {
    /// Returns the limits of connection `id`: age and number of requests are up to a tenth lower
    /// than set, so that connections that were made together do not end together.
    fn with_jitter(mut self, id: u64) -> Self {
        // A fixed mix of the bits: spread, and the same in every run.
        let part = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u32;
        self.max_age -= self.max_age / 10 * part / 256;
        self.max_requests -= self.max_requests / 10 * u64::from(part) / 256;
        self.max_requests = self.max_requests.max(1);
        self
    }
}

/// The exchange in progress.
struct Current<R> {
    id: u64,
    is_head: bool,
    receiver: R,
    /// The final head was received.
    in_body: bool,
    /// The receiver takes no more of the body for now.
    paused: bool,
    /// The receiver wants nothing more, and is dropped when the connection is closed: what it holds,
    /// such as a permit, lasts as long as the server may work for it.
    gone: bool,
    interim: u8,
    responded: bool,
    keep: bool,
    /// How long the server keeps the connection, if it says so.
    server_idle: Option<Duration>,
    /// How many bytes the connection had sent at the last check.
    sent_seen: u64,
}

/// The state of one connection.
pub(super) struct Connection<R: Send + 'static> {
    decoder: ResponseDecoder,
    slot: Arc<Slot<R>>,
    /// Received bytes that could not be handled yet.
    kept: BytesMut,
    current: Option<Current<R>>,
    limits: ConnectionLimits,
    lease: Option<Lease<Link<R>>>,
    /// How many requests were sent, and when the first was.
    served: u64,
    since: u64,
    /// How many bytes were sent before the request in progress.
    sent_before: u64,
    /// When an idle connection ends, in nanoseconds.
    idle_until: u64,
    /// Nothing more is received, so a receiver that pauses gets the rest at once.
    input_over: bool,
    /// The connection has ended or is about to.
    over: bool,
}

impl<R: Receiver> Connection<R> {
    pub(super) fn new(limits: ConnectionLimits, head: HeadLimits) -> Self {
        Self {
            decoder: ResponseDecoder::new(head, BodyLimits::DEFAULT),
            slot: Slot::new(),
            kept: BytesMut::new(),
            current: None,
            limits,
            lease: None,
            served: 0,
            since: 0,
            sent_before: 0,
            idle_until: u64::MAX,
            input_over: false,
            over: false,
        }
    }

    /// Returns the slot in which exchanges begin.
    pub(super) fn slot(&self) -> Arc<Slot<R>> {
        Arc::clone(&self.slot)
    }

    /// Handles the start of the connection.
    pub(super) fn opened(&mut self, ctx: &mut HandlerContext<'_>) {
        self.watch_idle(self.limits.idle, ctx);
    }

    /// Takes the exchange that has begun, if there is one.
    fn load(&mut self, ctx: &HandlerContext<'_>) {
        if self.current.is_some() {
            return;
        }
        let Some(mut begun) = self.slot.take() else {
            return;
        };
        if let Some(lease) = begun.lease.take() {
            self.limits = self.limits.with_jitter(lease.id());
            self.since = ctx.now();
            self.lease = Some(lease);
        }
        self.current = Some(Current {
            id: begun.id,
            is_head: begun.is_head,
            receiver: begun.receiver,
            in_body: false,
            paused: false,
            gone: false,
            interim: 0,
            responded: false,
            keep: false,
            server_idle: None,
            sent_seen: self.sent_before,
        });
        self.served += 1;
    }

    /// Sets the time after which an idle connection ends. The deadline is not later than that of
    /// the head of a request that begins meanwhile: when it passes, the connection looks again.
    fn watch_idle(&mut self, idle: Duration, ctx: &mut HandlerContext<'_>) {
        self.idle_until = after(ctx.now(), idle);
        ctx.deadline(LIMIT, idle.min(self.limits.head_timeout));
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
            return self.fail(ExchangeFailure::Closed(None), ctx);
        }
        if self.current.is_none() {
            // Nothing was asked for: whatever this is, it belongs to no call.
            ctx.give_back(bytes);
            return self.close(ctx);
        }
        if self.kept.is_empty() {
            return self.advance(bytes, ctx);
        }
        self.kept.extend_from_slice(&bytes);
        ctx.give_back(bytes);
        let joined = std::mem::take(&mut self.kept).freeze();
        self.advance(joined, ctx);
    }

    /// Handles as much of `input` as possible, and keeps the rest.
    fn advance(&mut self, mut input: Bytes, ctx: &mut HandlerContext<'_>) {
        let mut table = HeadTable::new();
        while let Some(current) = &mut self.current {
            current.responded |= !input.is_empty();
            let more = match current.in_body {
                true => self.take_body(&mut input, ctx),
                false => self.take_head(&mut input, &mut table, ctx),
            };
            if !more {
                break;
            }
        }
        if self.current.is_some() && !input.is_empty() {
            self.kept = BytesMut::from(&input[..]);
        }
        ctx.give_back(input);
    }

    /// Handles a head. Returns `false` if more bytes are needed or the connection has ended.
    fn take_head(
        &mut self,
        input: &mut Bytes,
        table: &mut HeadTable,
        ctx: &mut HandlerContext<'_>,
    ) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        let method = match current.is_head {
            true => Method::Head,
            false => Method::Get,
        };
        let head = match self.decoder.head(input, table, method) {
            Ok(Some(head)) => head,
            Ok(None) => return false,
            Err(reason) => {
                self.fail(ExchangeFailure::BadResponse(reason), ctx);
                return false;
            }
        };
        let (length, framing) = (head.len(), head.framing(method));
        if framing == BodyFraming::Tunnel {
            let received = input.slice(length..);
            match current.receiver.switch(head, received, ctx) {
                Some(handler) => self.hand_over(handler, ctx),
                None => {
                    let what = "it changed the protocol, which the request did not ask for";
                    self.fail(ExchangeFailure::Unexpected(what), ctx);
                }
            }
            input.advance(input.len());
            return false;
        }
        if head.status() < 200 {
            current.interim += 1;
            if current.interim > MOST_INTERIM {
                let what = "it sent too many interim responses";
                self.fail(ExchangeFailure::Unexpected(what), ctx);
                return false;
            }
            current.receiver.interim(head, ctx);
            input.advance(length);
            return true;
        }
        current.in_body = true;
        // A final response before the end of the request: the rest is not sent, and the connection
        // cannot serve another request.
        let complete = self.slot.stop();
        current.keep = complete && head.keep_alive() && framing != BodyFraming::UntilClose;
        current.server_idle = head.get("keep-alive").and_then(keep_alive_timeout);
        current.receiver.head(head, framing, ctx);
        input.advance(length);
        if framing.is_empty() {
            self.finish(input, ctx);
            return false;
        }
        ctx.deadline(LIMIT, self.limits.body_timeout);
        true
    }

    /// Lets another handler take the connection over, which leaves the pool.
    fn hand_over(&mut self, handler: Handler, ctx: &mut HandlerContext<'_>) {
        ctx.clear_deadline(LIMIT);
        self.current = None;
        let me = ctx.name().to_owned();
        if ctx
            .change(PipelineChange::replace(me, SWITCHED, handler))
            .is_err()
        {
            // A handler that does not take bytes.
            return self.close(ctx);
        }
        self.over = true;
        if let Some(late) = self.slot.close() {
            self.refuse(late, ctx);
        }
    }

    /// Handles a part of the body. Returns `false` if more bytes are needed or the response has
    /// ended.
    fn take_body(&mut self, input: &mut Bytes, ctx: &mut HandlerContext<'_>) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        if current.paused {
            return false;
        }
        match self.decoder.body_bytes(input) {
            Ok(BodyPart::More) => return false,
            Ok(BodyPart::Data(data)) => {
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
            Ok(BodyPart::Trailers(lines)) => current.receiver.trailers(lines, ctx),
            Ok(BodyPart::End) => {
                self.finish(input, ctx);
                return false;
            }
            Err(reason) => {
                self.fail(ExchangeFailure::BadResponse(reason), ctx);
                return false;
            }
        }
        true
    }

    fn pause(&mut self, ctx: &mut HandlerContext<'_>) {
        if let Some(current) = &mut self.current
            && !self.input_over
        {
            current.paused = true;
            ctx.set_auto_read(false);
            // Now the receiver is slow, not the server.
            ctx.clear_deadline(LIMIT);
        }
    }

    /// Goes on after the receiver of exchange `id` has paused.
    pub(super) fn resume(&mut self, id: u64, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        if let Some(current) = &mut self.current
            && current.id == id
            && !current.gone
            && std::mem::take(&mut current.paused)
        {
            ctx.set_auto_read(true);
            ctx.deadline(LIMIT, self.limits.body_timeout);
            let kept = std::mem::take(&mut self.kept).freeze();
            self.advance(kept, ctx);
        }
    }

    /// Ends exchange `id`, whose caller has left, and the connection with it.
    pub(super) fn cancel(&mut self, id: u64, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        let current = self.current.as_ref();
        if current.is_some_and(|current| current.id == id) {
            self.leave(ctx);
        }
    }

    /// Closes the connection, because its receiver wants nothing more.
    fn leave(&mut self, ctx: &mut HandlerContext<'_>) {
        if let Some(current) = &mut self.current {
            current.gone = true;
        }
        self.close(ctx);
    }

    /// Ends the exchange after its response; `rest` was received behind it.
    fn finish(&mut self, rest: &Bytes, ctx: &mut HandlerContext<'_>) {
        let Some(current) = self.current.take() else {
            return;
        };
        let now = ctx.now();
        let age = Duration::from_nanos(now.saturating_sub(self.since));
        let usable = current.keep
            && !self.over
            && rest.is_empty()
            && !ctx.has_unsent()
            && self.served < self.limits.max_requests
            && age < self.limits.max_age;
        if usable && self.lease.is_some() {
            let idle = current.server_idle.unwrap_or(Duration::MAX);
            self.watch_idle(self.limits.idle.min(idle), ctx);
            self.sent_before = ctx.sent_bytes();
            self.slot.end();
            let link = Link {
                channel: ctx.channel(),
                slot: Arc::clone(&self.slot),
            };
            // Before the caller learns of the end, so that its next call finds the connection.
            if let Some(lease) = &self.lease {
                lease.make_idle(link);
            }
        } else {
            self.close(ctx);
        }
        current.receiver.end(ctx);
    }

    /// Handles that the connection takes more of a request.
    pub(super) fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        if let Some(current) = self.current.as_mut().filter(|current| !current.gone) {
            current.receiver.writable(ctx);
        }
    }

    /// Handles the deadline.
    pub(super) fn deadline(&mut self, ctx: &mut HandlerContext<'_>) {
        if self.over {
            return;
        }
        self.load(ctx);
        let (now, limits) = (ctx.now(), self.limits);
        let Some(current) = &mut self.current else {
            return match self.idle_until.saturating_sub(now) {
                0 => self.close(ctx),
                left => {
                    let left = Duration::from_nanos(left);
                    ctx.deadline(LIMIT, left.min(limits.head_timeout));
                }
            };
        };
        if current.paused {
            return;
        }
        let sent = ctx.sent_bytes();
        if sent > std::mem::replace(&mut current.sent_seen, sent) && ctx.has_unsent() {
            // The request is still being sent, and the server takes it.
            return ctx.deadline(LIMIT, limits.head_timeout);
        }
        if current.in_body {
            return self.fail(ExchangeFailure::BodyTimeout(limits.body_timeout), ctx);
        }
        let progress = self.slot.progress();
        if !progress.complete && !ctx.has_unsent() {
            // The rest of the request has not been written yet: the server is not slow.
            return ctx.deadline(LIMIT, limits.head_timeout);
        }
        // The request may have begun, or become complete, after the deadline was set.
        let until = after(progress.since, limits.head_timeout);
        match until.saturating_sub(now) {
            0 => self.fail(ExchangeFailure::HeadTimeout(limits.head_timeout), ctx),
            left => ctx.deadline(LIMIT, Duration::from_nanos(left)),
        }
    }

    /// Handles an error of the connection.
    pub(super) fn error(&mut self, why: Failure, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.fail(ExchangeFailure::Closed(Some(why)), ctx);
    }

    /// Handles that the server has ended its side. A body without a length is complete then.
    pub(super) fn input_ended(&mut self, ctx: &mut HandlerContext<'_>) {
        if self.over {
            return;
        }
        self.load(ctx);
        self.deliver_rest(ctx);
        if self.over {
            return;
        }
        let Some(current) = &self.current else {
            return self.close(ctx);
        };
        if current.in_body && self.decoder.in_body() && self.decoder.end_of_input().is_ok() {
            self.close(ctx);
            if let Some(current) = self.current.take() {
                current.receiver.end(ctx);
            }
            return;
        }
        self.fail_early(ctx);
    }

    /// Handles the end of the connection. If the server has not ended its side before, this program
    /// or an error did: a response in progress is not complete.
    pub(super) fn closed(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.over = true;
        let late = self.slot.close();
        // The next attempt may need the permit.
        drop(self.lease.take());
        if let Some(late) = late {
            self.refuse(late, ctx);
        }
        self.deliver_rest(ctx);
        self.fail_early(ctx);
        // One that wants nothing more.
        drop(self.current.take());
    }

    /// Delivers what a receiver that has paused did not take: nothing more comes.
    fn deliver_rest(&mut self, ctx: &mut HandlerContext<'_>) {
        self.input_over = true;
        if let Some(current) = self.current.as_mut().filter(|current| !current.gone) {
            current.paused = false;
            let kept = std::mem::take(&mut self.kept).freeze();
            self.advance(kept, ctx);
        }
    }

    /// Fails the exchange in progress, if there is one, because the connection ended before it.
    fn fail_early(&mut self, ctx: &mut HandlerContext<'_>) {
        if let Some(current) = &self.current {
            let why = match current.in_body {
                true => ExchangeFailure::Truncated,
                false => ExchangeFailure::Closed(None),
            };
            self.fail(why, ctx);
        }
    }

    fn fail(&mut self, cause: ExchangeFailure, ctx: &mut HandlerContext<'_>) {
        self.close(ctx);
        if let Some(current) = self.current.take_if(|current| !current.gone) {
            let sent = ctx.sent_bytes() > self.sent_before;
            let why = ExchangeError {
                cause,
                sent,
                responded: current.responded,
                reused: self.served > 1,
            };
            current.receiver.fail(why, ctx);
        }
    }

    fn close(&mut self, ctx: &mut HandlerContext<'_>) {
        if !std::mem::replace(&mut self.over, true) {
            self.kept = BytesMut::new();
            ctx.close();
            if let Some(late) = self.slot.close() {
                self.refuse(late, ctx);
            }
        }
    }

    /// Fails an exchange of another thread that began while the connection ended. Its request is
    /// behind the close.
    fn refuse(&self, mut late: Begun<R>, ctx: &mut HandlerContext<'_>) {
        let reused = late.lease.is_none();
        drop(late.lease.take());
        late.receiver.fail(ExchangeError::not_begun(reused), ctx);
    }
}

/// Returns the time `wait` after `now`, in nanoseconds.
fn after(now: u64, wait: Duration) -> u64 {
    now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
}
