//! A call on threads of a bulkhead: how it is admitted and submitted.
//!
//! A call can be ended by the worker when the work has ended, by the timer at the deadline, by the
//! caller when it cancels, or by the pool when it drops the queued job. The word of its `Flight`
//! decides which of them was first: exactly one ends the call. Only that end is counted and
//! notifies the caller; the others only clean up their own state. A job that is still queued when
//! its call ends is removed from the queue at once. A running job is signalled through its token if
//! the settings say so, keeps its thread until it returns, and is counted as overstaying.
//!
//! The timer's thread only decides. The next steps may run user code, such as a fallback or the
//! `Drop` of the work. The caller runs them if it waits; otherwise a callback thread of the command
//! does.
//!
//! The state of a call is one allocation, its [`ThreadCall`]: the job in the pool's queue, the
//! receiver of the timeout and the caller's cancel handler are references to it.

use std::sync::Arc;

use tidegate_core::internal::{WaitGuard, check_may_block, check_wait, discard, trace};
use tidegate_core::permits::Permit;
use tidegate_core::{Executor, Task};
use tidegate_promise::{Completion, Promise, promise_on, promise_with_error};

use super::admission::{Admission, Denied};
use super::installed_context::InstalledContext;
use super::options::CallOptions;
use super::report::CallRecord;
use super::shared::Shared;
use super::thread_call::{
    CallerMessage, HeldPermits, PendingWork, Recipient, SubmitResult, ThreadCall, Work,
};
use crate::breaker::Ticket;
use crate::bulkhead::{Criticality, Home};
use crate::cancel::HandleOfCall;
use crate::error::{Cause, CommandError, Rejection};
use crate::isolation::RegisteredPool;
use crate::isolation::state::{GATED, INTERRUPTS, State, THREADS};
use crate::request::RequestContext;
use crate::request::wait_graph::{self, RunId};

/// What an admitted call has: its pool, its ticket of the breaker and its permits.
type Admitted<'a> = (&'a Arc<RegisteredPool>, Ticket, HeldPermits);

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    #[inline(never)]
    pub(super) fn run_on_threads<F: Work<T, E>>(
        self: &Arc<Self>,
        options: &mut CallOptions<T, E>,
        work: F,
    ) -> Result<T, CommandError<E>> {
        if trace::wants_spans() {
            return self.in_span(|| self.wait_on_threads(options, work));
        }
        self.wait_on_threads(options, work)
    }

    fn wait_on_threads<F: Work<T, E>>(
        self: &Arc<Self>,
        options: &mut CallOptions<T, E>,
        work: F,
    ) -> Result<T, CommandError<E>> {
        let start = self.state.now();
        let recorded = match self.state.may_wait() {
            Ok(recorded) => recorded,
            Err(refused) => {
                let cause = Cause::Rejected(refused);
                return self.failed(CallRecord::new(start), options, cause);
            }
        };
        let (promise, receiver) = promise_with_error::<CallerMessage<T, E>, CommandError<E>>();
        let within = wait_graph::current();
        let brief = SubmitOptions::of(options, within);
        let raw = match self.begin_on_threads(brief, start, work, Recipient::Caller(promise)) {
            Ok(()) => match receiver.wait() {
                Ok(CallerMessage::Ended(raw)) => raw,
                Ok(CallerMessage::EndedEarly(call, early_end)) => Err(call.clean_up(early_end)),
                Err(_) => Err(Cause::Cancelled),
            },
            Err((cause, _)) => Err(cause),
        };
        // Before the fallback runs, which may wait for something else.
        drop(recorded);
        self.end_with(options, start, raw)
    }

    pub(super) fn queue_on_threads<F: Work<T, E>>(
        self: &Arc<Self>,
        mut options: CallOptions<T, E>,
        work: F,
    ) -> Completion<T, CommandError<E>> {
        if trace::wants_spans() {
            let span = self.state.span();
            options.rare().span = span.clone();
            // The job takes the span along.
            let _entered = span.enter();
            return self.queue_untraced(options, work);
        }
        self.queue_untraced(options, work)
    }

    fn queue_untraced<F: Work<T, E>>(
        self: &Arc<Self>,
        mut options: CallOptions<T, E>,
        work: F,
    ) -> Completion<T, CommandError<E>> {
        let start = self.state.now();
        // Captured now: the fallback may run, and the call may be logged, outside of this request.
        options.context = options.context.or_else(RequestContext::current);
        if !self.state.plugins.propagators.is_empty() {
            options.rare().captured = self.state.plugins.capture();
        }
        let pool = self.state.threads.get();
        let (promise, answer) = match pool {
            Some(pool) => promise_on(Arc::<Home>::clone(pool.home())),
            None => promise_with_error::<T, CommandError<E>>(),
        };
        let capacity = pool.map_or(0, |pool| pool.capacity());
        let Some(place) = self.state.aside.reserve(capacity) else {
            let cause = Cause::Rejected(Rejection::Backlog);
            let _ = promise.complete(self.end_with(&mut options, start, Err(cause)));
            return answer;
        };
        // No caller waits for the work, so it belongs to no shared run except this call's own.
        let brief = SubmitOptions::of(&options, options.run().into_iter().collect());
        let recipient = Recipient::Completion(promise, options, place);
        if let Err((cause, recipient)) = self.begin_on_threads(brief, start, work, recipient)
            && let Some(Recipient::Completion(promise, mut options, place)) = recipient
        {
            if self.has_async_fallback(&options) && check_may_block(None).is_err() {
                self.refuse_aside((promise, options, place), start, cause);
            } else {
                let _ = promise.complete(self.end_with(&mut options, start, Err(cause)));
            }
        }
        answer
    }

    /// Ends a call that was refused, on a thread of the command: the caller must not block for its
    /// fallback.
    #[cold]
    fn refuse_aside(
        self: &Arc<Self>,
        (promise, mut options, place): (Promise<T, CommandError<E>>, CallOptions<T, E>, Permit),
        start: u64,
        cause: Cause<E>,
    ) {
        let shared = Arc::clone(self);
        let end = Task::named("fallback of a refused call", move || {
            let _place = place;
            let plugins = &shared.state.plugins;
            let (context, captured) = (options.context.clone(), options.take_captured());
            let _around = InstalledContext::install(plugins, context, captured);
            discard(promise.complete(shared.end_with(&mut options, start, Err(cause))));
        });
        self.state.alarms.run_aside(&self.state.aside, end);
    }

    /// Admits a call and submits it to the pool. If it is rejected, returns the cause and the
    /// recipient.
    fn begin_on_threads<F: Work<T, E>>(
        self: &Arc<Self>,
        brief: SubmitOptions,
        start: u64,
        work: F,
        recipient: Recipient<T, E>,
    ) -> SubmitResult<T, E> {
        let state = &self.state;
        let flags = state.flags();
        let (pool, ticket, held) = match state.admit_on_threads(flags, start, brief.criticality) {
            Ok(admitted) => admitted,
            Err(denied) => {
                state.book_denial(&denied, start);
                return Err((denied.into_cause(), Some(recipient)));
            }
        };
        let timeout = brief.timeout.unwrap_or(state.timeout());
        let deadline = start.saturating_add(timeout);
        let context = brief.context.or_else(RequestContext::current);
        let pending = PendingWork {
            work,
            context,
            captured: state.plugins.capture(),
            within: brief.within,
            held,
            begun: brief.handle.as_ref().map(HandleOfCall::begun),
        };
        let flight = state.alarms.take_flight();
        let interrupts = flags & INTERRUPTS != 0;
        let clock = state.alarms.clock().clock();
        flight.prepare(clock, deadline, state.aside.id(), interrupts);
        let call = Admission {
            start,
            began: start,
            timeout,
            ticket,
            flight,
        };
        let call = ThreadCall::new(self, pool, call, pending, recipient);
        // Registered before the call begins: otherwise it could end without a receiver.
        call.listen();
        call.flight().word().begin_queued();
        state.alarms.watch(deadline);
        if let Some(handle) = &brief.handle
            && !call.join(handle, brief.is_attempt)
        {
            return Ok(());
        }
        call.hand_over(brief.criticality)
    }
}

