//! The handler of one connection: sends a request, reads its response, and asks for the next one.
//!
//! A connection has one request at a time. A response that takes too long, is malformed or ends
//! early ends the connection, and the lane makes another one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate::http::Method;
use tidegate::http::codec::{
    BodyEvent, BodyLimits, HeadLimits, HeadTable, ResponseDecoder, ResponseHead,
};
use tidegate::net::{Bytes, Inbound, InboundContext, InputShutdown, Nothing, UserEvent};
use tidegate::prelude::Blocking;
use tidegate::promise::Failure;

use super::lane::{Lane, Next};
use super::schedule::{Due, nanos};
use super::tally::{Ended, Outcome};

/// The deadline of a response.
const LIMIT: u8 = 0;

/// Tells an idle connection that a request is due.
pub(super) struct Wake;

/// The handler of one connection.
pub(super) struct Caller {
    lane: Weak<Lane>,
    id: u64,
    decoder: ResponseDecoder,
    /// Received bytes of a head that is not complete.
    kept: Vec<u8>,
    current: Option<Current>,
}

/// The request in flight.
struct Current {
    due: Due,
    sent: u64,
    bytes: u64,
    /// The outcome, once the head was received, and whether the connection can be kept.
    head: Option<(Outcome, bool)>,
}

impl Caller {
    pub(super) fn new(lane: Weak<Lane>) -> Self {
        Self {
            id: lane.upgrade().map_or(0, |lane| lane.new_id()),
            lane,
            decoder: ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::default()),
            kept: Vec::new(),
            current: None,
        }
    }

    /// Takes a request that is due, if there is one.
    fn ask(&mut self, was_idle: bool, ctx: &mut InboundContext<'_, Self>) {
        let Some(lane) = self.lane.upgrade() else {
            return ctx.close();
        };
        if self.current.is_none() {
            let now = ctx.now();
            let next = lane.next(self.id, now, was_idle, || ctx.channel());
            self.go(next, now, &lane, ctx);
        }
    }

    fn go(&mut self, next: Next, now: u64, lane: &Arc<Lane>, ctx: &mut InboundContext<'_, Self>) {
        match next {
            Next::Send(due) => {
                self.current = Some(Current {
                    due,
                    sent: now,
                    bytes: 0,
                    head: None,
                });
                ctx.output().extend_from_slice(&lane.target(due).request);
                ctx.flush();
                ctx.deadline(LIMIT, lane.timeout);
            }
            Next::Wait(Some(at)) => lane.arm(at),
            Next::Wait(None) => {}
            Next::Close => ctx.close(),
        }
    }

    /// Handles as much of `input` as possible.
    fn advance(&mut self, mut input: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let mut table = HeadTable::new();
        while self.step(&mut input, &mut table, ctx) {}
        if !input.is_empty() {
            self.kept.extend_from_slice(&input);
        }
        ctx.give_back(input);
    }

    /// Handles a head or a part of a body. Returns `false` if more bytes are needed, or the response
    /// has ended.
    fn step(
        &mut self,
        input: &mut Bytes,
        table: &mut HeadTable,
        ctx: &mut InboundContext<'_, Self>,
    ) -> bool {
        let (Some(lane), Some(current)) = (self.lane.upgrade(), &mut self.current) else {
            // Nothing was asked for: whatever this is, it belongs to no request.
            input.clear();
            ctx.close();
            return false;
        };
        if current.head.is_none() {
            let method = match lane.target(current.due).is_head {
                true => Method::Head,
                false => Method::Get,
            };
            let head = match self.decoder.head(input, table, method) {
                Ok(None) => return false,
                Ok(Some(head)) => head,
                Err(why) => return self.malformed(why.to_string(), input, ctx),
            };
            let length = head.len();
            if head.status() == 101 {
                let why = "it changes the protocol".to_owned();
                return self.malformed(why, input, ctx);
            }
            if head.status() >= 200 {
                current.head = Some((outcome(&head), head.keep_alive()));
            }
            current.bytes += length as u64;
            drop(input.split_to(length));
            return true;
        }
        let step = match self.decoder.body(input) {
            Ok(step) => step,
            Err(why) => return self.malformed(why.to_string(), input, ctx),
        };
        current.bytes += step.consumed as u64;
        drop(input.split_to(step.consumed));
        match step.event {
            BodyEvent::More => false,
            BodyEvent::End => {
                self.finish(&lane, input.is_empty(), ctx);
                false
            }
            _ => true,
        }
    }

    /// Counts the response, and sends the next request.
    fn finish(&mut self, lane: &Arc<Lane>, is_clean: bool, ctx: &mut InboundContext<'_, Self>) {
        let Some(current) = self.current.take() else {
            return;
        };
        let now = ctx.now();
        let (outcome, keeps) = current.head.unwrap_or((Outcome::Closed, false));
        let ended = Ended {
            due: current.due,
            sent: current.sent,
            now,
            outcome,
            bytes: current.bytes,
        };
        if keeps && is_clean {
            let next = lane.ended_and_next(self.id, &ended, || ctx.channel());
            self.go(next, now, lane, ctx);
        } else {
            lane.ended(&ended);
            ctx.close();
        }
    }

    fn malformed(
        &mut self,
        why: String,
        input: &mut Bytes,
        ctx: &mut InboundContext<'_, Self>,
    ) -> bool {
        input.clear();
        self.fail(Outcome::Malformed(why), ctx);
        false
    }

    /// Counts the request in flight as failed, and ends the connection.
    fn fail(&mut self, outcome: Outcome, ctx: &mut InboundContext<'_, Self>) {
        self.end(outcome, ctx);
        ctx.close();
    }

    fn end(&mut self, outcome: Outcome, ctx: &mut InboundContext<'_, Self>) {
        if let (Some(current), Some(lane)) = (self.current.take(), self.lane.upgrade()) {
            lane.ended(&Ended {
                due: current.due,
                sent: current.sent,
                now: ctx.now(),
                outcome,
                bytes: current.bytes,
            });
        }
    }
}

