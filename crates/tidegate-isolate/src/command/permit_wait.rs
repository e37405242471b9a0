//! A future that waits for a permit in the queue of the gate, and leaves the queue when it is
//! dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::internal::PlainTask;

use super::admission::{Admission, Denied};
use super::options::{CallOptions, Terms};
use super::report::CallRecord;
use super::shared::Shared;
use crate::alarm::TimerTaskId;
use crate::breaker::{Settlement, Ticket};
use crate::bulkhead::Place;
use crate::cancel::Cancelled;
use crate::error::{Cause, Rejection};
use crate::isolation::state::State;
use crate::plugin::CallStage;

/// A place in the queue of the gate, and the timer task that wakes its waiter at the end of the
/// wait.
pub(super) struct TimedPlace(Place, TimerTaskId);

impl State {
    /// Takes a place in the queue of the gate.
    pub(super) fn take_place(
        &self,
        start: u64,
        terms: Terms,
        waker: &Waker,
    ) -> Result<TimedPlace, Rejection> {
        let deadline = start.saturating_add(terms.timeout);
        let criticality = terms.criticality;
        let place = (self.gate).enqueue_waiter(start, criticality, deadline, waker)?;
        let end = PlainTask::new(place.end_task());
        let alarm = self.alarms.run_at(place.until, &self.aside, end);
        Ok(TimedPlace(place, alarm))
    }

    /// Returns the result of the wait, a permit or a denial, or `None` while the call waits.
    pub(super) fn poll_place(
        &self,
        TimedPlace(place, _): &TimedPlace,
        (ticket, timeout): (Ticket, u64),
        now: u64,
        waker: &Waker,
    ) -> Option<Result<(), Denied>> {
        if let Some(answer) = self.gate.poll_waiter(place, now, waker) {
            let denied = |why| Denied::without_permit(why, ticket, timeout);
            return Some(answer.map(|permit| permit.forget()).map_err(denied));
        }
        // A closed timer would not end the wait at its time.
        let denied = match self.alarms.is_closed() {
            true => Denied::Refused(Rejection::Closed, ticket),
            false => self.denied_since(ticket, now).err()?,
        };
        self.gate.give_up(place);
        Some(Err(denied))
    }

    /// Ends a wait that has its result: drops the place, and serves calls that wait. Runs wakers.
    pub(super) fn end_place(&self, TimedPlace(place, alarm): TimedPlace, now: u64) {
        self.alarms.cancel(alarm);
        drop(place);
        self.gate.serve_waiters(now);
    }

    /// Leaves the queue without a result.
    pub(super) fn leave_place(&self, place: TimedPlace, now: u64) {
        self.gate.give_up(&place.0);
        self.end_place(place, now);
    }
}

/// A future that admits a call once there is a permit for it. The breaker has already let the call
/// pass. An error contains the time of the rejection. The handle of the call ends it as cancelled, and so
/// does dropping the future.
pub(super) struct PermitWait<'a, T: Send + 'static, E: Send + 'static> {
    shared: &'a Shared<T, E>,
    options: &'a mut CallOptions<T, E>,
    start: u64,
    terms: Terms,
    /// `None` once the call was admitted or rejected.
    ticket: Option<Ticket>,
    /// `None` before the first poll.
    place: Option<TimedPlace>,
    cancelled: Cancelled,
}

impl<'a, T: Send + 'static, E: Send + 'static> PermitWait<'a, T, E> {
    pub(super) fn new(
        shared: &'a Shared<T, E>,
        options: &'a mut CallOptions<T, E>,
        (start, terms): (u64, Terms),
        ticket: Ticket,
    ) -> Self {
        Self {
            shared,
            cancelled: Cancelled::new(options.handle().filter(|_| !options.owns_run())),
            options,
            start,
            terms,
            ticket: Some(ticket),
            place: None,
        }
    }

    /// Returns the result of the wait, or `None` while the call waits, and the time.
    fn poll_permit(
        &mut self,
        ticket: Ticket,
        context: &Context<'_>,
    ) -> (Option<Result<(), Denied>>, u64) {
        let (state, waker) = (&*self.shared.state, context.waker());
        if self.place.is_none() {
            match state.take_place(self.start, self.terms, waker) {
                Ok(place) => self.place = Some(place),
                Err(refused) => return (Some(Err(Denied::Refused(refused, ticket))), self.start),
            }
        }
        let (now, place) = (state.now(), self.place.as_ref());
        let call = (ticket, self.terms.timeout);
        let mut answer = place.and_then(|place| state.poll_place(place, call, now, waker));
        if answer.is_none()
            && let Some(TimedPlace(place, _)) = place
            && self.cancelled.poll(context).is_ready()
        {
            state.gate.give_up(place);
            answer = Some(Err(Denied::Cancelled(ticket)));
        }
        if answer.is_some()
            && let Some(place) = self.place.take()
        {
            state.end_place(place, now);
        }
        (answer, now)
    }
}

impl<T: Send + 'static, E: Send + 'static> Future for PermitWait<'_, T, E> {
    type Output = Result<Admission, (Denied, u64)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let state = &*this.shared.state;
        let Some(ticket) = this.ticket else {
            panic!("a future that waits for a permit must not be polled after it is ready");
        };
        let (answer, now) = this.poll_permit(ticket, context);
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        this.ticket = None;
        let (times, timeout) = ((this.start, now), this.terms.timeout);
        let answer = answer.and_then(|()| state.pass_again(ticket, now));
        let admit = |()| state.begin(state.flags(), ticket, times, timeout);
        Poll::Ready(answer.map(admit).map_err(|denied| (denied, now)))
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for PermitWait<'_, T, E> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        // Calls that share the run are notified first: the next call with the key then runs again.
        drop(self.options.take_owner());
        let state = &*self.shared.state;
        let now = state.now();
        if let Some(place) = self.place.take() {
            state.leave_place(place, now);
        }
        state.breaker.settle(ticket, Settlement::Dropped, now, 0);
        let _ = state.hook(CallStage::Cancelled);
        let record = CallRecord::until(self.start, now);
        let answer = self.shared.failed(record, self.options, Cause::Cancelled);
        self.options.end_span(&answer);
    }
}
