//! A call with permits whose work is a future.
//!
//! The returned future is an async block that contains the work's future, so the work needs no box.
//! A future that is ready at its first poll allocates nothing and waits for no lock. The parts that few
//! calls need, a wait for a permit or a shared run, have a box of their own, so that they do not
//! enlarge the future of other calls.
//!
//! # How a call ends
//!
//! The task that polls the call always ends it: with the result of the work, when it finds that the
//! call has expired, or when it drops the future. The timer only expires the call and wakes the
//! task.
//!
//! A poll that is pending stores its waker in the call slot, and then checks once more whether the
//! call has expired. The timer expires the call, and then takes the waker. The lock of the waker's
//! slot orders both. So the timer finds the waker, or the poll finds that the call has expired.

use std::future::{Future, poll_fn};
use std::mem::needs_drop;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::CancelToken;
use tidegate_core::internal::trace;

use super::admission::{Admission, Denied};
use super::ending::Ended;
use super::options::{CallOptions, MaybeOptions, discard};
use super::outcome::WorkEnd;
use super::permit_wait::PermitWait;
use super::report::CallRecord;
use super::shared::Shared;
use super::traced::{Around, outcome};
use crate::cancel::HandleOfCall;
use crate::error::{Cause, CommandError, Rejection, contain};
use crate::isolation::state::WATCHED;
use crate::plugin::CallStage;
use crate::request::{Answer, CacheLookup, RequestContext};

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Runs the future that `work` makes. Nothing happens before the first poll.
    pub(super) async fn run_async<F, W>(
        self: Arc<Self>,
        mut options: CallOptions<T, E>,
        work: F,
    ) -> Answer<T, E>
    where
        F: FnOnce(CancelToken) -> W,
        W: Future<Output = Result<T, E>>,
    {
        options.defers = true;
        if options.rare.is_some() {
            if options.handle().is_some_and(HandleOfCall::is_cancelled) {
                let record = CallRecord::new(self.state.now());
                return self.failed(record, &mut options, Cause::Cancelled);
            }
            match self.look_up(&mut options, true)? {
                None => {}
                Some(CacheLookup::Hit(copies)) => return self.follow(options, copies).await,
                Some(CacheLookup::WouldDeadlock) => {
                    let answer = self.reject_deadlock(&mut options);
                    return self.fall_back_if_deferred(&mut options, answer).await;
                }
                Some(CacheLookup::Miss(first)) => options.own_run(first),
            }
        }
        let state = &*self.state;
        if trace::wants_spans() {
            options.begin_span(state);
        }
        let (flags, start, terms) = (state.flags(), state.now(), options.terms(state));
        let (denied, now) = 'denied: {
            let call = match state.admit(flags, start, terms) {
                Ok(call) => call,
                Err(Denied::Refused(Rejection::Permits, ticket)) if state.gate.may_wait() => {
                    let wait = PermitWait::new(&self, &mut options, (start, terms), ticket);
                    match Box::pin(wait).await {
                        Ok(call) => call,
                        Err(denied) => break 'denied denied,
                    }
                }
                Err(denied) => break 'denied (denied, start),
            };
            if let Some(handle) = options.handle()
                && !handle.begin_async(options.is_attempt, options.owns_run())
            {
                break 'denied state.withdraw(call);
            }
            let slot = pin!(None);
            let running = Running {
                shared: &self,
                options: &mut options,
                call: Some(call),
                work: Some(work),
                future: slot,
                is_listening: false,
            };
            let answer = running.await;
            if !options.is_deferred() {
                discard(options.rare);
                return answer;
            }
            return self.fall_back_if_deferred(&mut options, answer).await;
        };
        let within = options.enter_run();
        let maybe_options = MaybeOptions(Some(&mut options));
        let answer = self.denied((start, now), flags, maybe_options, denied);
        drop(within);
        complete_owner(&mut options, &answer);
        self.fall_back_if_deferred(&mut options, answer).await
    }

    /// Awaits the fallback of a call that has ended with `answer`, if it has to.
    pub(super) async fn fall_back_if_deferred(
        &self,
        options: &mut CallOptions<T, E>,
        answer: Answer<T, E>,
    ) -> Answer<T, E> {
        match answer {
            Err(error) if options.is_deferred() => {
                Box::pin(self.fall_back_in_span(options, error)).await
            }
            answer => {
                options.end_span(&answer);
                answer
            }
        }
    }

    async fn fall_back_in_span(
        &self,
        options: &mut CallOptions<T, E>,
        error: CommandError<E>,
    ) -> Answer<T, E> {
        let span = options.take_span();
        let mut fallback = pin!(self.fall_back_async(options, error));
        let polled = poll_fn(|context| {
            let _entered = span.enter();
            fallback.as_mut().poll(context)
        });
        let answer = polled.await;
        span.record("outcome", outcome(&answer));
        answer
    }
}

