//! How a call is admitted, whichever way its work runs: what may refuse it, and what it holds once
//! nothing did.
//!
//! The order is the same for all: hooks, the kind of bulkhead, the rate limit, the breaker, the
//! permits, the deadline. What is here belongs to the key and not to the types of a command, so it
//! exists once. How a call ends is in `ending`.

use std::sync::Arc;

use super::options::{MaybeOptions, Terms};
use super::report::CallRecord;
use super::shared::Shared;
use crate::breaker::{BreakerOpenError, Settlement, Ticket};
use crate::error::{Cause, CommandError, Rejection};
use crate::in_flight::Flight;
use crate::isolation::state::{BREAKS, FALLS_BACK, GATED, RATED, State, THREADS, WATCHED};
use crate::metrics::Plain;
use crate::plugin::CallStage;

/// Something besides the permits may refuse a call, or wants to hear of its refusal.
const NOT_ALONE: u32 = BREAKS | GATED | RATED | THREADS | WATCHED;

/// A call that was admitted: what it holds until it ends.
///
/// It holds a permit of the gate as well, without a handle to it: the permit was forgotten at the
/// admission, and [`State::release`] gives it back. So there is no `Drop`; whoever has an admission
/// ends it.
pub(super) struct Admission {
    /// When the call was made.
    pub(super) start: u64,
    /// When it had its permit: `start`, if it did not wait.
    pub(super) began: u64,
    /// In nanoseconds from `start`; `u64::MAX` for none.
    pub(super) timeout: u64,
    pub(super) ticket: Ticket,
    /// Its deadline and its token.
    pub(super) flight: Arc<Flight>,
}

impl Admission {
    #[inline(always)]
    pub(super) fn deadline(&self) -> u64 {
        self.start.saturating_add(self.timeout)
    }
}

/// Why a call was not admitted.
pub(super) enum Denied {
    /// A hook refused it.
    Hook(String),
    /// It was refused before the breaker was asked.
    Early(Rejection),
    /// The breaker let nothing through.
    Open(BreakerOpenError),
    /// It was refused after the breaker let it through: the ticket is settled by
    /// [`State::book_denial`].
    Refused(Rejection, Ticket),
}

impl Denied {
    pub(super) fn into_cause<E>(self) -> Cause<E> {
        match self {
            Self::Hook(message) => Cause::Hook(message),
            Self::Early(refused) | Self::Refused(refused, _) => Cause::Rejected(refused),
            Self::Open(open) => Cause::ShortCircuited(open.retry_after),
        }
    }
}

impl State {
    /// Admits a call, or says why not. Takes a permit if one is free; does not wait for one.
    #[inline(always)]
    pub(super) fn admit(&self, flags: u32, start: u64, terms: Terms) -> Result<Admission, Denied> {
        let ticket = self.pass(flags, start)?;
        match self.gate.try_enter(terms.criticality) {
            Some(permit) => {
                permit.forget();
                Ok(self.begin(flags, ticket, (start, start), terms.timeout))
            }
            None => Err(Denied::Refused(Rejection::Permits, ticket)),
        }
    }

    /// Asks what stands before the permits: hooks, the kind of bulkhead, the rate limit, the breaker.
    #[inline(always)]
    pub(super) fn pass(&self, flags: u32, start: u64) -> Result<Ticket, Denied> {
        if flags & (WATCHED | RATED | THREADS) != 0 {
            self.pass_watched(flags, start)?;
        }
        if flags & BREAKS == 0 {
            return Ok(Ticket::UNHEARD);
        }
        self.breaker.try_ticket(start).map_err(Denied::Open)
    }

    #[cold]
    fn pass_watched(&self, flags: u32, start: u64) -> Result<(), Denied> {
        self.hook(CallStage::Start).map_err(Denied::Hook)?;
        if flags & THREADS != 0 {
            return Err(Denied::Early(Rejection::InPlace));
        }
        let rated = self.rate.try_take(start);
        rated.map_err(|after| Denied::Early(Rejection::Rate(after)))
    }

