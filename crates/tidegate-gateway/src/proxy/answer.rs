//! The response of a server, on its way to the client.

use std::ops::Range;
use std::sync::Arc;

use tidegate::http::client::{ClientError, ExchangeHandler, Flow};
use tidegate::http::codec::{BodyFraming, KnownField, ResponseHead};
use tidegate::http::{DeferredResponse, Method};
use tidegate::net::{Bytes, Handler, HandlerContext};

use super::flight::{Back, Ended, Flight, Stage};
use super::held::{Admission, Held};
use super::logged::{End, logs_served};
use super::reply;
use super::times::Times;
use crate::balance::Lease;
use crate::command::Reason;
use crate::fields::{Dropped, Options, response_trailers};

/// Receives the response to one attempt. The connection to the server holds it, and with it the entry
/// of the command and the place at the server.
pub(super) struct Answer {
    flight: Flight,
    attempt: u32,
    /// `None` once a tunnel holds it.
    held: Option<Held>,
    /// A box: few responses have any, and an answer is moved several times.
    trailing: Option<Box<Trailing>>,
}

/// The trailers of a response, and the options of its connection.
#[derive(Default)]
struct Trailing {
    lines: Bytes,
    options: Options,
}

impl Answer {
    pub(super) fn new(flight: &Flight, attempt: u32, admission: Admission, lease: Lease) -> Self {
        Self {
            flight: flight.clone(),
            attempt,
            held: Some(Held { admission, lease }),
            trailing: None,
        }
    }

    /// Returns what another connection needs.
    pub(super) fn into_held(self) -> Option<Held> {
        self.held
    }

    fn verdict(&mut self, is_success: bool) {
        if let Some(held) = &mut self.held {
            let flight = &self.flight;
            held.admission.verdict(is_success, || flight.now());
        }
    }
}

impl ExchangeHandler for Answer {
    fn interim(&mut self, head: ResponseHead<'_>, _: &mut HandlerContext<'_>) {
        match head.status() {
            100 => self.flight.continue_body(self.attempt),
            _ => self.flight.inform(self.attempt, &head),
        }
    }

    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, _: &mut HandlerContext<'_>) {
        // The latency of the upstream ends here. A client that reads slowly does not change it.
        self.verdict(head.status() < 500);
        if framing == BodyFraming::Chunked && head.known(KnownField::Connection).is_some() {
            self.trailing.get_or_insert_default().options = Options::of(head.fields());
        }
        self.flight.respond(self.attempt, head, framing, None);
    }

    const TAKES_WHOLE: bool = true;

    fn whole(
        &mut self,
        head: ResponseHead<'_>,
        framing: BodyFraming,
        received: &Bytes,
        body: Range<usize>,
        _: &mut HandlerContext<'_>,
    ) {
        self.verdict(head.status() < 500);
        let body = Some((received, body));
        self.flight.respond(self.attempt, head, framing, body);
    }

    fn data(&mut self, bytes: Bytes, _: &mut HandlerContext<'_>) -> Flow {
        self.flight.pass_back(self.attempt, bytes)
    }

    fn trailers(&mut self, lines: Bytes, _: &mut HandlerContext<'_>) {
        self.trailing.get_or_insert_default().lines = lines;
    }

    fn writable(&mut self, _: &mut HandlerContext<'_>) {
        self.flight.unblock(self.attempt);
    }

    fn switch(
        &mut self,
        head: ResponseHead<'_>,
        received: Bytes,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<Handler> {
        // Otherwise the server changes to a protocol that it was not asked for, or does not say to which.
        let wanted = self.flight.tunnel.as_ref();
        wanted.filter(|wanted| wanted.is_met_by(&head))?;
        self.verdict(true);
        let held = self.held.take()?;
        self.flight
            .open_tunnel(self.attempt, head, received, held, ctx)
    }

    fn end(self, _: &mut HandlerContext<'_>) {
        self.flight.finish(self.attempt, self.trailing);
    }

    fn fail(self, why: ClientError, _: &mut HandlerContext<'_>) {
        self.flight.attempt_failed(self.attempt, &why, self.held);
    }
}

impl Flight {
    /// Passes an interim response on to the client.
    #[cold]
    fn inform(&self, attempt: u32, head: &ResponseHead<'_>) {
        let Some(state) = self.lock() else { return };
        if !state.is_at(attempt) {
            return;
        }
        let Some(Back::Waiting(back)) = &state.back else {
            return;
        };
        let rewriting = &self.route().rewriting;
        let dropped = Dropped::new(head.fields(), head.known(KnownField::Connection).is_some());
        let passes = |name: &[u8]| !dropped.contains(name) && !rewriting.replaces(name);
        let fields = head.fields().iter();
        let fields = fields.filter(|field| passes(field.name.as_bytes()));
        let fields = fields.map(|field| (field.name, field.value));
        // One that cannot be sent is left out: the response may be a good one.
        let _ = back.interim(head.status(), fields);
    }