/// Passes a final result to the calls that share the run, if there are any.
#[inline]
fn complete_owner<T, E>(options: &mut CallOptions<T, E>, answer: &Answer<T, E>) {
    if options.is_deferred() {
        return;
    }
    if let Some(owner) = options.take_owner() {
        owner.complete_copies(answer);
    }
}

/// A call that was admitted, and the future of its work. Dropping it ends the call as cancelled.
struct Running<'a, T: Send + 'static, E: Send + 'static, F, W> {
    shared: &'a Shared<T, E>,
    options: &'a mut CallOptions<T, E>,
    /// None once the call has ended.
    call: Option<Admission>,
    /// `None` once it has created the future.
    work: Option<F>,
    /// None before the first poll, and again when the work has ended.
    future: Pin<&'a mut Option<W>>,
    /// `true` once a waker was stored for the timer.
    is_listening: bool,
}

/// No field is pinned itself: `future` is only a reference to the work's future, which is pinned.
impl<T: Send + 'static, E: Send + 'static, F, W> Unpin for Running<'_, T, E, F, W> {}

impl<T, E, F, W> Future for Running<'_, T, E, F, W>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(CancelToken) -> W,
    W: Future<Output = Result<T, E>>,
{
    type Output = Answer<T, E>;

    /// Polls the work's future, which the first poll creates, and ends the call when it is ready.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer<T, E>> {
        let this = &mut *self;
        let Some(call) = &this.call else {
            unreachable!("the future of a call is not polled after it is ready");
        };
        if this.work.is_none() && call.flight.is_expired() {
            return Poll::Ready(this.expired());
        }
        let state = &*this.shared.state;
        let (request, work) = (this.options.context.as_ref(), &mut this.work);
        let future = &mut this.future;
        let (around, held) = (this.options.enter_rare(), state.gate.hold());
        let polled = contain(|| {
            let _entered = request.map(RequestContext::enter);
            if let Some(work) = work.take() {
                if state.flags() & WATCHED != 0 {
                    state.hook(CallStage::ExecutionStart)?;
                }
                future.set(Some(work(call.flight.token().clone())));
            }
            match future.as_mut().as_pin_mut() {
                Some(future) => Ok(future.poll(context)),
                None => unreachable!("the first poll creates the work's future"),
            }
        });
        Around::leave(around);
        drop(held);
        let result = match polled {
            Ok(Ok(Poll::Pending)) => {
                call.flight.set_waker(context.waker());
                this.is_listening = true;
                if call.flight.is_expired() {
                    return Poll::Ready(this.expired());
                }
                return Poll::Pending;
            }
            Ok(Ok(Poll::Ready(answer))) => answer.into(),
            Ok(Err(message)) | Err(message) => WorkEnd::Panic(message),
        };
        Poll::Ready(this.end(result))
    }
}

