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
use crate::error::{Cause, Rejection};
use crate::plugin::CallStage;

/// A future that admits a call once there is a permit for it. The breaker has already let the call
/// pass. An error contains the time of the rejection. Dropping the future ends the call as
/// cancelled.
pub(super) struct PermitWait<'a, T: Send + 'static, E: Send + 'static> {
    shared: &'a Shared<T, E>,
    options: &'a mut CallOptions<T, E>,
    start: u64,
    terms: Terms,
    /// `None` once the call was admitted or rejected.
    ticket: Option<Ticket>,
    /// The place in the queue, and the timer task that wakes the future at the end of its wait.
    /// `None` before the first poll.
    place: Option<(Place, TimerTaskId)>,
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
            options,
            start,
            terms,
            ticket: Some(ticket),
            place: None,
        }
    }

    /// Takes a place in the queue, unless the call already has one.
    fn enqueue_waiter(&mut self, waker: &Waker) -> Result<(), Rejection> {
        if self.place.is_some() {
            return Ok(());
        }
        let (state, start) = (&*self.shared.state, self.start);
        let Terms {
            criticality,
            timeout,
        } = self.terms;
        let deadline = start.saturating_add(timeout);
        let place = state
            .gate
            .enqueue_waiter(start, criticality, deadline, waker)?;
        let end_task = PlainTask::new(place.end_task());
        let alarm = state.alarms.run_at(place.until, &state.aside, end_task);
        self.place = Some((place, alarm));
        Ok(())
    }

    /// Returns the result of the wait, or `None` while the call still waits.
    fn poll_permit(&mut self, now: u64, waker: &Waker) -> Option<Result<(), Rejection>> {
        let state = &*self.shared.state;
        let (place, _) = self.place.as_ref()?;
        let answer = state.gate.poll_waiter(place, now, waker);
        let answer = answer.map(|served| served.map(|permit| permit.forget()));
        let answer = answer.or_else(|| {
            // A closed timer would not wake the future at the end of its wait.
            state.alarms.is_closed().then(|| {
                state.gate.give_up(place);
                state.gate.serve_waiters(now);
                Err(Rejection::Closed)
            })
        });
        if answer.is_some()
            && let Some((_, alarm)) = self.place.take()
        {
            state.alarms.cancel(alarm);
        }
        answer
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
        let waker = context.waker();
        let (answer, now) = match this.enqueue_waiter(waker) {
            Ok(()) => {
                let now = state.now();
                (this.poll_permit(now, waker), now)
            }
            Err(refused) => (Some(Err(refused)), this.start),
        };
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        this.ticket = None;
        Poll::Ready(match answer {
            Ok(()) => {
                let (times, timeout) = ((this.start, now), this.terms.timeout);
                Ok(state.begin(state.flags(), ticket, times, timeout))
            }
            Err(refused) => Err((Denied::Refused(refused, ticket), now)),
        })
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
        if let Some((place, alarm)) = self.place.take() {
            state.alarms.cancel(alarm);
            state.gate.give_up(&place);
            state.gate.serve_waiters(now);
        }
        state.breaker.settle(ticket, Settlement::Dropped, now, 0);
        let _ = state.hook(CallStage::Cancelled);
        let record = CallRecord::until(self.start, now);
        let answer = self.shared.failed(record, self.options, Cause::Cancelled);
        self.options.end_span(&answer);
    }
}
