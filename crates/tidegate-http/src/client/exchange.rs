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

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_net::{Channel, HandlerContext};
use tidegate_promise::Failure;

use super::pool::Lease;
use crate::codec::{
    BodyFraming, BodyLimits, BodyPart, HeadLimits, HeadTable, Method, RefusalReason,
    ResponseDecoder, ResponseHead,
};

/// The deadline for the head or the next part of the body.
pub(super) const PROGRESS: u8 = 0;
/// The deadline of an idle connection.
pub(super) const IDLE: u8 = 1;
/// How many interim responses a server may send to one request.
const MOST_INTERIM: u8 = 16;

/// Whether a receiver takes more of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    /// Not until [`Connection::resume`].
    Pause,
    /// Nothing takes the rest: the connection ends.
    Gone,
}

/// Receives one response. Its methods run on the connection's loop.
pub(super) trait Receiver: Send + 'static {
    /// Called with the final head.
    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming);
    fn data(&mut self, bytes: Bytes) -> Flow;
    fn trailers(&mut self, lines: Bytes);
    fn end(self);
    fn fail(self, why: ExchangeError);
}

/// Why an exchange failed, and how far it got.
#[derive(Clone, Debug)]
pub(super) struct ExchangeError {
    pub(super) cause: ExchangeFailure,
    /// A byte of the request may have reached the server.
    pub(super) sent: bool,
    /// A byte of the response was received.
    pub(super) responded: bool,
    /// The connection was used before.
    pub(super) reused: bool,
}

#[derive(Clone, Debug)]
pub(super) enum ExchangeFailure {
    /// The connection ended; with the error, if there was one.
    Closed(Option<Failure>),
    /// The response ended before its body did.
    Truncated,
    /// The response violates the protocol.
    BadResponse(RefusalReason),
    /// The server changed the protocol without a request to do so, or sent too many interim heads.
    Unexpected(&'static str),
    HeadTimeout(Duration),
    BodyTimeout(Duration),
}

/// One request, and what receives its response.
pub(super) struct Exchange<R> {
    pub(super) id: u64,
    /// The encoded head.
    pub(super) head: Bytes,
    pub(super) body: Bytes,
    /// The response has no body, whatever its head declares.
    pub(super) is_head: bool,
    pub(super) receiver: R,
    /// The lease of a connection that was just made.
    pub(super) lease: Option<Lease<Channel>>,
}

impl<R> Exchange<R> {
    fn method(&self) -> Method<'static> {
        match self.is_head {
            true => Method::Head,
            false => Method::Get,
        }
    }
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
    exchange: Exchange<R>,
    /// The final head was received.
    in_body: bool,
    /// The receiver takes no more of the body for now.
    paused: bool,
    interim: u8,
    responded: bool,
    keep: bool,
    /// How long the server keeps the connection, if it says so.
    server_idle: Option<Duration>,
    /// How many bytes the connection had sent when the request began, and at the last check.
    sent_before: u64,
    sent_seen: u64,
}

/// The state of one connection.
pub(super) struct Connection<R> {
    decoder: ResponseDecoder,
    /// Received bytes that could not be handled yet.
    kept: BytesMut,
    current: Option<Box<Current<R>>>,
    limits: ConnectionLimits,
    lease: Option<Lease<Channel>>,
    /// How many requests were sent, and when the first was.
    served: u64,
    since: u64,
    /// The connection has ended or is about to.
    over: bool,
}

impl<R: Receiver> Connection<R> {
    pub(super) fn new(limits: ConnectionLimits, head: HeadLimits) -> Self {
        Self {
            decoder: ResponseDecoder::new(head, BodyLimits::DEFAULT),
            kept: BytesMut::new(),
            current: None,
            limits,
            lease: None,
            served: 0,
            since: 0,
            over: false,
        }
    }

