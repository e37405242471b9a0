//! The response of a server, on its way to the client.

use std::ops::Range;

use tidegate::http::client::{ClientError, ExchangeHandler, Flow};
use tidegate::http::codec::{BodyFraming, KnownField, ResponseHead};
use tidegate::http::{DeferredResponse, Method};
use tidegate::net::{Bytes, Handler, HandlerContext};

use super::flight::{Back, Flight, State, Wait};
use super::held::Held;
use super::out::{Leaving, Origin, leave};
use super::step::{Action, Event, step};
use super::times::Times;
use crate::command::{Problem, Reason};
use crate::fields::{Dropped, Options};

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
pub(super) struct Trailing {
    pub(super) lines: Bytes,
    pub(super) options: Options,
}

impl Answer {
    pub(super) fn new(flight: &Flight, attempt: u32, held: Held) -> Self {
        Self {
            flight: flight.clone(),
            attempt,
            held: Some(held),
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

    /// Takes a step of the attempt.
    fn tell(&self, event: Event) {
        self.flight.handle(Some(self.attempt), event);
    }
}

impl ExchangeHandler for Answer {
    fn interim(&mut self, head: ResponseHead<'_>, _: &mut HandlerContext<'_>) {
        match head.status() {
            100 => self.tell(Event::Agreed),
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
        self.tell(Event::Writable);
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
        self.flight.failed(self.attempt, &why, self.held);
    }
}

impl Flight {
    /// Passes an interim response on to the client.
    #[cold]
    fn inform(&self, attempt: u32, head: &ResponseHead<'_>) {
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        let actions = step(request, Some(attempt), Event::Informed, || 0);
        let (Action::Inform, Back::Owed(back)) = (actions.first, &holds.back) else {
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
        let is_empty = matches!(framing, BodyFraming::Empty | BodyFraming::Length(0));
        let is_head = body.is_none() && self.head.as_head().method() == Method::Head;
        let event = Event::Head {
            status: head.status(),
            passed: body.as_ref().map_or(0, |(_, body)| body.len() as u64),
            ends: body.is_some() || is_head || is_empty,
        };
        let shows_times = self.proxy.server_timing;
        let now = || if shows_times { self.now() } else { 0 };
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        let actions = step(request, Some(attempt), event, now);
        if !matches!(actions.first, Action::Respond) {
            return;
        }
        if let Some(timer) = holds.attempt_limit.take() {
            timer.cancel();
        }
        if holds.body.is_some() && !request.has_body() {
            holds.body = None;
        }
        holds.kept = None;
        let Back::Owed(back) = std::mem::take(&mut holds.back) else {
            return;
        };
        let times = shows_times.then(|| *request.times());
        let fell_back = request.fell_back();
        drop(state);
        let back = self.write_head(back, Some(head.status()), &head, times.as_ref(), fell_back);
        if let Some((received, body)) = body {
            return back.received_body(received, body);
        }
        let stream = match framing {
            _ if is_head => return declare(back, head.framing(Method::Get)),
            _ if is_empty => return back.body(""),
            BodyFraming::Length(length) => back.stream_with_length(length),
            _ => back.stream(),
        };
        self.state().holds.back = Back::Streaming(stream);
    }

    /// Writes the head that goes back to the client. `fell_back` is why it is that of the fallback.
    // So that the response is moved less.
    #[inline(always)]
    pub(super) fn write_head(
        &self,
        back: DeferredResponse,
        status: Option<u16>,
        head: &ResponseHead<'_>,
        timing: Option<&Times>,
        fell_back: Option<Reason>,
    ) -> DeferredResponse {
        let route = self.route();
        if let Some(reason) = fell_back {
            route.counts.add(reason);
        }
        let problem = fell_back.map(|reason| (Problem::from(reason), route.name.as_str()));
        let leaving = Leaving {
            problem,
            received: Some((head, &route.rewriting)),
            timing,
            ..Leaving::bare(status, self.shown())
        };
        leave(Origin::Server, &leaving, back)
    }

    /// Sends a part of the response's body.
    fn pass_back(&self, attempt: u32, bytes: Bytes) -> Flow {
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        let actions = step(request, Some(attempt), Event::Part, || 0);
        let (Action::PassOn, Back::Streaming(stream)) = (actions.first, &mut holds.back) else {
            return Flow::Gone;
        };
        let passed = Event::Passed(bytes.len() as u64);
        stream.write(bytes);
        if stream.is_closed() {
            return Flow::Gone;
        }
        let room = (!stream.is_writable()).then(|| stream.writable());
        step(request, Some(attempt), passed, || 0);
        drop(state);
        let Some(room) = room else {
            return Flow::More;
        };
        let flight = self.clone();
        room.finally(move |_| flight.later(Some(attempt), Event::Room));
        Flow::Pause
    }

    /// Tells the server to send more, because the client has taken some of it.
    pub(super) fn resume(&self) {
        if let Wait::Exchange(exchange) = &self.state().holds.wait {
            exchange.resume();
        }
    }

    /// Ends the response.
    fn finish(&self, attempt: u32, trailing: Option<Box<Trailing>>) {
        let mut state = self.state();
        let actions = step(&mut state.request, Some(attempt), Event::Responded, || 0);
        match actions.first {
            Action::End(_) if state.holds.is_plain() => self.end_plain(state),
            Action::End(ending) => {
                drop(state);
                self.end(ending, trailing);
            }
            _ => {}
        }
    }
}

/// Ends the response to a `HEAD`: it declares the length of the body that a `GET` would have got.
fn declare(back: DeferredResponse, framing: BodyFraming) {
    match framing {
        BodyFraming::Empty | BodyFraming::Length(0) => back.body(""),
        BodyFraming::Length(length) => back.stream_with_length(length).finish(),
        _ => back.stream().finish(),
    }
}