    /// Starts the time of a call that has its permit, and counts it as active.
    #[inline(always)]
    pub(super) fn begin(
        &self,
        flags: u32,
        ticket: Ticket,
        (start, began): (u64, u64),
        timeout: u64,
    ) -> Admission {
        self.metrics.note_active(began, self.gate.held() as u64);
        let flight = self.alarms.take_flight();
        self.arm(&flight, start.saturating_add(timeout), flags);
        Admission {
            start,
            began,
            timeout,
            ticket,
            flight,
        }
    }

    /// Waits for a permit on the calling thread, if that is what the call was refused for.
    #[cold]
    pub(super) fn wait_if_full(
        &self,
        denied: Denied,
        flags: u32,
        start: u64,
        terms: Terms,
    ) -> Result<Admission, Denied> {
        let Denied::Refused(Rejection::Permits, ticket) = denied else {
            return Err(denied);
        };
        let deadline = start.saturating_add(terms.timeout);
        let clock = self.alarms.clock().clock();
        match self.gate.wait(clock, terms.criticality, deadline) {
            Ok(permit) => {
                permit.forget();
                Ok(self.begin(flags, ticket, (start, self.now()), terms.timeout))
            }
            Err(refused) => Err(Denied::Refused(refused, ticket)),
        }
    }

    /// Tells the breaker and the adaptive limit of a call that was not admitted.
    ///
    /// A full bulkhead counts as a failure of the dependency. A call that must not wait where it was
    /// made, or comes after the end, says nothing of it.
    #[inline]
    pub(super) fn book_denial(&self, denied: &Denied, (start, now): (u64, u64)) {
        let Denied::Refused(refused, ticket) = *denied else {
            return;
        };
        let is_full = matches!(
            refused,
            Rejection::Permits | Rejection::Pool | Rejection::Threshold | Rejection::Reserved
        );
        let settlement = if is_full {
            Settlement::Failure
        } else {
            Settlement::Ignored
        };
        self.breaker.settle(ticket, settlement, now, 0);
        if is_full {
            self.gate.sample(now, now.saturating_sub(start), true);
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Ends a call that was made and not admitted at these times.
    #[inline(never)]
    pub(super) fn denied(
        &self,
        (start, now): (u64, u64),
        flags: u32,
        asked: MaybeOptions<'_, T, E>,
        denied: Denied,
    ) -> Result<T, CommandError<E>> {
        self.state.book_denial(&denied, (start, now));
        let plain = match &denied {
            Denied::Open(_) => Some(Plain::Open),
            Denied::Refused(Rejection::Permits, _) => Some(Plain::Permits),
            _ => None,
        };
        if let Some(plain) = plain
            && self.is_plain(flags, &asked)
        {
            return self.refused_plainly(now, plain, denied.into_cause());
        }
        let record = CallRecord::until(start, now);
        asked.with(|options| self.failed(record, options, denied.into_cause()))
    }

    /// Whether nothing but the permits decides and they are held: then a refusal is known before
    /// the time is.
    #[inline(always)]
    pub(super) fn is_shut(&self, flags: u32, asked: &MaybeOptions<'_, T, E>) -> bool {
        flags & (NOT_ALONE | FALLS_BACK) == FALLS_BACK
            && self.state.gate.is_shut(asked.criticality())
    }

    /// All permits are held, and nothing else has a say. The time only chooses a bucket, so a
    /// coarse one will do.
    #[inline(never)]
    pub(super) fn refused_at_once(
        &self,
        flags: u32,
        asked: MaybeOptions<'_, T, E>,
    ) -> Result<T, CommandError<E>> {
        let cause = Cause::Rejected(Rejection::Permits);
        if self.is_plain(flags, &asked) {
            return self.refused_plainly(self.state.coarse_now(), Plain::Permits, cause);
        }
        let record = CallRecord::new(self.state.now());
        asked.with(|options| self.failed(record, options, cause))
    }
}
