//! What a connection waits for, and for how long. One deadline serves for all limits of time.

use std::time::Duration;

use tidegate_core::internal::{as_nanos, contain};
use tidegate_net::ChannelOptions;
use tidegate_net::internal::StreamRoom;

use super::{Connection, Phase};
use crate::codec::{RefusalReason, RequestDecoder};
use crate::server::request::Intake;
use crate::server::service::Service;
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

/// The key of the one deadline that a connection has.
pub(crate) const CHECK: u8 = 0;
/// The least time between two checks.
const LEAST: Duration = Duration::from_millis(1);

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
    /// For the end of a connection that the server has ended: the client has to take the rest first.
    End,
    /// A head has just ended: the deadline is still that of the head, whatever comes next.
    Undecided,
}

impl<S: Service> Connection<S> {
    /// Sends what was written, counts it, and sets the time limit for what comes next.
    #[inline]
    pub(crate) fn settle<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.report_tally();
        if !self.has_parts_coming() {
            wire.flush();
        }
        let waits = self.waits_for();
        if waits == Waits::Idle && self.waits == Waits::Idle {
            // The deadline stays: when it passes, the check looks how long the connection has been
            // idle. To move it with each request would cost more.
            self.since = self.now;
            return;
        }
        if self.goes_on(waits, wire) {
            return;
        }
        self.waits = waits;
        self.begin_wait(wire);
    }

    /// Returns `true` if parts of outstanding responses are on their way to the connection. They bring a
    /// flush with them, so that the head of a response and its first parts leave together.
    #[inline]
    fn has_parts_coming(&self) -> bool {
        let coming = || {
            self.channel
                .as_ref()
                .is_some_and(StreamRoom::has_writes_coming)
        };
        !self.queue.is_empty() && coming()
    }

    /// Sets the time limit of a wait that begins now.
    pub(super) fn begin_wait<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.since = self.now;
        let left = self.response_left().unwrap_or(Duration::MAX);
        // Whatever the connection waits for, the client has to take its responses.
        let most = self.limit().min(self.shared.limits.send_time);
        self.check_after(most.min(left), wire);
    }

    /// Checks the limits of time after `wait`, or before: an earlier deadline stays, which costs less
    /// than to move it with each request. When it passes, the check looks what is left.
    pub(super) fn check_after<'a>(&mut self, wait: Duration, wire: &mut impl Wire<'a>) {
        let wait = wait.max(LEAST);
        let until = self.now.saturating_add(as_nanos(wait));
        if !(self.now + 1..=until).contains(&self.checks_at) {
            self.checks_at = until;
            wire.deadline(CHECK, wait);
        }
    }

    /// Returns how long the service still has to begin the response that the client waits for, unless
    /// the service waits for the client.
    #[inline]
    fn response_left(&self) -> Option<Duration> {
        let (seq, since) = self.queue.front_waiting()?;
        let in_body = self.decoder.in_body() && seq == self.current;
        if in_body && !self.body_paused && matches!(self.intake, Intake::Sink(_)) {
            return None;
        }
        let waited = Duration::from_nanos(self.now.saturating_sub(since));
        Some(self.shared.limits.response_time.saturating_sub(waited))
    }

    /// Returns `true` if the limit of the current wait goes on: the connection still waits for the
    /// same, and nothing has happened that the limit is for.
    fn goes_on<'a>(&mut self, waits: Waits, wire: &mut impl Wire<'a>) -> bool {
        let same = waits == self.waits;
        match waits {
            Waits::Idle | Waits::Undecided => false,
            // A head has its time from its first byte, not from its last one. A client that goes on
            // sending does not prolong the end.
            Waits::Head | Waits::End => same,
            // Neither does a service that sends its response meanwhile.
            Waits::Body => !std::mem::take(&mut self.body_moved) && same,
            // A service that writes more does not help a client that takes nothing.
            Waits::Response => {
                let (sent, unsent) = (wire.sent_bytes(), wire.has_unsent());
                let stuck = same && self.unsent && unsent && sent == self.sent;
                (self.sent, self.unsent) = (sent, unsent);
                stuck
            }
        }
    }

    /// Ends the wait for a head, which is complete. Returns when its first byte came.
    #[inline]
    pub(super) fn head_ended(&mut self) -> u64 {
        if self.waits != Waits::Head {
            return self.now;
        }
        // The next head has a time of its own.
        self.waits = Waits::Undecided;
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
            Phase::Ended => Waits::End,
            _ if self.decoder.in_body() && !self.body_paused => Waits::Body,
            // Kept bytes of a connection that has stopped reading are no slow head.
            _ if !self.queue.is_empty() || self.paused => Waits::Response,
            _ if !self.kept.is_empty() => Waits::Head,
            _ => Waits::Idle,
        }
    }

    /// Returns how long the current wait may take before it is looked at.
    fn limit(&self) -> Duration {
        let limits = &self.shared.limits;
        match self.waits {
            // For the first request: other idle connections have ended.
            Waits::Idle if self.draining => limits.first_request.min(limits.idle),
            Waits::Idle | Waits::Undecided => limits.idle,
            Waits::Head => limits.head_time,
            Waits::Body => limits.body_time,
            Waits::Response => limits.send_time,
            // A handler holds the end back for no longer. A channel that lingers has a time of its own.
            Waits::End => ChannelOptions::LINGER_TIME,
        }
    }

    /// Handles the end of a time limit.
    pub(crate) fn check<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.now = self.shared.wall.nanos();
        self.checks_at = 0;
        let left = self.response_left();
        if left == Some(Duration::ZERO) {
            self.give_up_response(wire);
            return self.settle(wire);
        }
        let unread = self.look_at_reader(wire);
        let send_time = self.shared.limits.send_time;
        if unread.is_some_and(|idle| idle >= send_time) {
            return self.cut_slow_reader(wire);
        }
        let waited = Duration::from_nanos(self.now.saturating_sub(self.since));
        let rest = self.limit().saturating_sub(waited);
        match (self.waits, unread) {
            (Waits::Head, _) if rest.is_zero() => {
                self.refuse_late_head(wire);
                return self.settle(wire);
            }
            (Waits::Body, _) if rest.is_zero() => {
                self.refuse_body(RefusalReason::BodyTimeout, wire);
                return self.settle(wire);
            }
            (Waits::Idle, None) if rest.is_zero() => {
                self.phase = Phase::Ended;
                return wire.close_when_flushed();
            }
            (Waits::End, None) if wire.is_lingering() => return,
            (Waits::End, None) if rest.is_zero() => return wire.close(),
            _ => {}
        }
        // A client that still has to take something has the time for that.
        let rest = if rest.is_zero() { self.limit() } else { rest };
        let unread = send_time.saturating_sub(unread.unwrap_or_default());
        let response = left.unwrap_or(Duration::MAX);
        self.check_after(rest.min(unread).min(response), wire);
    }

    /// Refuses a head that has not come in time.
    #[cold]
    fn refuse_late_head<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let begun = self.kept.clone();
        let method = RequestDecoder::refused_method(&begun);
        self.refuse(RefusalReason::HeadTimeout, method, None, wire);
    }

    /// Returns for how long the client has taken nothing, if there is something to take. A client that
    /// takes something does not count as idle, and its service has its time from now.
    fn look_at_reader<'a>(&mut self, wire: &mut impl Wire<'a>) -> Option<Duration> {
        let before = std::mem::replace(&mut self.sent, wire.sent_bytes());
        self.unsent = wire.has_unsent();
        let progress = wire.peer_progress();
        // What the system holds when a connection has ended is left to the system.
        let is_held = progress.is_some_and(|one| one.held > 0) && self.waits != Waits::End;
        let is_pending = self.unsent || is_held;
        let since = match progress {
            Some(progress) => self.taken_since(progress.held > 0, progress.acknowledged, self.now),
            None => {
                // Nothing was taken since the wait for the client began.
                let is_stuck = self.waits == Waits::Response && before == self.sent;
                let first = if is_stuck { self.since } else { self.now };
                self.taken_since(self.unsent, self.sent, first)
            }
        };
        let is_taking = is_pending && since == self.now;
        match self.waits {
            // The client has a time for the head or the body of its request, whatever it takes.
            Waits::Head | Waits::Body => {}
            waits if is_taking || waits == Waits::Response && !is_pending => self.since = self.now,
            _ => {}
        }
        is_pending.then(|| Duration::from_nanos(self.now.saturating_sub(since)))
    }

    /// Returns when the client was last seen to take something: when `taken` has become what it is, or
    /// `first` if that was not known before.
    fn taken_since(&mut self, is_held: bool, taken: u64, first: u64) -> u64 {
        let known = self.taken.filter(|(before, _)| is_held && *before == taken);
        let (_, since) = known.unwrap_or((taken, first));
        self.taken = is_held.then_some((taken, since));
        since
    }

    /// Ends the connection of a client that takes nothing.
    #[cold]
    pub(super) fn cut_slow_reader<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.trouble(Trouble::SlowReader, None, wire);
        let told = contain(|| self.service.slow_reader());
        self.report_told(told, wire);
        // A reset: otherwise the system would hold what it has not sent for minutes.
        match &self.channel {
            Some(channel) => drop(channel.abort()),
            None => wire.close(),
        }
    }
}
