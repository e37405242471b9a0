//! The end of the client's stream, and drains of the server.

use super::waits::Waits;
use super::{Connection, Phase};
use crate::server::body::BodyError;
use crate::server::service::Service;
use crate::server::wire::Wire;

impl<S: Service> Connection<S> {
    /// Handles the end of the client's stream.
    pub(crate) fn input_ended<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.now = self.shared.wall.nanos();
        match self.phase {
            Phase::Lingering => return wire.close_when_flushed(),
            // Requests that were received before may wait for their turn.
            Phase::Open | Phase::Closing if self.undecided.is_some() || self.paused => {
                self.input_ended = true;
                return;
            }
            Phase::Open | Phase::Closing => {}
        }
        self.end_input(wire);
        self.settle(wire);
    }

    /// Ends the connection with its outstanding responses: the client sends nothing more, and
    /// everything that it has sent was handled.
    #[cold]
    pub(super) fn end_input<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.input_ended = false;
        if self.decoder.in_body() {
            // There is no client that could read a status: it has given up.
            self.fail_body(BodyError::Closed);
            return wire.close();
        }
        // A head without its end.
        self.forget_kept(wire);
        self.phase = Phase::Closing;
        self.linger = false;
        self.end_if_done(wire);
    }

    /// Handles the announcement of a drain: connections are still accepted, and each one ends with
    /// its outstanding responses, or with its next one.
    pub(crate) fn announce_drain(&mut self) {
        self.announced = true;
        self.shared.begin_drain();
        self.end_if_draining();
    }

    /// Handles a drain of the server: an idle connection ends at once, another one with its outstanding
    /// responses. The channel has read before whether a request waits in the socket.
    pub(crate) fn drain<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.shared.begin_drain();
        self.draining = true;
        self.end_if_draining();
        if self.is_idle() {
            // Most connections end at once. If a handler holds the end back, the deadline that is set
            // limits it: to move it would cost more than the rest.
            let at_once = !self.has_to_linger() && !wire.has_unsent();
            // The rest of a body that nothing reads is not worth waiting for.
            self.close_after_response(wire);
            if at_once {
                (self.waits, self.since) = (Waits::End, self.now);
                return self.report_tally();
            }
        }
        self.settle(wire);
    }

    /// Returns `true` if no request is outstanding or has begun.
    fn is_idle(&self) -> bool {
        self.phase == Phase::Open && self.queue.is_empty() && !self.has_begun_head()
    }

    /// Accepts no further request if the server drains and responses are outstanding: the last one
    /// of them ends the connection. A request of which a part was received is still served, unless it
    /// waits for the outstanding ones. So is one that may change the protocol.
    pub(super) fn end_if_draining(&mut self) {
        let begun = self.has_begun_head() && !self.paused;
        let waits = self.queue.is_empty() || begun || self.undecided.is_some();
        if self.phase == Phase::Open && !waits && self.shared.is_draining() {
            self.phase = Phase::Closing;
        }
    }

    /// Returns `true` if bytes of the next head were received.
    fn has_begun_head(&self) -> bool {
        !self.kept.is_empty() && !self.decoder.in_body()
    }
}
