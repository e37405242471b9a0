//! What a connection waits for, and for how long. One deadline serves for all limits of time.

use std::time::Duration;

use super::{Connection, Phase};
use crate::codec::RefusalReason;
use crate::server::service::Service;
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

/// The key of the one deadline that a connection has.
pub(crate) const CHECK: u8 = 0;
/// What a connection waits for; decides which time limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// For the next request.
    Idle,
    /// For the rest of a head.
    Head,
    /// For more of a body.
    Body,
    /// For the service, or for the client to take the response.
    Response,
    /// For the client to end a connection that the server has ended.
    End,
}

impl<S: Service> Connection<S> {
    /// Sends what was written, counts it, and sets the time limit for what comes next.
    #[inline]
    pub(crate) fn settle<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.report_tally();
        wire.flush();
        let waits = self.waits_for();
        if waits == Waits::Head && self.waits == Waits::Head {
            // A head has its time from its first byte, not from its last one.
            return;
        }
        self.waits = waits;
        self.since = self.now;
        self.check_later(wire);
    }

    /// Ends the wait for a head, which is complete. Returns when its first byte came.
    #[inline]
    pub(super) fn head_ended(&mut self) -> u64 {
        if self.waits != Waits::Head {
            return self.now;
        }
        // The next head has a time of its own.
        self.waits = Waits::Idle;
        self.cell().head_time(self.now.saturating_sub(self.since));
        self.since
    }

    /// Records the time of a request that began at `began` and has its response.
    #[inline]
    pub(super) fn took(&mut self, began: u64) {
        if began == self.now {
            return self.tally.at_once();
        }
        let now = self.shared.wall.nanos();
        self.cell().total_time(now.saturating_sub(began));
    }

    pub(super) fn waits_for(&self) -> Waits {
        match self.phase {
            Phase::Lingering => Waits::End,
            _ if self.decoder.in_body() && !self.body_paused => Waits::Body,
            // Kept bytes of a connection that has stopped reading are no slow head.
            _ if !self.queue.is_empty() || self.paused => Waits::Response,
            _ if !self.kept.is_empty() => Waits::Head,
            _ => Waits::Idle,
        }
    }

    pub(super) fn check_later<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let limits = &self.shared.limits;
        let after = match self.waits {
            Waits::Idle => {
                let waited = Duration::from_nanos(self.now.saturating_sub(self.since));
                limits.idle.saturating_sub(waited).min(limits.send_time)
            }
            Waits::Head => limits.head_time,
            Waits::Body => limits.body_time,
            Waits::Response => limits.send_time,
            Waits::End => limits.linger,
        };
        wire.deadline(CHECK, after);
    }

    /// Handles the end of a time limit.
    pub(crate) fn check<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.now = self.shared.wall.nanos();
        match self.waits {
            Waits::Head => self.refuse(RefusalReason::HeadTimeout, wire),
            Waits::Body => self.refuse_body(RefusalReason::BodyTimeout, wire),
            Waits::End => return wire.close(),
            Waits::Idle | Waits::Response => {
                let sent = std::mem::replace(&mut self.sent, wire.sent_bytes());
                if wire.has_unsent() {
                    if sent == self.sent && self.now.saturating_sub(self.since) > 0 {
                        // The client has taken nothing since the last check.
                        self.trouble(Trouble::SlowReader, None, wire);
                        return wire.close();
                    }
                } else if self.waits == Waits::Idle {
                    let waited = self.now.saturating_sub(self.since);
                    let idle = u64::try_from(self.shared.limits.idle.as_nanos());
                    if waited >= idle.unwrap_or(u64::MAX) {
                        self.phase = Phase::Lingering;
                        return wire.close_when_flushed();
                    }
                }
                return self.check_later(wire);
            }
        }
        self.settle(wire);
    }
}
