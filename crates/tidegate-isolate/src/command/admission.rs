//! How a call is admitted, however its work runs: what may reject it, and what an admitted call
//! holds.
//!
//! The order is the same for all calls: hooks, the kind of bulkhead, the breaker, the rate limit,
//! the permits, the deadline. A call that has waited for a permit is checked by the breaker once more.
//! The functions of [`State`] depend on the key and not on the types of a command, so they exist once.
//! How a call ends is in `ending`.

use std::sync::Arc;
use std::task::{Context, Waker};

use super::options::{MaybeOptions, Terms};
use super::outcome::late;
use super::report::CallRecord;
use super::shared::Shared;
use crate::breaker::{BreakerOpenError, Settlement, Ticket};
use crate::bulkhead::NoPermit;
use crate::cancel::{Cancelled, HandleOfCall};
use crate::error::{Cause, CommandError, Rejection};
use crate::event::Event;
use crate::in_flight::Flight;
use crate::isolation::state::{BREAKS, FALLS_BACK, GATED, RATED, State, THREADS, WATCHED};
use crate::metrics::PlainRejection;
use crate::plugin::CallStage;

/// The flags of a command for which more than the permits may reject a call, or a plug-in receives
/// its events.
const NOT_ALONE: u32 = BREAKS | GATED | RATED | THREADS | WATCHED;

/// An admitted call: what it holds until it ends.
///
/// A call that does not run on threads also holds a permit of the gate, without a handle to it: the
/// permit was forgotten at the admission, and [`State::release`] gives it back. So there is no
/// `Drop`: the owner of an admission must end it. On threads, the call holds its permits as values.
pub(super) struct Admission {
    /// When the call was made.
    pub(super) start: u64,
    /// When the call received its permit; `start` if it did not wait.
    pub(super) began: u64,
    /// In nanoseconds from `start`; `u64::MAX` for none.
    pub(super) timeout: u64,
    pub(super) ticket: Ticket,
    /// The call slot, with the deadline and the token.
    pub(super) flight: Arc<Flight>,
}

impl Admission {
    #[inline(always)]
    pub(super) fn deadline(&self) -> u64 {
        self.start.saturating_add(self.timeout)
    }

    /// Leaves `nanos` out of the time of the call. The deadline stays.
    pub(super) fn leave_out(&mut self, nanos: u64) {
        self.start = self.start.saturating_add(nanos);
        self.began = self.began.saturating_add(nanos);
        if self.timeout != u64::MAX {
            self.timeout = self.timeout.saturating_sub(nanos);
        }
    }
}

/// Why a call was not admitted.
pub(super) enum Denied {
    /// A hook rejected the call.
    Hook(String),
    /// The call was rejected before the breaker was consulted.
    Early(Rejection),
    /// The breaker denied the call.
    Open(BreakerOpenError),
    /// The call was rejected after the breaker had let it pass. [`State::book_denial`] settles the
    /// ticket, as in the next cases.
    Refused(Rejection, Ticket),
    /// The call has timed out after so many nanoseconds, while it waited for a permit.
    Late(u64, Ticket),
    /// The caller has cancelled the call before its work began.
    Cancelled(Ticket),
}

impl Denied {
    /// Returns the denial of a call with this timeout that has waited for a permit in vain.
    pub(super) fn without_permit(why: NoPermit, ticket: Ticket, timeout: u64) -> Self {
        match why {
            NoPermit::Refused(refused) => Self::Refused(refused, ticket),
            NoPermit::Late => Self::Late(timeout, ticket),
        }
    }

    pub(super) fn into_cause<E>(self) -> Cause<E> {
        match self {
            Self::Hook(message) => Cause::Hook(message),
            Self::Early(refused) | Self::Refused(refused, _) => Cause::Rejected(refused),
            Self::Open(open) => Cause::ShortCircuited(open.retry_after),
            Self::Late(timeout, _) => late(timeout),
            Self::Cancelled(_) => Cause::Cancelled,
        }
    }
}

impl State {
    /// Admits a call, or returns why it is denied. Takes a permit if one is free; does not wait for
    /// one.
    #[inline(always)]
    pub(super) fn admit(&self, flags: u32, start: u64, terms: Terms) -> Result<Admission, Denied> {
        self.admit_as::<false>(flags, start, terms)
    }

