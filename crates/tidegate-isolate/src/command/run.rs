//! A call with permits, on the calling thread.
//!
//! The way of a call that succeeds at once: one clock reading, two loads for the breaker, one
//! compare-and-swap for the permit, a store and a compare-and-swap for the deadline, the work, one
//! clock reading, one subtraction for the permit, and three additions: the outcome, the breaker's
//! count and the latency. Nothing is allocated and no lock is taken.
//!
//! The way of a call that finds all permits held, where nothing else has a say: a look at the
//! count, a coarse clock reading, one addition, the error.

use std::time::Duration;

use tidegate_core::{CancelToken, CaughtPanic, PermitRef, contain, discard};

use super::call::Asked;
use super::outcome::Story;
use super::{CommandError, Shared};
use crate::breaker::{Open, Ticket, Verdict};
use crate::isolation::state::{BREAKS, FALLS_BACK, GATED, RATED, THREADS, WATCHED};
use crate::metrics::Plain;
use crate::{Cause, Criticality, Event, Refused, Stage};

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

    /// Counts a call whose work has ended and whose permit is back.
    #[inline]
    pub(super) fn end_in_place(
        &self,
        asked: Asked<'_, T, E>,
        end: &End,
        result: Ran<T, E>,
    ) -> Result<T, CommandError<E>> {
        let state = &*self.state;
        let &End {
            start,
            began,
            now,
            in_time,
            timeout,
            ticket,
        } = end;
        let run = now.saturating_sub(began);
        if began == start {
            state.metrics.record_at_once(now, run);
        } else {
            // Two threads may have read the times, and one of them may be a little behind.
            let wait = began.saturating_sub(start);
            let total = now.saturating_sub(start);
            state.metrics.record(now, wait, run, total);
        }
        match result {
            Ok(Ok(Ok(value))) if in_time => {
                state.metrics.count(now, Event::Success);
                state.breaker.settle(ticket, Verdict::Success, now, run);
                if self.is_watched(state.flags(), &asked) {
                    self.emitted();
                    asked.with(|options| self.succeeded(Story::until(start, now), options));
                }
                Ok(value)
            }
            other => {
                let cause = self.cause_of(other, in_time, timeout);
                self.settle_failure(ticket, &cause, now, run);
                if in_time {
                    let _ = state.hook(Stage::ExecutionError);
                }
                asked.with(|options| self.failed(Story::until(start, now), options, cause))
            }
        }
    }

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
    fn wait_for_permit(
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
    fn is_shut(&self, flags: u32, asked: &Asked<'_, T, E>) -> bool {
        flags & (NOT_ALONE | FALLS_BACK) == FALLS_BACK
            && self.state.gate.is_shut(asked.criticality())
    }

    /// All permits are held, and nobody but them has a say. The time of it only chooses a bucket,
    /// so a coarse one will do.
    #[inline(never)]
    fn refused_at_once(&self, flags: u32, asked: Asked<'_, T, E>) -> Result<T, CommandError<E>> {
        let cause = Cause::Rejected(Refused::Permits);
        if self.is_plain(flags, &asked) {
            return self.refused_plainly(self.state.coarse_now(), Plain::Permits, cause);
        }
        let story = Story::new(self.state.now());
        asked.with(|options| self.failed(story, options, cause))
    }

    /// What went wrong, of a work that did not answer in time or did not answer well.
    pub(super) fn cause_of(&self, result: Ran<T, E>, in_time: bool, timeout: u64) -> Cause<E> {
        if !in_time {
            // Nobody gets it, and its `Drop` is the user's: the call must end all the same.
            discard(result);
            return late(timeout);
        }
        match result {
            Ok(Ok(Err(error))) => {
                let is_bad = |error: &E| {
                    let asked = self.is_bad_request.as_ref();
                    let asked = asked.map(|ask| crate::error::contain(|| ask(error)));
                    if let Some(Err(message)) = &asked {
                        let state = &*self.state;
                        state.plugins.panicked(&state.key, message);
                    }
                    asked.is_some_and(|answer| answer.unwrap_or(false))
                };
                if is_bad(&error) {
                    Cause::BadRequest(error)
                } else {
                    Cause::Failed(error)
                }
            }
            Ok(Err(Refusal(message))) => Cause::Panicked(message),
            Err(panic) => Cause::Panicked(panic.message().to_owned()),
            // A value in time is a success, which is not asked about here.
            Ok(Ok(Ok(_))) => Cause::Cancelled,
        }
    }

    pub(super) fn settle_failure(&self, ticket: Ticket, cause: &Cause<E>, now: u64, run: u64) {
        let verdict = match cause {
            Cause::BadRequest(_) => Verdict::Ignored,
            Cause::Cancelled => Verdict::Dropped,
            _ => Verdict::Failure,
        };
        self.state.breaker.settle(ticket, verdict, now, run);
    }
}

/// Somebody besides the permits may refuse a call, or wants to hear of its refusal.
const NOT_ALONE: u32 = BREAKS | GATED | RATED | THREADS | WATCHED;

/// What is known of a call whose work has ended.
pub(super) struct End {
    pub(super) start: u64,
    /// When the work began: `start`, if the call did not wait.
    pub(super) began: u64,
    pub(super) now: u64,
    pub(super) in_time: bool,
    pub(super) timeout: u64,
    pub(super) ticket: Ticket,
}

/// Why a call was ended before its work: its time was over, or, where it has none, everything was
/// stopped.
pub(super) fn late<E>(timeout: u64) -> Cause<E> {
    match timeout {
        u64::MAX => Cause::Cancelled,
        _ => Cause::TimedOut(Duration::from_nanos(timeout)),
    }
}

/// A hook's refusal just before the work: it counts as the work's own failure.
pub(super) struct Refusal(pub(super) String);

/// What became of the work: it panicked, a hook refused it, or it answered.
pub(super) type Ran<T, E> = Result<Result<Result<T, E>, Refusal>, CaughtPanic>;
