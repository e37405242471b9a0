//! The end of HTTP on a connection: an upgrade or a `CONNECT` that the service accepts.
//!
//! From such a request until the service has decided, no further request is read: what follows may
//! belong to another protocol.

use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use tidegate_core::internal::contain;
use tidegate_promise::Failure;

use super::Connection;
use super::state::Tail;
use crate::codec::EncodeError;
use crate::server::head_writer::{ReplyTo, write_closing};
use crate::server::service::Service;
use crate::server::switch::{First, Gate, Switch};
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

impl<S: Service> Connection<S> {
    /// Passes the channel on to the user's handlers, if the first response of the queue says so. All
    /// bytes that were received and not handled are in `kept`.
    #[cold]
    pub(super) fn switch_if_due<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let Some((plan, began)) = self.state.take_switch() else {
            return;
        };
        if let Some(began) = began {
            self.cell().total_time(self.now.saturating_sub(began));
        }
        let (make, to) = (plan.make, plan.to);
        match contain(|| make(Switch::new())) {
            Ok(switch) if switch.is_empty() => {
                self.trouble(Trouble::Mistake(EncodeError::Switch), None, wire);
                self.fail_switch(to, wire);
            }
            Ok(switch) => self.switch(switch, plan.head, plan.status, to, wire),
            Err(panic) => {
                let what = "the closure of a change of the protocol";
                let panic = Failure::from_panic_of(what, panic);
                self.trouble(Trouble::Panic, Some(&panic), wire);
                self.fail_switch(to, wire);
            }
        }
    }

    fn switch<'a>(
        &mut self,
        switch: Switch,
        head: BytesMut,
        status: u16,
        to: ReplyTo,
        wire: &mut impl Wire<'a>,
    ) {
        let half_closure = wire.options().half_closure;
        wire.set_half_closure(half_closure);
        wire.set_close_on_hang_up(false);
        self.paused_by(false, wire);
        let first = Arc::new(OnceLock::new());
        let gate = Gate {
            first: Arc::clone(&first),
            before: self.state.hand_over(),
        };
        let sent = match switch.install(gate, wire) {
            Ok(()) => {
                self.tally.response(status);
                self.tally.sent(head.len());
                First::Head(head.freeze())
            }
            Err(why) => {
                let mistake = Trouble::Mistake(EncodeError::Switch);
                self.trouble(mistake, Some(&why), wire);
                let mut response = BytesMut::new();
                let date = self.shared.wall.date_at(self.now);
                write_closing(&mut response, 500, to, &date);
                self.tally.response(500);
                self.tally.sent(response.len());
                First::Failed(response.freeze())
            }
        };
        // The gate reads it when this handler's method has returned.
        let _ = first.set(sent);
        self.closed(wire);
    }

    /// Responds with status 500 in place of a change of the protocol, and ends the connection.
    fn fail_switch<'a>(&mut self, to: ReplyTo, wire: &mut impl Wire<'a>) {
        let date = self.shared.wall.date_at(self.now);
        let out = wire.output();
        let before = out.len();
        write_closing(out, 500, to, &date);
        self.tally.sent(out.len() - before);
        self.tally.response(500);
        self.state.close(Tail::Unread);
        self.end_if_done(wire);
    }
}
