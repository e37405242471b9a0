//! A call with permits, on the calling thread.
//!
//! The way of a call that succeeds at once: one clock reading, two loads for the breaker, one
//! compare-and-swap for the permit, a store and a compare-and-swap for the deadline, the work, one
//! clock reading, one subtraction for the permit, and three additions: the outcome, the breaker's
//! count and the latency. Nothing is allocated and no lock is taken.
//!
//! The way of a call that finds all permits held, where nothing else has a say: a look at the
//! count, a coarse clock reading, one addition, the error.

use tidegate_core::{CancelToken, contain};

use super::options::Asked;
use super::outcome::{End, Refusal};
use super::report::Story;
use super::shared::Shared;
use crate::breaker::Ticket;
use crate::error::{CommandError, Refused};
use crate::isolation::state::{BREAKS, RATED, THREADS, WATCHED};
use crate::plugin::Stage;

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    #[inline]
    pub(super) fn run_in_place<F>(
        &self,
        asked: Asked<'_, T, E>,
        work: F,
    ) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        let state = &*self.state;
        let flags = state.flags();
        if self.is_shut(flags, &asked) {
            return self.refused_at_once(flags, asked);
        }
        let start = state.now();
        if flags & (WATCHED | RATED | THREADS) != 0
            && let Err(cause) = self.may_begin(start, flags)
        {
            return asked.with(|options| self.failed(Story::new(start), options, cause));
        }
        let ticket = if flags & BREAKS == 0 {
            Ticket::UNHEARD
        } else {
            match state.breaker.try_ticket(start) {
                Ok(ticket) => ticket,
                Err(open) => return self.short_circuited(start, flags, asked, open),
            }
        };
        let timeout = asked.timeout().unwrap_or(state.timeout());
        let deadline = start.saturating_add(timeout);
        let (permit, began) = match state.gate.try_enter(asked.criticality()) {
            Some(permit) => (permit, start),
            None if !state.gate.may_wait() => {
                return self.refused((start, start), flags, asked, ticket, Refused::Permits);
            }
            None => match self.wait_for_permit(asked.criticality(), deadline) {
                Ok(permit) => (permit, state.now()),
                Err(refused) => {
                    let when = (start, state.now());
                    return self.refused(when, flags, asked, ticket, refused);
                }
            },
        };
        state.metrics.note_active(start, state.gate.held() as u64);

        let flight = state.alarms.take_flight();
        state.arm(&flight, deadline, flags);
        let around = (asked.enter_context(), state.gate.hold());
        let result = contain(|| {
            if flags & WATCHED != 0 {
                state.hook(Stage::ExecutionStart).map_err(Refusal)?;
            }
            Ok(work(flight.token()))
        });
        drop(around);
        let now = state.now();
        let in_time = flight.finish() && now < deadline;
        state.alarms.keep_flight(flight);

        let end = End {
            start,
            began,
            now,
            in_time,
            timeout,
            ticket,
        };
        state.gate.sample(now, now.saturating_sub(began), !in_time);
        state.gate.leave(permit, now);
        self.end_in_place(asked, &end, result)
    }
}
