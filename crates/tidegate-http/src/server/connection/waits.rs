//! What a connection waits for, and for how long. One deadline serves for all limits of time.

use std::time::Duration;

use tidegate_core::internal::{as_nanos, contain};
use tidegate_net::ChannelOptions;
use tidegate_net::internal::StreamRoom;

use super::Connection;
use super::state::{Stage, Waits};
use crate::codec::{RefusalReason, RequestDecoder};
use crate::server::service::Service;
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

/// The key of the one deadline that a connection has.
pub(crate) const CHECK: u8 = 0;
/// The least time between two checks.
const LEAST: Duration = Duration::from_millis(1);

/// The current wait, and what was seen of the client: plain data, to which the time is told.
#[derive(Default)]
pub(super) struct Wait {
    pub(super) what: Waits,
    /// When it began.
    pub(super) since: u64,
    /// When the deadline passes that is set; a time that is over if none is.
    checks_at: u64,
    /// How many bytes were sent when that was last looked at, and whether others waited to be: two
    /// measurements, no state.
    sent: u64,
    unsent: bool,
    /// How much the client had taken when it was last seen to take something, and when that was. `None` if
    /// nothing was left to take.
    taken: Option<(u64, u64)>,
}

impl Wait {
    /// Notes that something of a body was received: the rest has a limit of its own.
    pub(super) fn body_moved(&mut self) {
        if self.what == Waits::Body {
            self.what = Waits::Anew;
        }
    }

    /// Returns `true` if the limit of this wait goes on: the connection still waits for the
    /// same, and nothing has happened that the limit is for. `seen` tells how many bytes were sent, and
    /// whether others wait to be.
    fn goes_on(&mut self, what: Waits, seen: impl FnOnce() -> (u64, bool)) -> bool {
        let same = what == self.what;
        match what {
            Waits::Idle | Waits::Anew => false,
            // A head has its time from its first byte, not from its last one. A body that goes on has made
            // the wait another one; a service that sends its response meanwhile does not. A client that
            // goes on sending does not prolong the end.
            Waits::Head | Waits::Body | Waits::End => same,
            // A service that writes more does not help a client that takes nothing.
            Waits::Response => {
                let (sent, unsent) = seen();
                let stuck = same && self.unsent && unsent && sent == self.sent;
                (self.sent, self.unsent) = (sent, unsent);
                stuck
            }
        }
    }

    /// Notes how much was sent, and what the system knows of the client: whether it holds bytes for it,
    /// and how many the client has taken. Returns for how long it has taken nothing, if there is something
    /// to take. A client that takes something does not count as idle, and its service has its time from now.
    fn look(
        &mut self,
        now: u64,
        (sent, unsent): (u64, bool),
        progress: Option<(bool, u64)>,
    ) -> Option<Duration> {
        let before = std::mem::replace(&mut self.sent, sent);
        self.unsent = unsent;
        // What the system holds when a connection has ended is left to the system.
        let is_held = progress.is_some_and(|(held, _)| held) && self.what != Waits::End;
        let is_pending = unsent || is_held;
        let since = match progress {
            Some((held, taken)) => self.taken_since(held, taken, now),
            None => {
                // Nothing was taken since the wait for the client began.
                let is_stuck = self.what == Waits::Response && before == sent;
                let first = if is_stuck { self.since } else { now };
                self.taken_since(unsent, sent, first)
            }
        };
        let is_taking = is_pending && since == now;
        match self.what {
            // The client has a time for the head or the body of its request, whatever it takes.
            Waits::Head | Waits::Body => {}
            what if is_taking || what == Waits::Response && !is_pending => self.since = now,
            _ => {}
        }
        is_pending.then(|| Duration::from_nanos(now.saturating_sub(since)))
    }

    /// Returns when the client was last seen to take something: when `taken` has become what it is, or
    /// `first` if that was not known before.
    fn taken_since(&mut self, is_held: bool, taken: u64, first: u64) -> u64 {
        let known = self.taken.filter(|(before, _)| is_held && *before == taken);
        let (_, since) = known.unwrap_or((taken, first));
        self.taken = is_held.then_some((taken, since));
        since
    }
}

