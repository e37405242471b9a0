//! The body of a request, on its way to the server.
//!
//! The client is read only as fast as the server takes: the server of HTTP stops reading when 64 KiB
//! wait here.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::http::BodyError;
use tidegate::http::client::{Exchange, Flow};
use tidegate::http::codec::{BodyFraming, RefusalReason};

use super::answer::Answer;
use super::flight::{Flight, Stage, State};
use super::logged::End;
use crate::fields::request_trailers;

/// How long a server may take to agree to a body, or to respond without it.
const LONGEST_EXPECTATION: Duration = Duration::from_secs(1);

/// Why no more of a body is sent now.
enum Pumped {
    /// The rest follows, or there is none.
    Waits,
    /// The body is larger than the route or the listener allows.
    TooLarge,
    /// The server of HTTP has refused it, and has responded.
    Refused(RefusalReason),
    /// The client has left.
    Gone,
}

impl Flight {
    /// Goes on with the body on the loop: more of it was received.
    pub(super) fn wake_body(self) {
        let gate = Arc::clone(self.gate());
        gate.on_loop(self.home, move || self.pump_body());
    }

    /// Sends what was received of the body.
    pub(super) fn pump_body(&self) {
        let Some(mut state) = self.lock() else { return };
        if state.body.is_none() {
            return;
        }
        let waker = self.waker();
        let mut context = Context::from_waker(&waker);
        let was_blocked = state.blocked;
        let pumped = state.pump(&mut context, self);
        let now = self.now();
        if state.body.is_none() || (state.blocked && !was_blocked) {
            state.body_sent = now;
        }
        let waits = state.waits_for_client();
        if let Some(upload) = &state.upload {
            upload.wait(waits, now);
        }
        drop(state);
        match pumped {
            Pumped::Waits => {}
            Pumped::TooLarge => self.refuse_client(413, "the body is too large\n"),
            Pumped::Refused(reason) => {
                self.end_without_response(End::Refused(reason.word(), reason.status()));
            }
            Pumped::Gone => self.abandon(None),
        }
    }

    /// Asks the client for the body that its server has agreed to take. The client gets its
    /// `100 Continue` when the body is first read.
    pub(super) fn continue_body(&self, attempt: u32) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) || std::mem::replace(&mut state.continued, true) {
            return;
        }
        drop(state);
        self.pump_body();
    }

    /// Does not wait for ever for the agreement of a server that does not know expectations.
    pub(super) fn expect_continue(&self, attempt: u32) {
        if self.lock().is_none_or(|state| state.continued) {
            return;
        }
        let flight = self.downgrade();
        drop(self.gate().after(self.home, LONGEST_EXPECTATION, move || {
            if let Some(flight) = flight.upgrade() {
                flight.continue_body(attempt);
            }
        }));
    }

    /// Goes on after the server took less than was sent.
    pub(super) fn unblock(&self, attempt: u32) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) || !std::mem::take(&mut state.blocked) {
            return;
        }
        drop(state);
        self.pump_body();
    }
}

impl State {
    /// Returns `true` if the server would take more of the body, and has got all that came.
    pub(super) fn waits_for_client(&self) -> bool {
        let is_sent = matches!(self.stage, Stage::Exchanging(_));
        is_sent && self.body.is_some() && !self.blocked && self.continued
    }

    fn pump(&mut self, context: &mut Context<'_>, flight: &Flight) -> Pumped {
        loop {
            let (Stage::Exchanging(exchange), Some(body)) = (&mut self.stage, &mut self.body)
            else {
                return Pumped::Waits;
            };
            if self.blocked || !self.continued {
                return Pumped::Waits;
            }
            match body.poll_next(context) {
                Poll::Pending => return Pumped::Waits,
                Poll::Ready(Some(Ok(piece))) => {
                    self.kept.take_if(|kept| !kept.add(&piece));
                    self.body_bytes += piece.len() as u64;
                    if self.body_bytes > flight.most_body {
                        return Pumped::TooLarge;
                    }
                    match exchange.write(piece) {
                        Ok(Flow::More) => {}
                        Ok(Flow::Pause) => self.blocked = true,
                        // The response has come, or the connection has ended: its answer says so.
                        Ok(Flow::Gone) | Err(_) => {
                            (self.body, self.kept) = (None, None);
                            return Pumped::Waits;
                        }
                    }
                }
                Poll::Ready(Some(Err(BodyError::Closed))) => return Pumped::Gone,
                Poll::Ready(Some(Err(BodyError::Refused(why)))) => return Pumped::Refused(why),
                Poll::Ready(Some(Err(_))) => return Pumped::TooLarge,
                Poll::Ready(None) => {
                    let chunked = flight.head.as_head().framing() == BodyFraming::Chunked;
                    let lines = body.trailers().filter(|_| chunked).unwrap_or_default();
                    finish(exchange, &lines, flight);
                    if let Some(kept) = &mut self.kept {
                        kept.end(lines);
                    }
                    self.body = None;
                    return Pumped::Waits;
                }
            }
        }
    }

    /// Returns why the server of HTTP has refused the body, if it has. Reads the body up to its end.
    pub(super) fn body_refusal(&mut self) -> Option<RefusalReason> {
        let body = self.body.as_mut()?;
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match body.poll_next(&mut context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(BodyError::Refused(why)))) => return Some(why),
                Poll::Ready(_) | Poll::Pending => return None,
            }
        }
    }

    /// Sends what was read of the body of a request that is sent again. The rest follows.
    pub(super) fn send_kept(&mut self, flight: &Flight) {
        let (Stage::Exchanging(exchange), Some(kept)) = (&mut self.stage, &self.kept) else {
            return;
        };
        if let Some(piece) = kept.piece() {
            // If the connection has ended, its answer says so.
            self.blocked = matches!(exchange.write(piece), Ok(Flow::Pause));
        }
        if let Some(lines) = kept.trailers() {
            finish(exchange, lines, flight);
        }
    }

    /// Drops what was read of the body, because a part of the request was sent. The end of an empty
    /// body stays: such a request may be sent again.
    pub(super) fn forget_kept(&mut self) {
        self.kept.take_if(|_| self.body_bytes > 0);
    }
}

/// Ends a body, with the trailers of the client that pass on.
fn finish(exchange: &mut Exchange<Answer>, lines: &[u8], flight: &Flight) {
    let rewriting = &flight.route().rewriting;
    let fields: Vec<_> = request_trailers(lines, &flight.options, rewriting).collect();
    // It is as long as it declares: the server of HTTP has checked that.
    let _ = exchange.finish(&fields);
}
