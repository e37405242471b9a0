//! How an admitted call ends. A call whose work has ended on the calling thread takes these steps:
//!
//! 1. [`State::stop_time`] decides whether the work or the timeout was first. It passes the latency
//!    to the adaptive limit while the permit still counts as held.
//! 2. [`State::release`] gives the permit back and serves calls that wait for one. Between the end
//!    of the work and this step no user code runs, except the `Drop` of hooks left on the token.
//! 3. [`State::report`] records the latency and settles the ticket of the breaker.
//! 4. User code runs: hooks, listeners, the fallback. See `outcome`. The check for a bad request is
//!    user code too, and runs between steps 2 and 3.
//!
//! Other ways differ: an `Entry` gives its permit back when it is dropped, after its report, which may
//! come from the timer, and a future that is dropped runs its cancel hooks and drops the work before it gives the permit back.

use super::admission::Admission;
use super::options::MaybeOptions;
use super::outcome::{WorkEnd, late};
use super::report::CallRecord;
use super::shared::Shared;
use crate::breaker::{Settlement, Ticket};
use crate::error::{Cause, CommandError};
use crate::event::Event;
use crate::isolation::state::State;
use crate::plugin::CallStage;

/// How an admitted call ended, as metrics and breaker see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Success,
    Failure,
    /// The request was invalid, which says nothing about the health of the dependency.
    Ignored,
    /// There was nothing to call, which says nothing about the health of the dependency.
    Unserved,
    TimedOut,
    Cancelled,
    /// The caller has left, which says nothing about the health of the dependency.
    Abandoned,
}

impl Ended {
    /// Returns the outcome of a call that failed with this cause.
    pub(super) fn by<E>(cause: &Cause<E>) -> Self {
        match cause {
            Cause::BadRequest(_) => Self::Ignored,
            Cause::TimedOut(_) => Self::TimedOut,
            Cause::Cancelled => Self::Cancelled,
            _ => Self::Failure,
        }
    }

    /// Returns the outcome of a call that the timer ended, from its timeout or its deadline. A call
    /// without a timeout (`u64::MAX`) was cancelled, because the timer ends it only at shutdown.
    pub(super) fn late(timeout: u64) -> Self {
        match timeout {
            u64::MAX => Self::Cancelled,
            _ => Self::TimedOut,
        }
    }

    /// Returns the event that the outcome is counted as.
    pub(super) fn event(self) -> Event {
        match self {
            Self::Success => Event::Success,
            Self::Failure | Self::Unserved => Event::Failure,
            Self::Ignored => Event::BadRequest,
            Self::TimedOut => Event::Timeout,
            Self::Cancelled | Self::Abandoned => Event::Cancelled,
        }
    }

    /// Returns the verdict for the breaker.
    #[inline(always)]
    pub(super) fn settlement(self) -> Settlement {
        match self {
            Self::Success => Settlement::Success,
            Self::Failure | Self::TimedOut => Settlement::Failure,
            Self::Ignored | Self::Unserved | Self::Abandoned => Settlement::Ignored,
            Self::Cancelled => Settlement::Dropped,
        }
    }
}

/// When a call was made, when its work began, and when it ended.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) start: u64,
    pub(super) began: u64,
    pub(super) now: u64,
}

impl Times {
    /// Returns how long the work took.
    #[inline(always)]
    pub(super) fn run(self) -> u64 {
        self.now.saturating_sub(self.began)
    }
}

impl Admission {
    #[inline(always)]
    pub(super) fn times(&self, now: u64) -> Times {
        let (start, began) = (self.start, self.began);
        Times { start, began, now }
    }

    /// Returns the cause of a call that ended because its deadline passed or all calls were
    /// stopped.
    pub(super) fn late<E>(&self) -> Cause<E> {
        late(self.timeout)
    }