    /// Admits a call like `admit`, whose timeout the timer reports if `IS_ENTRY`.
    #[inline(always)]
    pub(super) fn admit_as<const IS_ENTRY: bool>(
        &self,
        flags: u32,
        start: u64,
        terms: Terms,
    ) -> Result<Admission, Denied> {
        let ticket = self.pass(flags, start)?;
        match self.gate.try_enter(terms.criticality) {
            Some(permit) => {
                permit.forget();
                let times = (start, start);
                Ok(self.begin_as::<IS_ENTRY>(flags, ticket, times, terms.timeout))
            }
            None => Err(Denied::Refused(Rejection::Permits, ticket)),
        }
    }

    /// Checks what comes before the permits: hooks, the kind of bulkhead, the breaker, the rate
    /// limit.
    #[inline(always)]
    pub(super) fn pass(&self, flags: u32, start: u64) -> Result<Ticket, Denied> {
        if flags & (WATCHED | RATED | THREADS) != 0 {
            return self.pass_watched(flags, start);
        }
        self.pass_breaker(flags, start)
    }

    #[inline(always)]
    fn pass_breaker(&self, flags: u32, start: u64) -> Result<Ticket, Denied> {
        if flags & BREAKS == 0 {
            return Ok(Ticket::UNCOUNTED);
        }
        self.breaker.try_ticket(start).map_err(Denied::Open)
    }

    #[cold]
    fn pass_watched(&self, flags: u32, start: u64) -> Result<Ticket, Denied> {
        self.hook(CallStage::Start).map_err(Denied::Hook)?;
        if flags & THREADS != 0 {
            return Err(Denied::Early(Rejection::InPlace));
        }
        let ticket = self.pass_breaker(flags, start)?;
        // After the breaker, so that a call that is short-circuited uses no token.
        let rated = self.rate.try_take(start);
        rated.map_err(|after| Denied::Refused(Rejection::Rate(after), ticket))?;
        Ok(ticket)
    }

    /// Checks a call that received a permit after a wait: it gives the permit back if the breaker has
    /// opened since the call passed with this ticket. Calls listeners of the breaker.
    pub(super) fn pass_again(&self, ticket: Ticket, now: u64) -> Result<(), Denied> {
        self.breaker.judge_if_due(now);
        let denied = self.denied_since(ticket, now);
        denied.inspect_err(|_| self.release(now))
    }

    /// Denies a call that has waited since it passed with this ticket, if the breaker has opened in the
    /// meantime. Calls no listener.
    pub(super) fn denied_since(&self, ticket: Ticket, now: u64) -> Result<(), Denied> {
        let Some(open) = self.breaker.denial_since(ticket, now) else {
            return Ok(());
        };
        // A probe that is denied because the breaker was forced open frees its slot.
        self.breaker.settle(ticket, Settlement::Ignored, now, 0);
        Err(Denied::Open(open))
    }

    /// Starts the timeout of a call that has its permit, and counts the call as active.
    #[inline(always)]
    pub(super) fn begin(
        &self,
        flags: u32,
        ticket: Ticket,
        times: (u64, u64),
        timeout: u64,
    ) -> Admission {
        self.begin_as::<false>(flags, ticket, times, timeout)
    }

    /// Starts a call like `begin`, whose timeout the timer reports if `IS_ENTRY`.
    #[inline(always)]
    pub(super) fn begin_as<const IS_ENTRY: bool>(
        &self,
        flags: u32,
        ticket: Ticket,
        (start, began): (u64, u64),
        timeout: u64,
    ) -> Admission {
        self.metrics.note_active(began, self.gate.held() as u64);
        let flight = self.alarms.take_flight();
        if IS_ENTRY {
            flight.prepare_entry((start, began), ticket);
        }
        self.arm(&flight, start.saturating_add(timeout), flags);
        Admission {
            start,
            began,
            timeout,
            ticket,
            flight,
        }
    }

    /// Gives up the admission of a call that its caller has cancelled before its work began. Returns the
    /// denial and the time.
    #[cold]
    pub(super) fn withdraw(&self, call: Admission) -> (Denied, u64) {
        let now = self.now();
        call.flight.finish();
        self.release(now);
        self.alarms.keep_flight(call.flight);
        (Denied::Cancelled(call.ticket), now)
    }

