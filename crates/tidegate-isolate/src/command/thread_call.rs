//! A call on threads, from its submission to its end.
//!
//! A call ends in one of four ways: its work returns, its timeout passes, its caller cancels it, or
//! the pool drops its queued job. The call word (`in_flight`) decides which of them ends the call.
//! A thread that comes second does not notify the caller. The work and the recipient are each taken
//! once, so the work runs at most once and the caller is notified at most once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::internal::{PlainTask, discard, discard_all};
use tidegate_core::permits::Permit;
use tidegate_core::{CancelToken, Task};
use tidegate_pool::queue::JobKey;
use tidegate_promise::Promise;

use super::admission::{Admission, Denied};
use super::ending::{Ended, Times};
use super::installed_context::InstalledContext;
use super::options::CallOptions;
use super::outcome::WorkEnd;
use super::shared::Shared;
use crate::breaker::Settlement;
use crate::bulkhead::Criticality;
use crate::cancel::{CancelOutcome, Cancellable, HandleOfCall, Interrupt};
use crate::error::{Cause, CommandError, Rejection};
use crate::event::Event;
use crate::in_flight::{Flight, OnTimeout, SeenCall, WorkState};
use crate::isolation::RegisteredPool;
use crate::isolation::state::INTERRUPTS_ON_CANCEL;
use crate::lock::lock;
use crate::plugin::{CallStage, Install};
use crate::request::RequestContext;
use crate::request::wait_graph::{self, RunId};

/// The work of a call on a thread.
pub(super) trait Work<T, E>: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static {}

impl<T, E, F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static> Work<T, E> for F {}

/// The job has no key in the queue: it is not queued, or its key is not stored yet.
const NOWHERE: u64 = u64::MAX;
/// The value of the work, or the cause of its failure.
pub(super) type WorkAnswer<T, E> = Result<T, Cause<E>>;

/// What a blocked caller receives.
pub(super) enum CallerMessage<T, E> {
    /// The work has ended.
    Ended(WorkAnswer<T, E>),
    /// The timer, a cancel or the pool ended the call. The caller runs the clean-up.
    EndedEarly(Arc<dyn EarlyEndedCall<E>>, EarlyEnd),
}

/// A call that ended before its work did.
pub(super) trait EarlyEndedCall<E>: Send + Sync {
    /// Counts the end of the call and drops work that has not started, on a thread that may run
    /// user code. Returns the cause.
    fn clean_up(&self, early_end: EarlyEnd) -> Cause<E>;
}

/// How a call ended before its work did.
#[derive(Clone, Copy)]
pub(super) struct EarlyEnd {
    /// Whether the work was queued or running at that moment.
    left: WorkState,
    why: EarlyEndReason,
}

#[derive(Clone, Copy)]
enum EarlyEndReason {
    Expired,
    Cancelled,
    /// The queue gave the place of the call to another call, or the pool dropped its queue.
    Refused(Rejection),
}

/// How the caller receives the result.
pub(super) enum Recipient<T: Send + 'static, E: Send + 'static> {
    /// The caller is blocked, and runs the remaining steps itself.
    Caller(Promise<CallerMessage<T, E>, CommandError<E>>),
    /// The caller has a completion. The permit reserves a place on the callback threads, where the
    /// call ends if its worker does not end it.
    Completion(Promise<T, CommandError<E>>, CallOptions<T, E>, Permit),
}

impl<T: Send + 'static, E: Send + 'static> Recipient<T, E> {
    fn is_waiting(&self) -> bool {
        matches!(self, Self::Caller(_))
    }
}

/// `Ok` if the call was submitted; otherwise the cause and the recipient.
pub(super) type SubmitResult<T, E> = Result<(), (Cause<E>, Option<Recipient<T, E>>)>;

/// The permits that a call holds until its work has ended, even if its caller has left.
#[derive(Default)]
pub(super) struct HeldPermits {
    /// The permit of the gate, if the command has an adaptive limit.
    pub(super) permit: Option<Permit>,
    /// The place in the pool, if the pool divides its places by criticality.
    pub(super) place: Option<Permit>,
}