/// Returns the outcome that a head says. A gateway gives its reason in a field.
fn outcome(head: &ResponseHead<'_>) -> Outcome {
    let status = head.status();
    if status < 400 {
        return Outcome::Status(status);
    }
    let field = head
        .get("tidegate-refused")
        .or_else(|| head.get("tidegate-failed"));
    match field {
        Some(word) => Outcome::Reason(status, String::from_utf8_lossy(word).into_owned()),
        None => Outcome::Status(status),
    }
}

impl Inbound for Caller {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // The end of the server's side is an event: it may end a body.
        ctx.set_half_closure(true);
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.ask(false, ctx);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.end(Outcome::Closed, ctx);
        if let Some(lane) = self.lane.upgrade() {
            lane.lost(self.id);
        }
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.kept.is_empty() {
            return self.advance(bytes, ctx);
        }
        self.kept.extend_from_slice(&bytes);
        ctx.give_back(bytes);
        let joined = std::mem::take(&mut self.kept);
        self.advance(joined.into(), ctx);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Wake>().is_some() {
            self.ask(true, ctx);
        } else if event.downcast_ref::<InputShutdown>().is_some() {
            let has_head = self.current.as_ref().is_some_and(|one| one.head.is_some());
            match self.decoder.end_of_input() {
                Ok(()) if has_head => {
                    if let Some(lane) = self.lane.upgrade() {
                        self.finish(&lane, false, ctx);
                    }
                }
                _ => self.fail(Outcome::Closed, ctx),
            }
        }
    }

    fn error(&mut self, _why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.fail(Outcome::Closed, ctx);
    }

    fn deadline(&mut self, _key: u8, ctx: &mut InboundContext<'_, Self>) {
        let Some(lane) = self.lane.upgrade() else {
            return ctx.close();
        };
        let Some(current) = &self.current else {
            return;
        };
        let used = ctx.now().saturating_sub(current.sent);
        let left = nanos(lane.timeout).saturating_sub(used);
        match left {
            0 => self.fail(Outcome::Timeout, ctx),
            left => ctx.deadline(LIMIT, Duration::from_nanos(left)),
        }
    }
}