impl<S: Service> Connection<S> {
    /// Sends what was written, counts it, and sets the time limit for what comes next.
    #[inline]
    pub(crate) fn settle<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.report_tally();
        if !self.has_parts_coming() {
            wire.flush();
        }
        let what = self.state.waits_for();
        if what == Waits::Idle && self.wait.what == Waits::Idle {
            // The deadline stays: when it passes, the check looks how long the connection has been
            // idle. To move it with each request would cost more.
            self.wait.since = self.now;
            return;
        }
        let seen = || (wire.sent_bytes(), wire.has_unsent());
        if !self.wait.goes_on(what, seen) {
            self.wait.what = what;
            self.begin_wait(wire);
        }
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
        !self.state.queue.is_empty() && coming()
    }

    /// Sets the time limit of a wait that begins now.
    pub(super) fn begin_wait<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.wait.since = self.now;
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
        if !(self.now + 1..=until).contains(&self.wait.checks_at) {
            self.wait.checks_at = until;
            wire.deadline(CHECK, wait);
        }
    }

    /// Returns how long the service still has to begin the response that the client waits for, unless
    /// the service waits for the client.
    #[inline]
    fn response_left(&self) -> Option<Duration> {
        let (seq, since) = self.state.queue.front_waiting()?;
        if self.state.reads_for(seq) {
            return None;
        }
        let waited = Duration::from_nanos(self.now.saturating_sub(since));
        Some(self.shared.limits.response_time.saturating_sub(waited))
    }

    /// Ends the wait for a head, which is complete. Returns when its first byte came.
    #[inline]
    pub(super) fn head_ended(&mut self) -> u64 {
        let since = match self.wait.what {
            Waits::Head => self.wait.since,
            Waits::Body => self.now,
            _ => return self.now,
        };
        if self.wait.what == Waits::Head {
            self.cell().head_time(self.now.saturating_sub(since));
        }
        // The next head or body has a time of its own.
        self.wait.what = Waits::Anew;
        since
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

    /// Returns how long the current wait may take before it is looked at.
    fn limit(&self) -> Duration {
        let limits = &self.shared.limits;
        match self.wait.what {
            // For the first request: other idle connections have ended.
            Waits::Idle if self.state.drain.begun => limits.first_request.min(limits.idle),
            Waits::Idle | Waits::Anew => limits.idle,
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
        self.wait.checks_at = 0;
        let left = self.response_left();
        if left == Some(Duration::ZERO) {
            self.give_up_response(wire);
            return self.end_or_settle(wire);
        }
        let progress = wire.peer_progress();
        let progress = progress.map(|one| (one.held > 0, one.acknowledged));
        let seen = (wire.sent_bytes(), wire.has_unsent());
        let unread = self.wait.look(self.now, seen, progress);
        let send_time = self.shared.limits.send_time;
        if unread.is_some_and(|idle| idle >= send_time) {
            return self.cut_slow_reader(wire);
        }
        let waited = Duration::from_nanos(self.now.saturating_sub(self.wait.since));
        let rest = self.limit().saturating_sub(waited);
        match (self.wait.what, unread) {
            (Waits::Head, _) if rest.is_zero() => {
                self.refuse_late_head(wire);
                return self.end_or_settle(wire);
            }
            (Waits::Body, _) if rest.is_zero() => {
                self.refuse_body(RefusalReason::BodyTimeout, wire);
                return self.end_or_settle(wire);
            }
            (Waits::Idle, None) if rest.is_zero() => {
                self.state.stage = Stage::Ended;
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
        let begun = self.state.kept.clone();
        let method = RequestDecoder::refused_method(&begun);
        self.refuse(RefusalReason::HeadTimeout, method, None, wire);
    }

    /// Ends the connection, or goes on with it, when a limit of time has ended a request.
    fn end_or_settle<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.end_if_done(wire);
        self.settle(wire);
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
