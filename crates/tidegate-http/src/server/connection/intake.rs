//! The body of the current request: receives, discards or refuses it.

use bytes::{Buf, Bytes};
use tidegate_core::CaughtPanic;
use tidegate_core::internal::contain;
use tidegate_promise::Failure;

use super::{Connection, Phase, Stop};
use crate::codec::{BodyEvent, Method, RefusalReason, RequestHead};
use crate::server::body::{BodyError, Flow};
use crate::server::head_writer::ReplyTo;
use crate::server::input::{Received, take_data};
use crate::server::queue::Slot;
use crate::server::request::Intake;
use crate::server::service::Service;
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

impl<S: Service> Connection<S> {
    /// Receives a piece of a body. Returns why no more can be received now.
    pub(super) fn take_body<'a>(
        &mut self,
        input: &mut Received,
        wire: &mut impl Wire<'a>,
    ) -> Option<Stop> {
        if self.body_paused {
            return Some(Stop::Blocked);
        }
        let step = match self.decoder.body(input) {
            Ok(step) => step,
            Err(reason) => {
                self.refuse_body(reason, wire);
                return None;
            }
        };
        if step.consumed != 0 {
            self.body_moved = true;
            self.queue.needs_no_continue(self.current);
        }
        match step.event {
            BodyEvent::More => {
                input.advance(step.consumed);
                return Some(Stop::NeedsMore);
            }
            BodyEvent::Data(range) => {
                let decoder = &mut self.decoder;
                let chunk = |input: &[u8], most| decoder.small_chunk(input, most);
                let data = take_data(input, step.consumed, range, chunk);
                self.take_data(data, wire);
            }
            BodyEvent::Trailers(range) => {
                let lines = input.take_part(step.consumed, range);
                if let Intake::Sink(sink) = &mut self.intake {
                    sink.trailers(lines);
                }
            }
            BodyEvent::End => {
                input.advance(step.consumed);
                if let Intake::Sink(sink) = std::mem::take(&mut self.intake) {
                    sink.end();
                }
                self.queue.wait_from(self.current, self.now);
                self.end_if_done(wire);
            }
        }
        None
    }

    pub(super) fn take_data<'a>(&mut self, data: Bytes, wire: &mut impl Wire<'a>) {
        match &mut self.intake {
            Intake::Sink(sink) => match sink.data(data) {
                Flow::More => {}
                Flow::Pause => {
                    self.body_paused = true;
                    self.queue.wait_from(self.current, self.now);
                }
                Flow::Enough => self.discard_rest(wire),
            },
            Intake::Discard(left) => match left.checked_sub(data.len() as u64) {
                Some(less) => *left = less,
                None => self.give_up_body(wire),
            },
            Intake::None | Intake::Unasked => {}
        }
    }

    /// Discards the rest of a body that nothing reads. If it is known to be too much, the connection ends
    /// with the outstanding responses, and the last one says so.
    pub(super) fn discard_rest<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.intake = Intake::Discard(self.shared.limits.discard);
        match self.has_too_much_left() {
            true => self.give_up_body(wire),
            false => self.end_if_done(wire),
        }
    }

    /// Returns `true` if more of the current body is missing than is discarded: unless the service reads
    /// it, the connection ends with the response. A service that collects reads it. The rest of a chunked body is unknown, and may be small.
    pub(super) fn has_too_much_left(&self) -> bool {
        let most = match &self.intake {
            Intake::Discard(left) => *left,
            Intake::Sink(sink) if sink.takes_all() => return false,
            _ => self.shared.limits.discard,
        };
        self.decoder.missing().is_some_and(|missing| missing > most)
    }

    /// Drops an empty line before a request line, unless what follows may belong to another protocol.
    /// Returns `true` if there was one.
    #[cold]
    pub(super) fn skip_empty_line(&mut self, input: &mut Received) -> bool {
        if self.outstanding == 0 {
            return false;
        }
        let length = self.decoder.skip_empty_line(input);
        input.advance(length);
        length != 0
    }

    /// Stops receiving a body that nothing reads: the connection ends with the outstanding
    /// responses.
    pub(super) fn give_up_body<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.intake = Intake::None;
        self.decoder.refuse(RefusalReason::BodyTooLarge);
        (self.phase, self.linger) = (Phase::Closing, true);
        self.pump(wire);
    }

    /// Refuses a head, or the wait for one: responds with one status, and ends the connection.
    #[cold]
    pub(super) fn refuse<'a>(
        &mut self,
        reason: RefusalReason,
        method: Option<Method<'_>>,
        head: Option<&RequestHead<'_>>,
        wire: &mut impl Wire<'a>,
    ) {
        if let Some(channel) = &self.channel {
            let told = contain(|| self.service.refused(reason, method, head, channel));
            self.report_told(told, wire);
        }
        let refusal = self.closing(reason.status(), ReplyTo::unknown());
        self.queue.push(refusal, None);
        self.end_refused(reason, wire);
    }

    /// Reports a panic of the service, which was only told something.
    pub(super) fn report_told<'a>(&self, told: Result<(), CaughtPanic>, wire: &impl Wire<'a>) {
        if let Err(panic) = told {
            let panic = Failure::from_panic(panic);
            self.trouble(Trouble::Panic, Some(&panic), wire);
        }
    }

    /// Refuses the body of the current request. The request gets the status, unless it has its
    /// response already.
    #[cold]
    pub(super) fn refuse_body<'a>(&mut self, reason: RefusalReason, wire: &mut impl Wire<'a>) {
        let current = self.current;
        if let Some(Slot::Waiting { to, .. }) = self.queue.get_mut(current) {
            let to = *to;
            let refusal = self.closing(reason.status(), to);
            if let Some(slot) = self.queue.get_mut(current) {
                *slot = refusal;
            }
            self.queue.give_up_from(current);
        }
        self.end_refused(reason, wire);
    }

    /// Ends the connection after a refusal. Nothing that follows is looked at.
    pub(super) fn end_refused<'a>(&mut self, reason: RefusalReason, wire: &mut impl Wire<'a>) {
        self.decoder.refuse(reason);
        self.trouble(Trouble::Refused(reason), None, wire);
        (self.phase, self.linger) = (Phase::Closing, true);
        self.fail_body(BodyError::Refused(reason));
        self.pump(wire);
    }

    pub(super) fn fail_body(&mut self, why: BodyError) {
        if let Intake::Sink(sink) = std::mem::take(&mut self.intake) {
            sink.fail(why);
        }
        self.body_paused = false;
    }
}