/// A call that was submitted and has not ended.
pub(super) struct ThreadCall<T: Send + 'static, E: Send + 'static, F> {
    shared: Arc<Shared<T, E>>,
    pool: Arc<RegisteredPool>,
    call: Admission,
    /// Identifies this call. The call slot is reused by later calls.
    seen: SeenCall,
    /// When the work began; `u64::MAX` before. Written by the worker before it starts the work.
    began: AtomicU64,
    /// The key of the job in the pool's queue. Written after the job was queued.
    place: AtomicU64,
    parts: Mutex<Parts<T, E, F>>,
}

/// The parts of a call that are taken once.
struct Parts<T: Send + 'static, E: Send + 'static, F> {
    /// Taken by the worker that starts the work, or by the thread that cleans up after an early end.
    pending: Option<PendingWork<F>>,
    /// Taken by the thread that notifies the caller.
    recipient: Option<Recipient<T, E>>,
}

/// The work of a call, and what the worker needs to run it.
pub(super) struct PendingWork<F> {
    pub(super) work: F,
    pub(super) context: Option<RequestContext>,
    pub(super) captured: Vec<Install>,
    /// The shared runs that the work belongs to.
    pub(super) within: Vec<RunId>,
    pub(super) held: HeldPermits,
    /// Set when the work begins, if the caller has a handle.
    pub(super) begun: Option<Arc<AtomicBool>>,
}