impl<T: Send + 'static, E: Send + 'static, F, W> Running<'_, T, E, F, W> {
    /// Ends a call that has expired, and drops its work.
    #[cold]
    fn expired(&mut self) -> Answer<T, E> {
        self.end(WorkEnd::Panic(String::new()))
    }

    #[inline(always)]
    fn end(&mut self, result: WorkEnd<T, E>) -> Answer<T, E> {
        // Dropped before the permit is given back: the permit is held until the work has really
        // ended.
        self.drop_future();
        let Some(call) = self.call.take() else {
            unreachable!("the admission is taken only at the end of the call");
        };
        if self.is_listening {
            call.flight.clear_listener();
        }
        if self.options.rare.is_some() {
            return self.end_with_options(call, result);
        }
        self.shared
            .end(MaybeOptions(Some(self.options)), call, result)
    }

    #[cold]
    #[inline(never)]
    fn end_with_options(&mut self, call: Admission, result: WorkEnd<T, E>) -> Answer<T, E> {
        let within = self.options.enter_run();
        let answer = self
            .shared
            .end(MaybeOptions(Some(self.options)), call, result);
        drop(within);
        complete_owner(self.options, &answer);
        self.options.end_span(&answer);
        answer
    }

    /// Drops the work's future. Its `Drop` is user code and may panic.
    #[inline]
    fn drop_future(&mut self) {
        if const { needs_drop::<W>() } {
            let _ = contain(|| self.future.set(None));
        }
    }

    /// Ends the call as cancelled: the returned future was dropped before it was ready.
    #[cold]
    fn cancel(&mut self, call: Admission) {
        // Calls that share the run are notified first: the next call with the key then runs again.
        drop(self.options.take_owner());
        let state = &*self.shared.state;
        let token = call.flight.token();
        token.cancel_without_hooks();
        token.run_hooks_to(&state.key, &state.plugins.unhandled);
        self.drop_future();
        let now = state.now();
        call.flight.finish();
        call.flight.clear_listener();
        state.release(now);
        state.report(call.ticket, call.times(now), Ended::Cancelled);
        let _ = state.hook(CallStage::Cancelled);
        let record = CallRecord::until(call.start, now);
        let answer = self.shared.failed(record, self.options, Cause::Cancelled);
        self.options.end_span(&answer);
    }
}

impl<T: Send + 'static, E: Send + 'static, F, W> Drop for Running<'_, T, E, F, W> {
    #[inline]
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.cancel(call);
        }
    }
}

#[cfg(test)]
mod tests {
    //! The two times of a call may come from two threads, whose clocks differ a little.

    use crate::breaker::Ticket;
    use crate::command::Command;
    use crate::command::ending::{Ended, Times};
    use crate::{Event, Isolation};

    type Numbers = Command<u32, &'static str>;

    /// Reports a call whose work seems to begin before the call was made.
    fn report_begun_before_its_start(ended: Ended) -> Numbers {
        let isolation = Isolation::builder().build().unwrap();
        let command = Numbers::builder("a").group("tests").build(&isolation);
        let command = command.unwrap();
        let state = &command.shared.state;
        let now = state.now();
        let times = Times {
            start: now + 1_000,
            began: now,
            now,
        };
        state.report(Ticket::UNCOUNTED, times, ended);
        command
    }

    #[test]
    fn a_call_that_seems_to_begin_before_its_start_has_not_waited() {
        let command = report_begun_before_its_start(Ended::Success);
        let latencies = command.snapshot().latencies;
        assert_eq!((latencies.wait.count(), latencies.run.count()), (1, 1));
        assert!(latencies.wait.percentile(100.0) < std::time::Duration::from_millis(1));
        assert_eq!(command.snapshot().totals[Event::Success], 1);
    }

    #[test]
    fn a_call_that_seems_to_begin_before_its_start_can_be_cancelled() {
        let command = report_begun_before_its_start(Ended::Cancelled);
        let latencies = command.snapshot().latencies;
        assert_eq!((latencies.wait.count(), latencies.total.count()), (1, 1));
    }
}
