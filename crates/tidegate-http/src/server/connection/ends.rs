//! The end of the client's stream, and drains of the server.

use std::time::Duration;

use super::Connection;
use super::state::{Stage, Tail, Waits};
use crate::server::body::BodyError;
use crate::server::service::Service;
use crate::server::wire::Wire;

impl<S: Service> Connection<S> {
    /// Handles the end of the client's stream.
    pub(crate) fn input_ended<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.now = self.shared.wall.nanos();
        if self.state.stage == Stage::Ended {
            return wire.close_when_flushed();
        }
        // Requests that were received before may wait for their turn.
        if self.state.input_ended() {
            self.end_input(wire);
            self.settle(wire);
        }
    }

    /// Ends the connection with its outstanding responses: the client sends nothing more, and
    /// everything that it has sent was handled.
    #[cold]
    pub(super) fn end_input<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.state.in_body() {
            // There is no client that could read a status: it has given up.
            self.fail_body(BodyError::Closed);
            return wire.close();
        }
        // A head without its end.
        self.forget_kept(wire);
        self.state.close_at_end();
        self.end_if_done(wire);
    }

    /// Handles the announcement of a drain: connections are still accepted, and each one ends with
    /// the first response that can say so: the last one that is outstanding, or its next one.
    pub(crate) fn announce_drain(&mut self) {
        self.state.drain.announced = true;
        self.shared.begin_drain();
        self.end_if_draining();
    }

    /// Handles a drain of the server: an idle connection ends at once, another one with its outstanding
    /// responses. The channel has read before whether a request waits in the socket. The first request
    /// of a new connection may still be on its way: it has `first_request`, from the time
    /// when the connection was accepted.
    pub(crate) fn drain<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.shared.begin_drain();
        self.state.drain.begun = true;
        self.end_if_draining();
        if self.state.is_idle() {
            if self.state.current.is_none() && self.awaits_first(wire) {
                return self.report_tally();
            }
            // Most connections end at once. If a handler holds the end back, the deadline that is set
            // limits it: to move it would cost more than the rest.
            let at_once = !self.state.has_to_linger() && !wire.has_unsent();
            // The rest of a body that nothing reads is not worth waiting for.
            self.state.close(Tail::Read);
            self.end_if_done(wire);
            if at_once {
                (self.wait.what, self.wait.since) = (Waits::End, self.now);
                return self.report_tally();
            }
        }
        self.settle(wire);
    }

    /// Waits for the first request of a connection, unless its time for that is over. Returns `true` if it
    /// waits.
    #[cold]
    fn awaits_first<'a>(&mut self, wire: &mut impl Wire<'a>) -> bool {
        self.now = self.shared.wall.nanos();
        // Since the connection was accepted: nothing was received.
        let waited = Duration::from_nanos(self.now.saturating_sub(self.wait.since));
        let left = self.shared.limits.first_request.saturating_sub(waited);
        if !left.is_zero() {
            self.check_after(left, wire);
        }
        !left.is_zero()
    }

    /// Accepts no further request if the server drains and responses are outstanding.
    #[inline]
    pub(super) fn end_if_draining(&mut self) {
        if self.shared.is_draining() {
            self.state.close_in_drain();
        }
    }
}