impl<T: Send + 'static, E: Send + 'static, F: Work<T, E>> ThreadCall<T, E, F> {
    pub(super) fn new(
        shared: &Arc<Shared<T, E>>,
        pool: &Arc<RegisteredPool>,
        call: Admission,
        pending: PendingWork<F>,
        recipient: Recipient<T, E>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            pool: Arc::clone(pool),
            seen: call.flight.word().next_queued(),
            call,
            began: AtomicU64::new(u64::MAX),
            place: AtomicU64::new(NOWHERE),
            parts: Mutex::new(Parts {
                pending: Some(pending),
                recipient: Some(recipient),
            }),
        })
    }

    pub(super) fn flight(&self) -> &Flight {
        &self.call.flight
    }

    /// Registers the call as the receiver of its timeout and of a cancellation by its caller.
    pub(super) fn listen(self: &Arc<Self>) {
        self.flight()
            .set_timeout_target(Arc::clone(self) as Arc<dyn OnTimeout>);
        if let Some(Recipient::Completion(promise, ..)) = &lock(&self.parts).recipient {
            let call = Arc::clone(self);
            promise.on_cancel(move || {
                call.cancel(None);
            });
        }
    }

    /// Submits the job to the pool. Returns the cause and the recipient if there is no room.
    pub(super) fn hand_over(self: &Arc<Self>, criticality: Criticality) -> SubmitResult<T, E> {
        let queued = QueuedJob(Some(Arc::clone(self)));
        let task = Task::labelled::<F, _>(move || queued.run());
        match self.pool.submit(task, criticality) {
            Ok(None) => Ok(()),
            Ok(Some(JobKey(place))) => {
                // By the fences in `leave` and `is_left`, either the thread that ends the call
                // finds the place, or this thread finds that the call has ended.
                self.place.store(place, Ordering::Relaxed);
                if self.flight().word().is_left() {
                    self.unqueue();
                }
                Ok(())
            }
            Err(refused) => {
                // If no other thread has ended the call, this thread ends it before it drops the
                // job, and then reports the rejection. The drop of the job finds an ended call.
                let mine = self.flight().word().take_back();
                let why = refused.why();
                drop(refused);
                if mine {
                    let refused = self.pool.refusal_of(why);
                    self.refuse(refused);
                    self.keep_flight();
                    return Err((Cause::Rejected(refused), lock(&self.parts).recipient.take()));
                }
                Ok(())
            }
        }
    }

    /// Runs the work on this worker thread.
    fn run(&self) {
        let state = &*self.shared.state;
        let now = state.now();
        self.began.store(now, Ordering::Relaxed);
        if !self.flight().word().start() {
            // The call has already ended, and another thread cleans up.
            self.began.store(u64::MAX, Ordering::Relaxed);
            return;
        }
        let Some(pending) = lock(&self.parts).pending.take() else {
            unreachable!("only the worker that starts the call takes its work");
        };
        let running = state.running.fetch_add(1, Ordering::Relaxed) + 1;
        state.metrics.note_active(now, running as u64);
        self.pool.count_begun(now);
        let PendingWork {
            work,
            context,
            captured,
            within,
            held,
            begun,
        } = pending;
        if let Some(begun) = begun {
            begun.store(true, Ordering::Relaxed);
        }
        let installed = InstalledContext::install(&state.plugins, context, captured);
        let within = wait_graph::set(within);
        let result = WorkEnd::of(|| {
            state.hook(CallStage::ThreadStart)?;
            state.hook(CallStage::ExecutionStart)?;
            Ok(work(self.flight().token()))
        });
        drop(within);
        self.end(result, held, installed);
    }

    /// Ends the call after its work has returned. `within` is the context that is installed for the
    /// work.
    fn end(&self, result: WorkEnd<T, E>, held: HeldPermits, within: InstalledContext) {
        let state = &*self.shared.state;
        let now = state.now();
        let first = self.flight().finish();
        state.running.fetch_sub(1, Ordering::Relaxed);
        self.pool.count_executed(now);
        if !first {
            self.give_back(held, now);
            // The call has already ended: its caller does not receive this result.
            self.pool.count_abandoned_end();
            discard(result);
            let _ = state.hook(CallStage::ThreadComplete);
            return;
        }
        self.flight().clear_listener();
        self.keep_flight();
        let in_time = now < self.call.deadline();
        // The adaptive limit reads the number of held permits, so this one is given back after the
        // sample.
        if !in_time || matches!(result, WorkEnd::Value(_)) {
            self.sample(now, !in_time);
        }
        self.give_back(held, now);
        let raw = match result {
            WorkEnd::Value(value) if in_time => Ok(value),
            other => {
                let late = (!in_time).then_some(self.call.timeout);
                Err(self.shared.cause_of(other, late))
            }
        };
        let ended = raw.as_ref().map_or_else(Ended::by, |_| Ended::Success);
        state.report(self.call.ticket, self.times(now), ended);
        match &raw {
            Ok(_) => self.shared.emitted(),
            Err(_) if in_time => drop(state.hook(CallStage::ExecutionError)),
            Err(_) => {}
        }
        let _ = state.hook(CallStage::ThreadComplete);
        self.deliver(raw, Some(within));
    }

    /// Returns the times of a call whose work has begun and that ends now.
    fn times(&self, now: u64) -> Times {
        let start = self.call.start;
        let began = self.began.load(Ordering::Relaxed).min(now);
        Times { start, began, now }
    }

    /// Passes the latency to the adaptive limit, which limits the calls that are queued or running.
    fn sample(&self, now: u64, is_dropped: bool) {
        let took = now.saturating_sub(self.call.start);
        self.shared.state.gate.sample(now, took, is_dropped);
    }

    /// Passes the remaining steps of an early end to another thread. They may run user code, which
    /// this thread must not run: it may belong to the timer or to another command. A blocked caller
    /// runs them itself; otherwise a callback thread of the command does.
    fn finish_elsewhere(self: Arc<Self>, early_end: EarlyEnd) {
        let mut parts = lock(&self.parts);
        let waiting = parts.recipient.take_if(|recipient| recipient.is_waiting());
        drop(parts);
        if let Some(Recipient::Caller(promise)) = waiting {
            // Moves the reference into the message: if it is the last one, its drop runs user code.
            let _ = promise.succeed(CallerMessage::EndedEarly(self, early_end));
            return;
        }
        let state = &*self.shared.state;
        let (alarms, aside) = (state.alarms.clone(), Arc::clone(&state.aside));
        let end = PlainTask::named("end of a call", move || self.end_aside(early_end));
        alarms.run_aside(&aside, end);
    }

    /// Ends a call whose caller has a completion. Runs on a callback thread of the command.
    fn end_aside(&self, early_end: EarlyEnd) {
        let cause = self.clean_up(early_end);
        let recipient = lock(&self.parts).recipient.take();
        if let Some(Recipient::Completion(promise, mut options, _place)) = recipient {
            let state = &*self.shared.state;
            let (context, captured) = (options.context.clone(), options.take_captured());
            let _around = InstalledContext::install(&state.plugins, context, captured);
            let answer = self
                .shared
                .end_with(&mut options, self.call.start, Err(cause));
            discard(promise.complete(answer));
        }
    }

    /// Adds the call to the handle of its caller. Returns `false` if the caller has already
    /// cancelled it; this method then ends the call.
    pub(super) fn join(self: &Arc<Self>, handle: &HandleOfCall, is_attempt: bool) -> bool {
        let call: Arc<dyn Cancellable> = Arc::clone(self) as _;
        let joined = handle.add_call(Arc::downgrade(&call), is_attempt);
        joined.map_err(|interrupt| self.cancel(interrupt)).is_ok()
    }

    /// Interrupts the work of a call that was cancelled before without an interrupt.
    fn interrupt_late(&self) {
        let state = &*self.shared.state;
        if state.flags() & INTERRUPTS_ON_CANCEL != 0 && self.flight().word().is_cancelled(self.seen)
        {
            state.interrupt(self.flight().token());
        }
    }

    /// Notifies the caller that its call was cancelled, once.
    fn notify_cancelled(&self, cause: Cause<E>) {
        let Some(recipient) = lock(&self.parts).recipient.take() else {
            return;
        };
        match recipient {
            Recipient::Caller(promise) => {
                drop(promise.succeed(CallerMessage::Ended(Err(cause))));
            }
            Recipient::Completion(promise, mut options, _place) => {
                discard(
                    self.shared
                        .end_with(&mut options, self.call.start, Err(cause)),
                );
                // Has no effect if the caller has cancelled its completion.
                promise.cancel();
            }
        }
    }

    /// Records that the bulkhead has no room for the call, or gave its place to another call.
    fn refuse(&self, refused: Rejection) {
        let state = &*self.shared.state;
        let now = state.now();
        self.flight().clear_listener();
        self.pool.count_rejected(now);
        state.book_denial(&Denied::Refused(refused, self.call.ticket), now);
        self.drop_pending(now);
    }

    /// Notifies the caller, once, on a thread that may run user code. The fallback and the
    /// listeners of a completion run in the context of the work, if there is one.
    fn deliver(&self, raw: WorkAnswer<T, E>, within: Option<InstalledContext>) {
        let Some(recipient) = lock(&self.parts).recipient.take() else {
            return;
        };
        match recipient {
            Recipient::Caller(promise) => {
                // No user code runs on this thread after the caller is notified, so the pool may
                // accept the next call of this caller for it.
                drop(within);
                self.pool.about_to_end();
                drop(promise.succeed(CallerMessage::Ended(raw)));
            }
            Recipient::Completion(promise, mut options, _place) => {
                let answer = self.shared.end_with(&mut options, self.call.start, raw);
                discard(promise.complete(answer));
            }
        }
    }

    /// Removes the job from the queue, if it is still there, and frees its place.
    fn unqueue(&self) {
        let place = self.place.load(Ordering::Relaxed);
        if place != NOWHERE {
            drop(self.pool.take_back(JobKey(place)));
        }
    }

    /// Drops work that will not run.
    fn drop_pending(&self, now: u64) {
        let pending = lock(&self.parts).pending.take();
        if let Some(pending) = pending {
            let PendingWork { held, .. } = pending;
            self.give_back(held, now);
            discard(pending.work);
            discard_all(pending.captured);
        }
    }

    /// Returns the permits, and admits calls that wait for one.
    fn give_back(&self, held: HeldPermits, now: u64) {
        let HeldPermits { permit, place } = held;
        drop(place);
        if permit.is_some() {
            drop(permit);
            self.shared.state.gate.serve_waiters(now);
        }
    }

    /// Makes the call slot available to the next call. This call does not use it any more.
    fn keep_flight(&self) {
        let alarms = &self.shared.state.alarms;
        alarms.keep_flight(Arc::clone(&self.call.flight));
    }
}