impl State {
    /// Admits a call that is about to be submitted, or returns why it is denied.
    fn admit_on_threads(
        &self,
        flags: u32,
        start: u64,
        criticality: Criticality,
    ) -> Result<Admitted<'_>, Denied> {
        let ticket = self.pass(flags & !THREADS, start)?;
        let denied = |refused| Denied::Refused(refused, ticket);
        let pool = self.threads.get().ok_or(denied(Rejection::Closed))?;
        let place = pool.take_place(criticality).map_err(|refused| {
            pool.count_rejected(start);
            denied(refused)
        })?;
        let permit = if flags & GATED == 0 {
            None
        } else {
            let permit = self.gate.try_enter_owned(criticality);
            Some(permit.ok_or(denied(Rejection::Permits))?)
        };
        Ok((pool, ticket, HeldPermits { permit, place }))
    }

    /// Checks that the calling thread may wait for a call on threads. The thread must hold the
    /// returned guard while it waits.
    pub(super) fn may_wait(&self) -> Result<WaitGuard, Rejection> {
        let pool = self.threads.get().map(|pool| pool.pool() as &dyn Executor);
        check_wait(pool).map_err(|refused| match refused.is_deadlock() {
            true => Rejection::Deadlock,
            false => Rejection::Waiting,
        })
    }
}

/// The options of a call that its submission needs.
struct SubmitOptions {
    timeout: Option<u64>,
    criticality: Criticality,
    context: Option<RequestContext>,
    within: Vec<RunId>,
    handle: Option<HandleOfCall>,
    is_attempt: bool,
}

impl SubmitOptions {
    fn of<T, E>(options: &CallOptions<T, E>, within: Vec<RunId>) -> Self {
        Self {
            timeout: options.timeout,
            criticality: options.criticality,
            context: options.context.clone(),
            within,
            handle: options.handle().cloned(),
            is_attempt: options.is_attempt,
        }
    }
}
