//! What may refuse a call before its work: hooks, the rate limit, the kind of bulkhead, the breaker,
//! the permits; and how a refused call ends.

use tidegate_core::PermitRef;

use super::options::Asked;
use super::report::Story;
use super::shared::Shared;
use crate::breaker::{Open, Ticket, Verdict};
use crate::bulkhead::Criticality;
use crate::error::{Cause, CommandError, Refused};
use crate::isolation::state::{BREAKS, FALLS_BACK, GATED, RATED, THREADS, WATCHED};
use crate::metrics::Plain;
use crate::plugin::Stage;

/// Somebody besides the permits may refuse a call, or wants to hear of its refusal.
const NOT_ALONE: u32 = BREAKS | GATED | RATED | THREADS | WATCHED;

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// What stands before the breaker: hooks, the rate, the kind of bulkhead.
    #[cold]
    pub(super) fn may_begin(&self, now: u64, flags: u32) -> Result<(), Cause<E>> {
        let state = &*self.state;
        state.hook(Stage::Start).map_err(Cause::Hook)?;
        if flags & THREADS != 0 {
            return Err(Cause::Rejected(Refused::InPlace));
        }
        let rated = state.rate.try_take(now);
        rated.map_err(|after| Cause::Rejected(Refused::Rate(after)))
    }

    /// The breaker let nobody through.
    #[inline(never)]
    pub(super) fn short_circuited(
        &self,
        start: u64,
        flags: u32,
        asked: Asked<'_, T, E>,
        open: Open,
    ) -> Result<T, CommandError<E>> {
        let cause = Cause::ShortCircuited(open.retry_after);
        if self.is_plain(flags, &asked) {
            return self.refused_plainly(start, Plain::Open, cause);
        }
        asked.with(|options| self.failed(Story::new(start), options, cause))
    }

    #[cold]
    pub(super) fn wait_for_permit(
        &self,
        criticality: Criticality,
        deadline: u64,
    ) -> Result<PermitRef<'_>, Refused> {
        let clock = self.state.alarms.clock().clock();
        self.state.gate.wait(clock, criticality, deadline)
    }

    /// There is no permit for the call, which began and was refused at these times.
    #[inline(always)]
    pub(super) fn refused(
        &self,
        (start, now): (u64, u64),
        flags: u32,
        asked: Asked<'_, T, E>,
        ticket: Ticket,
        refused: Refused,
    ) -> Result<T, CommandError<E>> {
        let state = &*self.state;
        if flags & BREAKS != 0 {
            // A call that must not wait where it was made says nothing of the dependency.
            let verdict = match refused {
                Refused::Permits => Verdict::Failure,
                _ => Verdict::Ignored,
            };
            state.breaker.settle(ticket, verdict, now, 0);
        }
        state.gate.sample(now, now.saturating_sub(start), true);
        let cause = Cause::Rejected(refused);
        if refused == Refused::Permits && self.is_plain(flags, &asked) {
            return self.refused_plainly(now, Plain::Permits, cause);
        }
        asked.with(|options| self.failed(Story::until(start, now), options, cause))
    }

    /// Whether nothing but the permits decides and they are held: then a refusal is known before
    /// the time is.
    #[inline(always)]
    pub(super) fn is_shut(&self, flags: u32, asked: &Asked<'_, T, E>) -> bool {
        flags & (NOT_ALONE | FALLS_BACK) == FALLS_BACK
            && self.state.gate.is_shut(asked.criticality())
    }

    /// All permits are held, and nobody but them has a say. The time of it only chooses a bucket,
    /// so a coarse one will do.
    #[inline(never)]
    pub(super) fn refused_at_once(
        &self,
        flags: u32,
        asked: Asked<'_, T, E>,
    ) -> Result<T, CommandError<E>> {
        let cause = Cause::Rejected(Refused::Permits);
        if self.is_plain(flags, &asked) {
            return self.refused_plainly(self.state.coarse_now(), Plain::Permits, cause);
        }
        let story = Story::new(self.state.now());
        asked.with(|options| self.failed(story, options, cause))
    }
}