/// Ends the call because its caller cancels it.
impl<T: Send + 'static, E: Send + 'static, F: Work<T, E>> Cancellable for ThreadCall<T, E, F> {
    fn cancel(&self, interrupt: Option<Interrupt>) -> CancelOutcome {
        let state = &*self.shared.state;
        let may_interrupt = state.flags() & INTERRUPTS_ON_CANCEL != 0;
        let Some(left) = self.flight().cancel(self.seen) else {
            if interrupt == Some(Interrupt::Yes) {
                self.interrupt_late();
            }
            return CancelOutcome::TooLate;
        };
        if may_interrupt && interrupt != Some(Interrupt::No) {
            state.interrupt(self.flight().token());
        }
        let _ = state.hook(CallStage::Cancelled);
        let why = EarlyEndReason::Cancelled;
        let cause = self.clean_up(EarlyEnd { left, why });
        self.notify_cancelled(cause);
        match left {
            WorkState::Queued => CancelOutcome::NotBegun,
            WorkState::Running => CancelOutcome::Running,
        }
    }

    fn is_over(&self) -> bool {
        let word = self.flight().word();
        !word.is_in_flight(self.seen) && !word.is_cancelled(self.seen)
    }
}

/// Receives the timeout of a call from the timer.
impl<T: Send + 'static, E: Send + 'static, F: Work<T, E>> OnTimeout for ThreadCall<T, E, F> {
    fn expired(self: Arc<Self>, left: WorkState) {
        let why = EarlyEndReason::Expired;
        self.finish_elsewhere(EarlyEnd { left, why });
    }
}