    /// Sends the head of the response, and its body if all of it is there: a part of received bytes.
    fn respond(
        &self,
        attempt: u32,
        head: ResponseHead<'_>,
        framing: BodyFraming,
        body: Option<(&Bytes, Range<usize>)>,
    ) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) || !state.is_unanswered() {
            return;
        }
        if self.proxy.server_timing {
            // Nothing else shows it.
            state.times.head = self.now();
        }
        if let Some(timer) = state.attempt_limit.take() {
            timer.cancel();
        }
        if !state.continued {
            // The server responds without the body, so the client keeps it.
            state.body = None;
        }
        // Nothing is sent again after this, and the time that was kept for the fallback is left for the
        // rest of the response.
        state.kept = None;
        if state.fell_back.is_none() && state.until < u64::MAX {
            state.until = state.until.saturating_add(self.proxy.fallback_nanos);
        }
        let Some(Back::Waiting(back)) = state.back.take() else {
            return;
        };
        state.status = head.status();
        let back = back.status(head.status());
        let back = self.write_fields(back, &head, &state.times, state.fell_back);
        if let Some((received, body)) = body {
            if has_content(head.status()) {
                state.sent = body.len() as u64;
            }
            back.received_body(received, body);
            state.back = Some(Back::Sent);
            return;
        }
        let is_head = self.head.as_head().method() == Method::Head;
        state.back = Some(match framing {
            _ if is_head => {
                declare(back, head.framing(Method::Get));
                Back::Sent
            }
            BodyFraming::Empty | BodyFraming::Length(0) => {
                back.body("");
                Back::Sent
            }
            BodyFraming::Length(length) => Back::Streaming(back.stream_with_length(length)),
            _ => Back::Streaming(back.stream()),
        });
    }

    /// Writes the fields that go back to the client.
    pub(super) fn write_fields(
        &self,
        mut back: DeferredResponse,
        head: &ResponseHead<'_>,
        times: &Times,
        fell_back: Option<Reason>,
    ) -> DeferredResponse {
        let rewriting = &self.route().rewriting;
        let dropped = Dropped::new(head.fields(), head.known(KnownField::Connection).is_some());
        let mut has_id = false;
        back = back.received_fields(head, |name| {
            let passes = !dropped.contains(name) && !rewriting.replaces(name);
            has_id |= passes && name.eq_ignore_ascii_case(b"x-request-id");
            passes
        });
        for (name, value) in rewriting.response() {
            back = back.field(name, value);
        }
        if !has_id {
            back = self.gate().ids.write(&self.request_id, back);
        }
        if self.proxy.server_timing {
            back = back.field("Server-Timing", times.server_timing());
        }
        match fell_back {
            Some(reason) => {
                self.route().counts.add(reason);
                reply::name_reason(reason, &self.route().name, back)
            }
            None => back,
        }
    }

    /// Sends a part of the response's body.
    fn pass_back(&self, attempt: u32, bytes: Bytes) -> Flow {
        let Some(mut state) = self.lock() else {
            return Flow::Gone;
        };
        if !state.is_at(attempt) {
            return Flow::Gone;
        }
        let length = bytes.len() as u64;
        let Some(Back::Streaming(stream)) = &mut state.back else {
            return Flow::Gone;
        };
        stream.write(bytes);
        if stream.is_closed() {
            return Flow::Gone;
        }
        let room = (!stream.is_writable()).then(|| stream.writable());
        if has_content(state.status) {
            state.sent += length;
        }
        drop(state);
        let Some(room) = room else {
            return Flow::More;
        };
        let flight = self.clone();
        room.finally(move |_| {
            let gate = Arc::clone(flight.gate());
            gate.on_loop(flight.home, move || flight.resume(attempt));
        });
        Flow::Pause
    }

    /// Tells the server to send more, because the client has taken some of it.
    fn resume(&self, attempt: u32) {
        let Some(state) = self.lock() else { return };
        if let Stage::Exchanging(exchange) = &state.stage
            && state.is_at(attempt)
        {
            exchange.resume();
        }
    }

    /// Ends the response.
    fn finish(&self, attempt: u32, trailing: Option<Box<Trailing>>) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) {
            return;
        }
        // Nearly all of them. What was done is only needed for a line in the log.
        let is_logged =
            state.fell_back.is_some() || logs_served(self.gate(), &self.route().log, state.status);
        let done = is_logged.then(|| state.done());
        if let Some((stage, server)) = state.end_sent() {
            drop(state);
            drop(stage);
            return self.log(done.map(|done| Ended { done, server }), End::Served);
        }
        let mut rest = state.end();
        drop(state);
        let mut ended = rest.ended.take();
        let timing = ended.as_ref().filter(|_| self.proxy.server_timing);
        let timing = timing.map(|ended| ended.done.times.body_timing(self.now()));
        if let Some(Back::Streaming(stream)) = rest.let_go() {
            if let Some(ended) = &mut ended {
                ended.done.is_whole = !stream.is_closed();
            }
            let Trailing { lines, options } = trailing.map(|some| *some).unwrap_or_default();
            let fields = response_trailers(&lines, &options, &self.route().rewriting);
            match &timing {
                Some(timing) => {
                    let own = [("Server-Timing", timing.as_ref())];
                    stream.finish_with_trailers(fields.chain(own));
                }
                None => stream.finish_with_trailers(fields),
            }
        }
        let is_cut = ended.as_ref().is_some_and(|ended| !ended.done.is_whole);
        match is_cut {
            true => self.log(ended, self.left()),
            false => self.log(ended, End::Served),
        }
    }
}

/// Returns `true` unless a response of this status has no content, whatever its server sends: the
/// client gets none.
fn has_content(status: u16) -> bool {
    status != 205
}

/// Ends the response to a `HEAD`: it declares the length of the body that a `GET` would have got.
fn declare(back: DeferredResponse, framing: BodyFraming) {
    match framing {
        BodyFraming::Empty | BodyFraming::Length(0) => back.body(""),
        BodyFraming::Length(length) => back.stream_with_length(length).finish(),
        _ => back.stream().finish(),
    }
}