    /// Waits for a permit on the calling thread, if the call was denied because no permit was free. The
    /// caller may leave by its handle.
    #[cold]
    pub(super) fn wait_if_full(
        &self,
        denied: Denied,
        flags: u32,
        (start, terms): (u64, Terms),
        handle: Option<&HandleOfCall>,
    ) -> Result<Admission, Denied> {
        let Denied::Refused(Rejection::Permits, ticket) = denied else {
            return Err(denied);
        };
        let deadline = start.saturating_add(terms.timeout);
        let clock = self.alarms.clock().clock();
        let (mut passes, mut cancelled) = (Ok(()), Cancelled::new(handle));
        let may_wait = |waker: &Waker| {
            passes = self.denied_since(ticket, self.now());
            if passes.is_ok() && cancelled.poll(&Context::from_waker(waker)).is_ready() {
                passes = Err(Denied::Cancelled(ticket));
            }
            passes.is_ok()
        };
        let waited = self.gate.wait(clock, terms.criticality, deadline, may_wait);
        let waited = waited.map(|permit| permit.forget());
        let now = self.now();
        if passes.is_err() && waited.is_ok() {
            self.release(now);
        }
        passes?;
        waited.map_err(|why| Denied::without_permit(why, ticket, terms.timeout))?;
        self.pass_again(ticket, now)?;
        Ok(self.begin(flags, ticket, (start, now), terms.timeout))
    }

    /// Reports a call that was not admitted to the breaker.
    ///
    /// A full bulkhead counts as a failure of the dependency, also if the time of the call was over before
    /// there was room, unless the breaker leaves rejections out. A call whose thread must not wait, or
    /// that was made after the shutdown, says nothing about the dependency. An adaptive limit learns
    /// nothing from any of them: how long a call has waited is no latency of the dependency.
    #[inline]
    pub(super) fn book_denial(&self, denied: &Denied, now: u64) {
        let (is_full, ticket) = match *denied {
            Denied::Refused(refused, ticket) => {
                let is_full = matches!(
                    refused,
                    Rejection::Permits
                        | Rejection::Pool
                        | Rejection::Threshold
                        | Rejection::Reserved
                );
                (is_full, ticket)
            }
            Denied::Late(_, ticket) => {
                self.metrics.count(now, Event::ExpiredInQueue);
                (true, ticket)
            }
            Denied::Cancelled(ticket) => {
                return self.breaker.settle(ticket, Settlement::Dropped, now, 0);
            }
            _ => return,
        };
        let settlement = if is_full && self.breaker.counts_rejections() {
            Settlement::Failure
        } else {
            Settlement::Ignored
        };
        self.breaker.settle(ticket, settlement, now, 0);
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Ends a call that was made at `start` and denied at `now`.
    #[inline(never)]
    pub(super) fn denied(
        &self,
        (start, now): (u64, u64),
        flags: u32,
        maybe_options: MaybeOptions<'_, T, E>,
        denied: Denied,
    ) -> Result<T, CommandError<E>> {
        self.state.book_denial(&denied, now);
        let plain = match &denied {
            Denied::Open(_) => Some(PlainRejection::Open),
            Denied::Refused(Rejection::Permits, _) => Some(PlainRejection::Permits),
            Denied::Cancelled(_) => {
                let _ = self.state.hook(CallStage::Cancelled);
                None
            }
            _ => None,
        };
        if let Some(plain) = plain
            && self.is_plain(flags, &maybe_options)
        {
            return self.refused_plainly(now, plain, denied.into_cause());
        }
        let record = CallRecord::until(start, now);
        maybe_options.with(|options| self.failed(record, options, denied.into_cause()))
    }

    /// Returns `true` if only the permits can reject a call and none is free. The rejection is then
    /// known before the clock is read.
    #[inline(always)]
    pub(super) fn is_shut(&self, flags: u32, maybe_options: &MaybeOptions<'_, T, E>) -> bool {
        flags & (NOT_ALONE | FALLS_BACK) == FALLS_BACK
            && self.state.gate.is_shut(maybe_options.criticality())
    }

    /// Rejects a call because all permits are held and nothing else can reject it. The time only
    /// selects a bucket of the metrics, so a coarse time suffices.
    #[inline(never)]
    pub(super) fn refused_at_once(
        &self,
        flags: u32,
        maybe_options: MaybeOptions<'_, T, E>,
    ) -> Result<T, CommandError<E>> {
        let cause = Cause::Rejected(Rejection::Permits);
        if self.is_plain(flags, &maybe_options) {
            return self.refused_plainly(self.state.coarse_now(), PlainRejection::Permits, cause);
        }
        let record = CallRecord::new(self.state.now());
        maybe_options.with(|options| self.failed(record, options, cause))
    }
}
