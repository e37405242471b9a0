//! The handler: decodes requests, encodes responses, and keeps their order.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidegate_net::{
    Blocking, DrainAnnounced, Draining, Inbound, InboundContext, InputShutdown, Outbound,
    OutboundContext, UserEvent,
};
use tidegate_promise::Failure;

use super::parts::{RequestPart, ResponsePart};
use super::sending::{Begun, Sending};
use crate::codec::{
    BodyEvent, BodyFraming, BodyLimits, EncodeError, HeadLimits, HeadTable, OwnedResponseHead,
    RefusalReason, RequestDecoder, encode,
};
use crate::server::{Input, Received, ReplyTo, Switches, Wire, take_data};

/// How many responses may be outstanding before the codec stops reading.
const OUTSTANDING: usize = 16;
/// How long a client may take to read a refusal before the connection is closed. So long may the first
/// request take after the connection was accepted, if a drain begins meanwhile.
const LINGER: Duration = Duration::from_secs(2);

/// The deadline of a client that reads a refusal.
const REFUSAL: u8 = 0;
/// The deadline of the first request in a drain. A request that has come in time leaves it behind.
const FIRST_REQUEST: u8 = 1;

/// Goes on with bytes that were kept, once a response has ended.
struct Resume;

/// A handler that decodes requests to [`RequestPart`]s and encodes [`ResponsePart`]s, like Netty's
/// `HttpServerCodec`: for a pipeline with handlers of one's own behind it.
///
/// It frames bodies, keeps connections alive, leaves out the body of a response to a `HEAD`, refuses
/// what [`RequestDecoder`] refuses, and closes connections when the client, the response or a drain
/// asks for it. It stops reading while 16 responses are outstanding. After status 101, or 2xx for a
/// `CONNECT`, `Data` of both directions is the data of the tunnel, and the end of the client's half is
/// the event [`InputShutdown`].
///
/// Pipelined requests are passed on as they come, whatever their methods are: the handler decides what
/// runs beside what, and writes the responses in the order of the requests. A handler that responds later
/// should not begin a request whose method is not safe (all but `GET`, `HEAD`, `OPTIONS` and `TRACE`)
/// before its earlier responses are complete, nor the next one before its response is (RFC 9112,
/// section 9.3.2). [`serve`](crate::serve) sees to that by itself.
///
/// It adds no field `Date`, and limits no times: put [`Idle`](tidegate_net::handlers::Idle) before it.
///
/// ```
/// use tidegate_http::{HttpCodec, RequestPart, ResponsePart};
/// use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing};
///
/// struct Hello;
///
/// impl Inbound for Hello {
///     type In = RequestPart;
///     type Out = Nothing;
///     type Write = ResponsePart;
///
///     fn read(&mut self, part: RequestPart, ctx: &mut InboundContext<'_, Self>) {
///         if let RequestPart::End = part {
///             for part in ResponsePart::whole(200, "hello").expect("200 is a status") {
///                 ctx.write(part);
///             }
///             ctx.flush();
///         }
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(|p| {
///     p.add_duplex("http", HttpCodec::default()).add("hello", Hello)
/// })?;
/// channel.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
/// assert_eq!(channel.sent(), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Costs
///
/// Each part is a message in a box of its own, and each head is copied. In a prototype, requests that
/// are pipelined cost about twice the instructions of [`serve`](crate::serve), where the codec and the
/// service are one handler and the head borrows from the received bytes.
#[derive(Debug)]
pub struct HttpCodec {
    decoder: RequestDecoder,
    /// Received bytes that could not be handled yet.
    kept: BytesMut,
    /// How many of them count against the memory of the server.
    counted: usize,
    /// The requests whose responses have not ended, oldest first.
    asked: VecDeque<ReplyTo>,
    sending: Option<Sending>,
    /// The request that was refused, until the refusal is sent.
    refused: Option<RefusalReason>,
    /// `true` from a request that may change the protocol until its response has begun.
    undecided: bool,
    /// No more requests are read.
    last: bool,
    /// The server drains: the last one of the outstanding responses ends the connection.
    draining: bool,
    /// There was a request.
    used: bool,
    /// When the connection was accepted, in nanoseconds of its loop's clock.
    since: u64,
    tunnel: bool,
    lingering: bool,
    paused: bool,
    /// The client has ended its half while received bytes had to wait.
    input_ended: bool,
}

impl Default for HttpCodec {
    fn default() -> Self {
        Self::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT)
    }
}

impl HttpCodec {
    /// Creates a codec with these limits.
    pub fn new(head: HeadLimits, body: BodyLimits) -> Self {
        Self {
            decoder: RequestDecoder::new(head, body),
            kept: BytesMut::new(),
            counted: 0,
            asked: VecDeque::new(),
            sending: None,
            refused: None,
            undecided: false,
            last: false,
            draining: false,
            used: false,
            since: 0,
            tunnel: false,
            lingering: false,
            paused: false,
            input_ended: false,
        }
    }

    /// Decodes as much of `input` as possible, and keeps the rest.
    fn advance<I: Input>(&mut self, mut input: I, ctx: &mut InboundContext<'_, Self>) {
        let mut table = HeadTable::new();
        let mut blocked = false;
        loop {
            if self.tunnel {
                let length = input.len();
                if length > 0 {
                    ctx.fire_read(RequestPart::Data(input.take_part(length, 0..length)));
                }
                break;
            }
            if self.decoder.in_body() {
                match self.take_body(&mut input, ctx) {
                    true => continue,
                    false => break,
                }
            }
            if self.last {
                // Nothing after the last request is looked at.
                input.advance(input.len());
                break;
            }
            if input.is_empty() {
                break;
            }
            if !self.undecided {
                let skipped = self.decoder.skip_empty_line(&input);
                input.advance(skipped);
                if skipped != 0 {
                    continue;
                }
            }
            blocked = self.undecided || self.asked.len() >= OUTSTANDING;
            if blocked {
                break;
            }
            self.used = true;
            match self.decoder.head(&input, &mut table) {
                Ok(Some(head)) => {
                    let (length, to) = (head.len(), ReplyTo::of(&head));
                    let is_bodiless = head.framing().is_empty();
                    self.asked.push_back(to);
                    self.undecided = to.switches != Switches::No;
                    self.last = (self.draining || !to.keep_alive) && !self.undecided;
                    ctx.fire_read(RequestPart::Head(head.to_owned()));
                    if is_bodiless {
                        ctx.fire_read(RequestPart::End);
                    }
                    input.advance(length);
                }
                Ok(None) => break,
                Err(reason) => self.refuse(reason, false, ctx),
            }
        }
        if blocked != self.paused {
            self.paused = blocked;
            ctx.set_auto_read(!blocked);
        }
        let (kept, spent) = input.keep();
        self.kept = kept.unwrap_or_default();
        ctx.give_back(spent);
        self.count_kept(ctx);
    }

    /// Counts the kept bytes against the memory of the server.
    fn count_kept(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let kept = self.kept.len();
        if kept != self.counted {
            ctx.release_input(self.counted);
            ctx.hold_input(kept);
            self.counted = kept;
        }
    }

    /// Decodes a piece of a body. Returns `false` if more bytes are needed.
    fn take_body<I: Input>(&mut self, input: &mut I, ctx: &mut InboundContext<'_, Self>) -> bool {
        let step = match self.decoder.body(input) {
            Ok(step) => step,
            Err(reason) => {
                self.refuse(reason, true, ctx);
                return true;
            }
        };
        let part = match step.event {
            BodyEvent::More => {
                input.advance(step.consumed);
                return false;
            }
            BodyEvent::Data(range) => {
                let decoder = &mut self.decoder;
                let chunk = |input: &[u8], most| decoder.small_chunk(input, most);
                RequestPart::Data(take_data(input, step.consumed, range, chunk))
            }
            BodyEvent::Trailers(range) => {
                RequestPart::Trailers(input.take_part(step.consumed, range))
            }
            BodyEvent::End => {
                input.advance(step.consumed);
                RequestPart::End
            }
        };
        ctx.fire_read(part);
        true
    }

    /// Refuses a head, or the body of the last request. The refusal follows the responses to earlier
    /// requests. It takes the place of the response to this one, unless that has begun.
    #[cold]
    fn refuse(&mut self, reason: RefusalReason, of_body: bool, ctx: &mut InboundContext<'_, Self>) {
        let has_begun = match self.asked.len() {
            0 => of_body,
            1 => of_body && self.sending.is_some(),
            _ => false,
        };
        if of_body && !has_begun {
            self.asked.pop_back();
        }
        self.decoder.refuse(reason);
        self.last = true;
        self.refused = (!has_begun).then_some(reason);
        ctx.fire_read(RequestPart::Refused(reason));
        self.end_if_done(ctx);
    }

    /// Ends the connection if no more requests are read and every response has ended.
    fn end_if_done<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if !self.last || !self.asked.is_empty() || self.lingering {
            return;
        }
        self.lingering = true;
        match self.refused.take() {
            Some(reason) => {
                write_closing(wire, reason.status());
                wire.flush();
                wire.shutdown_output();
                wire.deadline(REFUSAL, LINGER);
            }
            None => {
                wire.flush();
                wire.close_when_flushed();
            }
        }
    }

    /// Ends the connection because the handlers wrote parts that make no response.
    #[cold]
    fn fail(&mut self, why: EncodeError, ctx: &mut OutboundContext<'_, Self>) {
        let failure = Failure::new(why);
        ctx.report(&failure);
        if let Some(promise) = ctx.take_promise() {
            let _ = promise.fail(failure);
        }
        self.last = true;
        if self.asked.is_empty() || self.sending.is_some() || self.tunnel {
            // The client must not take the part for the whole.
            self.lingering = true;
            return ctx.close();
        }
        self.asked.clear();
        self.refused = None;
        write_closing(ctx, 500);
        self.end_if_done(ctx);
    }

    fn begin(
        &mut self,
        head: OwnedResponseHead,
        ctx: &mut OutboundContext<'_, Self>,
    ) -> Result<(), EncodeError> {
        let to = *self.asked.front().ok_or(EncodeError::NoRequest)?;
        if self.sending.is_some() {
            return Err(EncodeError::NoRequest);
        }
        let ends = self.draining || self.last;
        let last = ends && self.asked.len() == 1 && self.refused.is_none();
        match Sending::begin(head, to, last)? {
            Begun::Interim(head) => ctx.write(head),
            Begun::Response(head, sending) => {
                self.last |= sending.close;
                self.sending = Some(sending);
                ctx.write(head);
            }
            Begun::Tunnel(head) => {
                self.asked.clear();
                self.tunnel = true;
                ctx.write(head);
                self.resume(ctx);
            }
        }
        Ok(())
    }

    fn data(
        &mut self,
        data: Bytes,
        ctx: &mut OutboundContext<'_, Self>,
    ) -> Result<(), EncodeError> {
        if self.tunnel {
            ctx.write(data);
            return Ok(());
        }
        let sending = self.sending.as_mut().ok_or(EncodeError::NoRequest)?;
        match sending.data(data.len())? {
            Some(prefix) => {
                if !prefix.is_empty() {
                    ctx.write(prefix);
                }
                ctx.write(data);
                let suffix = sending.suffix()?;
                if !suffix.is_empty() {
                    ctx.write(suffix);
                }
            }
            None => succeed(ctx),
        }
        Ok(())
    }

    fn end(
        &mut self,
        trailers: &[(String, Vec<u8>)],
        ctx: &mut OutboundContext<'_, Self>,
    ) -> Result<(), EncodeError> {
        if self.tunnel {
            succeed(ctx);
            return Ok(());
        }
        let mut sending = self.sending.take().ok_or(EncodeError::NoRequest)?;
        match sending.end(trailers) {
            Ok(end) if end.is_empty() => succeed(ctx),
            Ok(end) => ctx.write(end),
            Err(why) => {
                self.sending = Some(sending);
                return Err(why);
            }
        }
        self.asked.pop_front();
        if sending.close {
            // No response follows this one.
            self.asked.clear();
            self.refused = None;
        }
        if self.asked.is_empty() {
            self.undecided = false;
            self.asked = VecDeque::new();
        }
        self.end_if_done(ctx);
        self.resume(ctx);
        Ok(())
    }

    /// Handles the end of the client's stream, when everything that it has sent was read.
    fn end_input(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if let Err(reason) = self.decoder.end_of_input() {
            // The client has given up: it reads no status.
            ctx.fire_read(RequestPart::Refused(reason));
            return ctx.close();
        }
        self.last = true;
        self.end_if_done(ctx);
    }

    /// Handles a drain, or its announcement: the last one of the outstanding responses ends the
    /// connection. A request of which a part was received is still read, and so is the first one of a new
    /// connection.
    fn drain(&mut self, ends_idle: bool, ctx: &mut InboundContext<'_, Self>) {
        self.draining = true;
        let in_body = self.decoder.in_body();
        if self.tunnel || self.undecided || !(self.kept.is_empty() || in_body) {
            return;
        }
        if ends_idle && !self.used {
            let waited = Duration::from_nanos(ctx.now().saturating_sub(self.since));
            let left = LINGER.saturating_sub(waited);
            if !left.is_zero() {
                return ctx.deadline(FIRST_REQUEST, left);
            }
        }
        self.last |= !self.asked.is_empty() || ends_idle && !in_body;
        self.end_if_done(ctx);
    }

    /// Has the kept bytes decoded, in the other direction.
    fn resume(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.paused || self.tunnel {
            ctx.channel().fire_event(Resume);
        }
    }
}