    /// Returns the outcome of a call that the timer ended.
    pub(super) fn ended_late(&self) -> Ended {
        Ended::late(self.timeout)
    }
}

impl State {
    /// Stops the timeout of a call. Passes its latency to the adaptive limit, unless the call failed
    /// in time: how fast a dependency fails says nothing about its room. Returns `true` if the call
    /// ended before its deadline.
    #[inline(always)]
    pub(super) fn stop_time(&self, call: &Admission, now: u64, has_succeeded: bool) -> bool {
        let in_time = call.flight.finish() && now < call.deadline();
        if has_succeeded || !in_time {
            let took = now.saturating_sub(call.began);
            self.gate.sample(now, took, !in_time);
        }
        in_time
    }

    /// Gives back the permit of a call that was admitted, and serves calls that wait for one.
    #[inline(always)]
    pub(super) fn release(&self, now: u64) {
        self.gate.give_back(|| now);
    }

    /// Records the latency of a call, and reports its outcome to the breaker. Counts a success. Any
    /// other outcome is counted later, when its event is emitted.
    #[inline(always)]
    pub(super) fn report(&self, ticket: Ticket, times: Times, ended: Ended) {
        self.record(times, ended);
        let (now, run) = (times.now, times.run());
        self.breaker.settle(ticket, ended.settlement(), now, run);
    }

    /// Records the latency of a call, and counts a success.
    #[inline(always)]
    pub(super) fn record(&self, times: Times, ended: Ended) {
        let Times { start, began, now } = times;
        let run = times.run();
        if began == start {
            self.metrics.record_at_once(now, run);
        } else {
            // The times may come from two threads, and the clock of one of them may be a little
            // behind, so the differences saturate.
            let wait = began.saturating_sub(start);
            let total = now.saturating_sub(start);
            self.metrics.record(now, wait, run, total);
        }
        if ended == Ended::Success {
            self.metrics.count(now, Event::Success);
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Ends a call whose work has ended on this thread, and returns the result for the caller.
    #[inline(always)]
    pub(super) fn end(
        &self,
        maybe_options: MaybeOptions<'_, T, E>,
        call: Admission,
        result: WorkEnd<T, E>,
    ) -> Result<T, CommandError<E>> {
        let state = &*self.state;
        let now = state.now();
        let has_succeeded = matches!(result, WorkEnd::Value(_));
        let in_time = state.stop_time(&call, now, has_succeeded);
        let Admission {
            start,
            began,
            timeout,
            ticket,
            flight,
        } = call;
        state.release(now);
        // After the permit was given back: this drops hooks that the work left on its token.
        state.alarms.keep_flight(flight);
        let times = Times { start, began, now };
        match result {
            WorkEnd::Value(value) if in_time => {
                state.report(ticket, times, Ended::Success);
                if self.is_watched(state.flags(), &maybe_options) {
                    self.emitted();
                    maybe_options
                        .with(|options| self.succeeded(CallRecord::until(start, now), options));
                }
                Ok(value)
            }
            other => {
                let late = (!in_time).then_some(timeout);
                self.end_without_answer(maybe_options, (ticket, times), other, late)
            }
        }
    }

    /// Ends a call whose work failed, panicked or was late; the fallback may still give a value.
    /// `late` is the timeout in nanoseconds if the call timed out.
    #[cold]
    #[inline(never)]
    fn end_without_answer(
        &self,
        maybe_options: MaybeOptions<'_, T, E>,
        (ticket, times): (Ticket, Times),
        result: WorkEnd<T, E>,
        late: Option<u64>,
    ) -> Result<T, CommandError<E>> {
        let state = &*self.state;
        let cause = self.cause_of(result, late);
        state.report(ticket, times, Ended::by(&cause));
        if late.is_none() {
            let _ = state.hook(CallStage::ExecutionError);
        }
        let record = CallRecord::until(times.start, times.now);
        maybe_options.with(|options| self.failed(record, options, cause))
    }
}
