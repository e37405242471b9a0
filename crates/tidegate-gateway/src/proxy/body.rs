//! The body of a request, on its way to the server.
//!
//! The client is read only as fast as the server takes: the server of HTTP stops reading when 64 KiB
//! wait here.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::http::BodyError;
use tidegate::http::client::{Exchange, Flow};
use tidegate::http::codec::{BodyFraming, RefusalReason};

use super::answer::Answer;
use super::flight::{Flight, Holds, State, Wait};
use super::step::{Action, Actions, Event, Request, step};
use crate::fields::request_trailers;

/// How long a server may take to agree to a body, or to respond without it.
const LONGEST_EXPECTATION: Duration = Duration::from_secs(1);

impl Flight {
    /// Sends what was received of the body.
    pub(super) fn pump(&self) {
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        if holds.body.is_none() {
            return;
        }
        let waker = self.waker();
        let actions = holds.pump(request, &mut Context::from_waker(&waker), self);
        if let Some(watch) = &holds.watch {
            watch.wait(request.waits_for_client(), self.now());
        }
        // Nobody wants the rest.
        let ended = holds.body.take_if(|_| !request.has_body());
        drop(state);
        drop(ended);
        if let Some(actions) = actions {
            self.act(actions);
        }
    }

    /// Does not wait for ever for the agreement of a server that does not know expectations.
    pub(super) fn expect_continue(&self, attempt: u32) {
        let flight = self.downgrade();
        drop(self.gate().after(self.home, LONGEST_EXPECTATION, move || {
            if let Some(flight) = flight.upgrade() {
                flight.handle(Some(attempt), Event::Agreed);
            }
        }));
    }

    /// Sends what was read of the body of a request that is sent again. The rest follows.
    pub(super) fn resend(&self) {
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        let (Wait::Exchange(exchange), Some(kept)) = (&mut holds.wait, &holds.kept) else {
            return;
        };
        if let Some(piece) = kept.piece() {
            // If the connection has ended, its answer says so.
            let blocked = matches!(exchange.write(piece), Ok(Flow::Pause));
            step(request, None, Event::Resent { blocked }, || 0);
        }
        if let Some(lines) = kept.trailers() {
            finish(exchange, lines, self);
        }
    }
}

impl Holds {
    /// Sends what was received of the body, until there is no more or the server takes no more. Returns
    /// what else is to be done.
    fn pump(
        &mut self,
        request: &mut Request,
        context: &mut Context<'_>,
        flight: &Flight,
    ) -> Option<Actions> {
        while request.waits_for_client() {
            let (Wait::Exchange(exchange), Some(body)) = (&mut self.wait, &mut self.body) else {
                return None;
            };
            let now = || flight.now();
            let event = match body.poll_next(context) {
                Poll::Pending => return None,
                Poll::Ready(Some(Ok(piece))) => {
                    self.kept.take_if(|kept| !kept.add(&piece));
                    let (bytes, kept) = (piece.len() as u64, self.kept.is_some());
                    let received = Event::Received { bytes, kept };
                    let actions = step(request, None, received, now);
                    if !matches!(actions.first, Action::Write) {
                        return Some(actions);
                    }
                    Event::Written(exchange.write(piece).unwrap_or(Flow::Gone))
                }
                Poll::Ready(Some(Err(BodyError::Closed))) => Event::Left(None),
                Poll::Ready(Some(Err(BodyError::Refused(why)))) => Event::BodyRefused(why),
                Poll::Ready(Some(Err(_))) => Event::BodyTooLarge,
                Poll::Ready(None) => {
                    let chunked = flight.head.as_head().framing() == BodyFraming::Chunked;
                    let lines = body.trailers().filter(|_| chunked).unwrap_or_default();
                    finish(exchange, &lines, flight);
                    if let Some(kept) = &mut self.kept {
                        kept.end(lines);
                    }
                    Event::BodyEnded
                }
            };
            let actions = step(request, None, event, now);
            if !actions.are_none() {
                return Some(actions);
            }
        }
        None
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
}

/// Ends a body, with the trailers of the client that pass on.
fn finish(exchange: &mut Exchange<Answer>, lines: &[u8], flight: &Flight) {
    let rewriting = &flight.route().rewriting;
    let fields: Vec<_> = request_trailers(lines, &flight.options, rewriting).collect();
    // It is as long as it declares: the server of HTTP has checked that.
    let _ = exchange.finish(&fields);
}