    /// Begins an exchange. Returns what to send, or `None` if the connection cannot be used; the
    /// receiver is told so.
    pub(super) fn begin(
        &mut self,
        mut exchange: Exchange<R>,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<(Bytes, Bytes)> {
        if let Some(lease) = exchange.lease.take() {
            self.limits = self.limits.with_jitter(lease.id());
            self.since = ctx.now();
            self.lease = Some(lease);
        }
        if self.over || self.current.is_some() {
            exchange.receiver.fail(ExchangeError {
                cause: ExchangeFailure::Closed(None),
                sent: false,
                responded: false,
                reused: self.served > 0,
            });
            return None;
        }
        ctx.clear_deadline(IDLE);
        ctx.deadline(PROGRESS, self.limits.head_timeout);
        let (head, body) = (exchange.head.clone(), exchange.body.clone());
        let sent = ctx.sent_bytes();
        self.current = Some(Box::new(Current {
            exchange,
            in_body: false,
            paused: false,
            interim: 0,
            responded: false,
            keep: false,
            server_idle: None,
            sent_before: sent,
            sent_seen: sent,
        }));
        self.served += 1;
        Some((head, body))
    }

    /// Handles received bytes.
    pub(super) fn received(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) {
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
        let method = current.exchange.method();
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
            let what = "it changed the protocol, which the request did not ask for";
            self.fail(ExchangeFailure::Unexpected(what), ctx);
            return false;
        }
        if head.status() < 200 {
            current.interim += 1;
            if current.interim > MOST_INTERIM {
                let what = "it sent too many interim responses";
                self.fail(ExchangeFailure::Unexpected(what), ctx);
                return false;
            }
            input.advance(length);
            return true;
        }
        current.in_body = true;
        current.keep = head.keep_alive() && framing != BodyFraming::UntilClose;
        current.server_idle = head.get("keep-alive").and_then(keep_alive_timeout);
        current.exchange.receiver.head(head, framing);
        input.advance(length);
        if framing.is_empty() {
            self.finish(input, ctx);
            return false;
        }
        ctx.deadline(PROGRESS, self.limits.body_timeout);
        true
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
                ctx.deadline(PROGRESS, self.limits.body_timeout);
                match current.exchange.receiver.data(data) {
                    Flow::More => {}
                    Flow::Pause => self.pause(ctx),
                    Flow::Gone => {
                        self.current = None;
                        self.close(ctx);
                    }
                }
            }
            Ok(BodyPart::Trailers(lines)) => current.exchange.receiver.trailers(lines),
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
        // At the end of the connection, everything that was received is delivered.
        if let Some(current) = &mut self.current
            && !self.over
        {
            current.paused = true;
            ctx.set_auto_read(false);
            // Now the receiver is slow, not the server.
            ctx.clear_deadline(PROGRESS);
        }
    }

    /// Goes on after the receiver of exchange `id` has paused.
    pub(super) fn resume(&mut self, id: u64, ctx: &mut HandlerContext<'_>) {
        if let Some(current) = &mut self.current
            && current.exchange.id == id
            && std::mem::take(&mut current.paused)
        {
            ctx.set_auto_read(true);
            ctx.deadline(PROGRESS, self.limits.body_timeout);
            let kept = std::mem::take(&mut self.kept).freeze();
            self.advance(kept, ctx);
        }
    }

    /// Ends exchange `id`, whose caller has left, and the connection with it.
    pub(super) fn cancel(&mut self, id: u64, ctx: &mut HandlerContext<'_>) {
        let current = self.current.as_ref();
        if current.is_some_and(|current| current.exchange.id == id) {
            self.current = None;
            self.close(ctx);
        }
    }

    /// Ends the exchange after its response; `rest` was received behind it.
    fn finish(&mut self, rest: &Bytes, ctx: &mut HandlerContext<'_>) {
        let Some(current) = self.current.take() else {
            return;
        };
        ctx.clear_deadline(PROGRESS);
        let age = Duration::from_nanos(ctx.now().saturating_sub(self.since));
        let usable = current.keep
            && !self.over
            && rest.is_empty()
            && !ctx.has_unsent()
            && self.served < self.limits.max_requests
            && age < self.limits.max_age;
        match (&self.lease, usable) {
            (Some(lease), true) => {
                let idle = current.server_idle.unwrap_or(Duration::MAX);
                ctx.deadline(IDLE, self.limits.idle.min(idle));
                // Before the caller learns of the end, so that its next call finds the connection.
                lease.make_idle(ctx.channel());
            }
            _ => self.close(ctx),
        }
        current.exchange.receiver.end();
    }

    /// Handles a deadline.
    pub(super) fn deadline(&mut self, key: u8, ctx: &mut HandlerContext<'_>) {
        let Some(current) = &mut self.current else {
            if key == IDLE {
                self.close(ctx);
            }
            return;
        };
        if key != PROGRESS {
            return;
        }
        let sent = ctx.sent_bytes();
        if sent > std::mem::replace(&mut current.sent_seen, sent) && ctx.has_unsent() {
            // The request is still being sent, and the server takes it.
            return ctx.deadline(PROGRESS, self.limits.head_timeout);
        }
        let why = match current.in_body {
            true => ExchangeFailure::BodyTimeout(self.limits.body_timeout),
            false => ExchangeFailure::HeadTimeout(self.limits.head_timeout),
        };
        self.fail(why, ctx);
    }

    /// Handles an error of the connection.
    pub(super) fn error(&mut self, why: Failure, ctx: &mut HandlerContext<'_>) {
        self.fail(ExchangeFailure::Closed(Some(why)), ctx);
    }

    /// Handles the end of the connection.
    pub(super) fn closed(&mut self, ctx: &mut HandlerContext<'_>) {
        self.over = true;
        // The next attempt may need the permit.
        drop(self.lease.take());
        if let Some(current) = &mut self.current {
            current.paused = false;
            let kept = std::mem::take(&mut self.kept).freeze();
            self.advance(kept, ctx);
        }
        let Some(current) = &self.current else {
            return;
        };
        if current.in_body && self.decoder.in_body() && self.decoder.end_of_input().is_ok() {
            if let Some(current) = self.current.take() {
                current.exchange.receiver.end();
            }
            return;
        }
        let why = match current.in_body {
            true => ExchangeFailure::Truncated,
            false => ExchangeFailure::Closed(None),
        };
        self.fail(why, ctx);
    }

    fn fail(&mut self, cause: ExchangeFailure, ctx: &mut HandlerContext<'_>) {
        self.close(ctx);
        if let Some(current) = self.current.take() {
            let sent = ctx.sent_bytes() > current.sent_before;
            current.exchange.receiver.fail(ExchangeError {
                cause,
                sent,
                responded: current.responded,
                reused: self.served > 1,
            });
        }
    }

    fn close(&mut self, ctx: &mut HandlerContext<'_>) {
        if !std::mem::replace(&mut self.over, true) {
            self.kept = BytesMut::new();
            ctx.close();
        }
    }
}

/// Returns the `timeout` of a `Keep-Alive` field, a little shorter: the server counts from an
/// earlier moment.
fn keep_alive_timeout(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    let parts = text.split(',').map(str::trim);
    let timeout = parts
        .filter_map(|part| part.split_once('='))
        .find_map(|(name, value)| {
            let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
            is_timeout.then(|| value.trim().trim_matches('"'))
        })?;
    let seconds = Duration::from_secs(timeout.parse().ok()?);
    Some(seconds.saturating_sub((seconds / 2).min(Duration::from_secs(1))))
}