impl<T: Send + 'static, E: Send + 'static, F: Work<T, E>> EarlyEndedCall<E>
    for ThreadCall<T, E, F>
{
    fn clean_up(&self, EarlyEnd { left, why }: EarlyEnd) -> Cause<E> {
        let state = &*self.shared.state;
        let cause = match why {
            EarlyEndReason::Refused(refused) => {
                self.refuse(refused);
                return Cause::Rejected(refused);
            }
            EarlyEndReason::Expired => self.call.late(),
            EarlyEndReason::Cancelled => Cause::Cancelled,
        };
        let ended = Ended::by(&cause);
        let now = state.now();
        self.flight().clear_listener();
        self.unqueue();
        match left {
            WorkState::Queued => {
                let is_late = matches!(why, EarlyEndReason::Expired);
                // The dependency did not get it.
                let settlement = match is_late && !state.breaker.counts_rejections() {
                    true => Settlement::Ignored,
                    false => ended.settlement(),
                };
                state.breaker.settle(self.call.ticket, settlement, now, 0);
                if is_late {
                    self.sample(now, true);
                    self.pool.count_expired(now);
                    state.metrics.count(now, Event::ExpiredInQueue);
                }
                self.drop_pending(now);
            }
            WorkState::Running => {
                self.pool.count_abandoned();
                if ended == Ended::TimedOut {
                    self.sample(now, true);
                }
                state.report(self.call.ticket, self.times(now), ended);
            }
        }
        cause
    }
}

/// A job in the pool's queue. The pool drops it without running it if it displaces the job, or if
/// it drops its queue. The drop then ends the call as rejected.
struct QueuedJob<T: Send + 'static, E: Send + 'static, F: Work<T, E>>(
    Option<Arc<ThreadCall<T, E, F>>>,
);

impl<T: Send + 'static, E: Send + 'static, F: Work<T, E>> QueuedJob<T, E, F> {
    /// Runs the call on a worker thread. The drop of the job then has no effect.
    fn run(mut self) {
        if let Some(call) = self.0.take() {
            call.run();
        }
    }
}

impl<T: Send + 'static, E: Send + 'static, F: Work<T, E>> Drop for QueuedJob<T, E, F> {
    fn drop(&mut self) {
        let Some(call) = self.0.take() else {
            return;
        };
        // This may be a thread of another command, whose call displaced this one.
        if let Some(left) = call.flight().cancel(call.seen) {
            let why = EarlyEndReason::Refused(call.pool.refusal_of_dropped());
            call.finish_elsewhere(EarlyEnd { left, why });
        }
    }
}