/// Completes the write of a part that became no bytes.
fn succeed(ctx: &mut OutboundContext<'_, HttpCodec>) {
    if let Some(promise) = ctx.take_promise() {
        let _ = promise.succeed(());
    }
}

/// Writes a response of the codec itself.
fn write_closing<'a>(wire: &mut impl Wire<'a>, status: u16) {
    let out = wire.output();
    let written = encode::status_line(out, status)
        .and_then(|()| encode::framing(out, BodyFraming::Length(0)))
        .and_then(|()| encode::connection_close(out))
        .and_then(|()| encode::head_end(out));
    debug_assert!(written.is_ok(), "status {status} of the codec itself");
}

impl Inbound for HttpCodec {
    type In = Bytes;
    type Out = RequestPart;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;
    const DUPLEX: bool = true;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // A client that has ended its half still gets its responses.
        ctx.set_half_closure(true);
        self.since = ctx.now();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.lingering {
            return ctx.give_back(bytes);
        }
        if self.kept.is_empty() {
            return self.advance(Received::from(bytes), ctx);
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(&bytes);
        ctx.give_back(bytes);
        self.advance(kept, ctx);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Resume>().is_some() {
            if !self.lingering {
                let kept = std::mem::take(&mut self.kept);
                self.advance(kept, ctx);
                ctx.fire_read_complete();
                if std::mem::take(&mut self.input_ended) && !self.lingering {
                    match (self.tunnel, self.paused) {
                        (true, _) => ctx.fire_event(UserEvent::new(InputShutdown)),
                        (false, true) => self.input_ended = true,
                        (false, false) => self.end_input(ctx),
                    }
                }
            }
            return;
        }
        if event.downcast_ref::<InputShutdown>().is_some() && !self.tunnel {
            if self.lingering {
                return ctx.close_when_flushed();
            }
            if self.paused {
                // Requests that were received before wait for their turn.
                self.input_ended = true;
                return;
            }
            return self.end_input(ctx);
        }
        let drains = event.downcast_ref::<Draining>().is_some();
        if drains || event.downcast_ref::<DrainAnnounced>().is_some() {
            self.drain(drains, ctx);
        }
        ctx.fire_event(event);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.lingering = true;
        self.kept = BytesMut::new();
        self.count_kept(ctx);
        ctx.fire_inactive();
    }

    fn deadline(&mut self, key: u8, ctx: &mut InboundContext<'_, Self>) {
        // A response to the first request may still be on its way.
        if key == REFUSAL || !self.used {
            ctx.close();
        }
    }
}

impl Outbound for HttpCodec {
    type Take = ResponsePart;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, part: ResponsePart, ctx: &mut OutboundContext<'_, Self>) {
        if self.lingering {
            // The connection ends: what is written for it is dropped.
            return succeed(ctx);
        }
        let written = match part {
            ResponsePart::Head(head) => self.begin(head, ctx),
            ResponsePart::Data(data) => self.data(data, ctx),
            ResponsePart::End(trailers) => self.end(&trailers, ctx),
        };
        if let Err(why) = written {
            self.fail(why, ctx);
        }
    }
}
