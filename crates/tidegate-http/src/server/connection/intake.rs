//! The body of the current request: receives, discards or refuses it.

use bytes::{Buf, Bytes};
use tidegate_core::CaughtPanic;
use tidegate_core::internal::contain;
use tidegate_promise::Failure;

use super::Connection;
use crate::codec::{BodyEvent, Method, RefusalReason, RequestHead};
use crate::server::body::{BodyError, Flow};
use crate::server::head_writer::ReplyTo;
use crate::server::input::{Received, take_data};
use crate::server::request::{Intake, Pace};
use crate::server::service::Service;
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

impl<S: Service> Connection<S> {
    /// Receives a piece of a body. Returns `false` if that is all for now.
    pub(super) fn take_body<'a>(&mut self, input: &mut Received, wire: &mut impl Wire<'a>) -> bool {
        let step = match self.decoder.body(input) {
            Ok(step) => step,
            Err(reason) => {
                self.refuse_body(reason, wire);
                return true;
            }
        };
        if step.consumed != 0 {
            self.wait.body_moved();
            self.state.body_moved();
        }
        match step.event {
            BodyEvent::More => {
                input.advance(step.consumed);
                return false;
            }
            BodyEvent::Data(range) => {
                let decoder = &mut self.decoder;
                let chunk = |input: &[u8], most| decoder.small_chunk(input, most);
                let data = take_data(input, step.consumed, range, chunk);
                self.take_data(data, wire);
            }
            BodyEvent::Trailers(range) => {
                let lines = input.take_part(step.consumed, range);
                if let Intake::Sink(sink, _) = &mut self.state.intake {
                    sink.trailers(lines);
                }
            }
            BodyEvent::End => {
                input.advance(step.consumed);
                if let Some(sink) = std::mem::take(&mut self.state.intake).into_sink() {
                    sink.end();
                }
                self.state.wait_from(self.now);
            }
        }
        true
    }

    fn take_data<'a>(&mut self, data: Bytes, wire: &mut impl Wire<'a>) {
        if let Intake::Sink(sink, _) = &mut self.state.intake {
            match sink.data(data) {
                Flow::More => {}
                Flow::Pause => {
                    self.state.set_pace(Pace::Holds);
                    self.state.wait_from(self.now);
                }
                Flow::Enough => self.discard_rest(wire),
            }
        } else if !self.state.discard(data.len() as u64) {
            self.give_up_body(wire);
        }
    }

    /// Discards the rest of a body that nothing reads. If it is known to be too much, the connection ends
    /// with the outstanding responses, and the last one says so.
    pub(super) fn discard_rest<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if !self.state.discard_rest(self.decoder.missing()) {
            self.give_up_body(wire);
        }
    }

    /// Drops an empty line before a request line, unless what follows may belong to another protocol.
    /// Returns `true` if there was one.
    #[cold]
    pub(super) fn skip_empty_line(&mut self, input: &mut Received) -> bool {
        if self.state.is_undecided() {
            return false;
        }
        let length = self.decoder.skip_empty_line(input);
        input.advance(length);
        length != 0
    }

    /// Stops receiving a body that nothing reads: the connection ends with the outstanding
    /// responses.
    fn give_up_body<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.decoder.refuse(RefusalReason::BodyTooLarge);
        drop(self.state.refuse());
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
        self.state.queue.push(refusal, None);
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
        if let Some((seq, to)) = self.state.current_waiting() {
            let refusal = self.closing(reason.status(), to);
            self.state.replace(seq, refusal);
            self.give_up_from(seq);
        }
        self.end_refused(reason, wire);
    }

    /// Ends the connection after a refusal. Nothing that follows is looked at.
    fn end_refused<'a>(&mut self, reason: RefusalReason, wire: &mut impl Wire<'a>) {
        self.decoder.refuse(reason);
        self.trouble(Trouble::Refused(reason), None, wire);
        if let Some(sink) = self.state.refuse() {
            sink.fail(BodyError::Refused(reason));
        }
        self.pump(wire);
    }

    /// Receives nothing more of the body.
    pub(super) fn fail_body(&mut self, why: BodyError) {
        if let Some(sink) = self.state.drop_body() {
            sink.fail(why);
        }
    }
}
