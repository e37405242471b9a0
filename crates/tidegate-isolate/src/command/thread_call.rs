//! A call on threads between its submission and its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::internal::{discard, discard_all};
use tidegate_core::permits::Permit;
use tidegate_core::{CancelToken, Task};
use tidegate_pool::queue::JobKey;
use tidegate_promise::Promise;

use super::admission::{Admission, Denied};
use super::ending::{Ended, Times};
use super::installed_context::InstalledContext;
use super::options::CallOptions;
use super::outcome::{HookRefusal, WorkResult};
use super::shared::Shared;
use crate::bulkhead::Criticality;
use crate::cancel::{CancelOutcome, Cancellable, HandleOfCall, Interrupt};
use crate::error::{Cause, CommandError, Rejection};
use crate::event::Event;
use crate::in_flight::{Flight, OnTimeout, SeenCall, WorkState};
use crate::isolation::RegisteredPool;
use crate::isolation::state::INTERRUPTS_ON_CANCEL;
use crate::plugin::{CallStage, Install};
use crate::request::RequestContext;
use crate::request::wait_graph::{self, RunId};

/// No place in the queue.
const NOWHERE: u64 = u64::MAX;
/// The result of the work: its value, or the cause if there is none.
pub(super) type WorkAnswer<T, E> = Result<T, Cause<E>>;

/// The message to a caller that waits.
pub(super) enum CallerMessage<T, E> {
    /// The work has ended.
    Ended(WorkAnswer<T, E>),
    /// The call was ended from outside. The caller cleans up after it.
    EndedEarly(Arc<dyn EarlyEndedCall<E>>, EarlyEnd),
}

/// A call that was ended from outside.
pub(super) trait EarlyEndedCall<E>: Send + Sync {
    /// Counts the end of the call and drops work that has not started, on a thread that may run
    /// user code. Returns the cause.
    fn clean_up(&self, early_end: EarlyEnd) -> Cause<E>;
}

/// How a call was ended from outside.
#[derive(Clone, Copy)]
pub(super) struct EarlyEnd {
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
    /// The caller waits, and runs the remaining steps itself.
    Caller(Promise<CallerMessage<T, E>, CommandError<E>>),
    /// The caller has a completion. The call holds a place on the callback threads for its end.
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

/// A call between its submission and its end.
pub(super) struct ThreadCall<T: Send + 'static, E: Send + 'static, F> {
    shared: Arc<Shared<T, E>>,
    pool: Arc<RegisteredPool>,
    call: Admission,
    /// Identifies this call among those that the call slot serves.
    seen: SeenCall,
    /// When the work began. Written by the worker before it starts.
    began: AtomicU64,
    /// The key of the job in the pool's queue. Written after the job was queued.
    place: AtomicU64,
    /// Taken by the worker that starts the work, or by the thread that cleans up a call that ended
    /// before.
    pending: Mutex<Option<PendingWork<F>>>,
    /// Taken by the thread that notifies the caller.
    recipient: Mutex<Option<Recipient<T, E>>>,
}

/// The work of a call, and what the worker needs to run it.
pub(super) struct PendingWork<F> {
    pub(super) work: F,
    pub(super) context: Option<RequestContext>,
    pub(super) captured: Vec<Install>,
    /// The shared runs that the work belongs to.
    pub(super) within: Vec<RunId>,
    pub(super) held: HeldPermits,
}

impl<T, E, F> ThreadCall<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
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
            pending: Mutex::new(Some(pending)),
            recipient: Mutex::new(Some(recipient)),
        })
    }

    pub(super) fn flight(&self) -> &Flight {
        &self.call.flight
    }

    /// Registers the call as the receiver of its timeout and of a cancellation by its caller.
    pub(super) fn listen(self: &Arc<Self>) {
        self.flight()
            .set_timeout_target(Arc::clone(self) as Arc<dyn OnTimeout>);
        if let Some(Recipient::Completion(promise, ..)) = &*self.recipient() {
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
        match self.pool.submit(task, criticality, &self.shared.state.key) {
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
                // This thread reports the rejection. If no other thread has ended the call, this
                // thread ends it here, and the drop of the job finds that it has ended.
                let mine = self.flight().word().start() && self.flight().finish();
                let why = refused.why();
                drop(refused);
                if mine {
                    let refused = self.pool.refusal_of(why);
                    self.refuse(refused);
                    self.keep_flight();
                    return Err((Cause::Rejected(refused), self.recipient().take()));
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
        let Some(pending) = self.pending().take() else {
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
        } = pending;
        let installed = InstalledContext::install(&state.plugins, context, captured);
        let within = wait_graph::set(within);
        let result: WorkResult<T, E> = tidegate_core::internal::contain(|| {
            state.hook(CallStage::ThreadStart).map_err(HookRefusal)?;
            state.hook(CallStage::ExecutionStart).map_err(HookRefusal)?;
            Ok(work(self.flight().token()))
        });
        drop(within);
        self.end(result, held, installed);
    }

    /// Ends the call after its work. `within` is the context that is installed for the work.
    fn end(&self, result: WorkResult<T, E>, held: HeldPermits, within: InstalledContext) {
        let state = &*self.shared.state;
        let now = state.now();
        let first = self.flight().finish();
        state.running.fetch_sub(1, Ordering::Relaxed);
        self.pool.count_executed(now);
        if !first {
            self.give_back(held, now);
            // The call was ended from outside: its caller does not receive this result.
            self.pool.count_abandoned_end();
            discard(result);
            let _ = state.hook(CallStage::ThreadComplete);
            return;
        }
        self.flight().clear_listener();
        self.keep_flight();
        let in_time = now < self.call.deadline();
        // Sampled while the permit still counts as held.
        self.sample(now, !in_time);
        self.give_back(held, now);
        let raw = match result {
            Ok(Ok(Ok(value))) if in_time => Ok(value),
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

    /// Continues the end of a call that was ended from outside. The next steps may run user code,
    /// which this thread must not run. The caller runs them if it waits; otherwise a callback
    /// thread of the command does.
    fn depart(self: Arc<Self>, early_end: EarlyEnd) {
        let mut recipient = self.recipient();
        if let Some(Recipient::Caller(promise)) =
            recipient.take_if(|recipient| recipient.is_waiting())
        {
            drop(recipient);
            // Moves this reference: the last one must not be dropped on this thread.
            let _ = promise.succeed(CallerMessage::EndedEarly(self, early_end));
            return;
        }
        drop(recipient);
        let state = &*self.shared.state;
        let (alarms, aside) = (state.alarms.clone(), Arc::clone(&state.aside));
        let end = Task::named("end of a call", move || self.end_aside(early_end));
        alarms.run_aside(&aside, end);
    }

    /// Ends a call whose caller does not wait, on a callback thread of the command.
    fn end_aside(&self, early_end: EarlyEnd) {
        let cause = self.clean_up(early_end);
        let recipient = self.recipient().take();
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

    /// Adds the call to the handle of its caller, after it has begun. Returns `false` if the caller
    /// has cancelled it before: the call has ended then.
    pub(super) fn join(self: &Arc<Self>, handle: &HandleOfCall, is_attempt: bool) -> bool {
        let call: Arc<dyn Cancellable> = Arc::clone(self) as _;
        let joined = handle.add_call(Arc::downgrade(&call), is_attempt);
        joined
            .map_err(|maybe_options| self.cancel(maybe_options))
            .is_ok()
    }

    /// Interrupts the work because its caller asked for it, after an earlier cancel did not.
    fn interrupt_late(&self) {
        let state = &*self.shared.state;
        if state.flags() & INTERRUPTS_ON_CANCEL != 0 && self.flight().word().is_cancelled(self.seen)
        {
            state.interrupt(self.flight().token());
        }
    }

    /// Notifies the caller that its call was cancelled, once.
    fn tell_cancelled(&self, cause: Cause<E>) {
        let Some(recipient) = self.recipient().take() else {
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
        state.book_denial(&Denied::Refused(refused, self.call.ticket), (now, now));
        self.drop_pending(now);
    }

    /// Notifies the caller, once, on a thread that may run user code. The fallback and the
    /// listeners of a completion run in the context of the work, if there is one.
    fn deliver(&self, raw: WorkAnswer<T, E>, within: Option<InstalledContext>) {
        let Some(recipient) = self.recipient().take() else {
            return;
        };
        match recipient {
            Recipient::Caller(promise) => {
                // No user code runs on this thread after the caller is notified, so the thread is
                // almost idle.
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
        let pending = self.pending().take();
        if let Some(pending) = pending {
            let PendingWork { held, .. } = pending;
            self.give_back(held, now);
            discard(pending.work);
            discard_all(pending.captured);
        }
    }

    fn give_back(&self, held: HeldPermits, now: u64) {
        let HeldPermits { permit, place } = held;
        drop(place);
        if permit.is_some() {
            drop(permit);
            self.shared.state.gate.serve_waiters(now);
        }
    }

    /// Keeps the call slot for another call. This call does not use it any more.
    fn keep_flight(&self) {
        let alarms = &self.shared.state.alarms;
        alarms.keep_flight(Arc::clone(&self.call.flight));
    }

    fn recipient(&self) -> MutexGuard<'_, Option<Recipient<T, E>>> {
        self.recipient
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Option<PendingWork<F>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the call because its caller cancels it.
impl<T, E, F> Cancellable for ThreadCall<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    fn cancel(&self, maybe_options: Option<Interrupt>) -> CancelOutcome {
        let state = &*self.shared.state;
        let may_interrupt = state.flags() & INTERRUPTS_ON_CANCEL != 0;
        let Some(left) = self.flight().cancel(self.seen) else {
            if maybe_options == Some(Interrupt::Yes) {
                self.interrupt_late();
            }
            return CancelOutcome::TooLate;
        };
        if may_interrupt && maybe_options != Some(Interrupt::No) {
            state.interrupt(self.flight().token());
        }
        let _ = state.hook(CallStage::Cancelled);
        let why = EarlyEndReason::Cancelled;
        let cause = self.clean_up(EarlyEnd { left, why });
        self.tell_cancelled(cause);
        match left {
            WorkState::Queued => CancelOutcome::NotBegun,
            WorkState::Running => CancelOutcome::Running,
        }
    }

    fn has_begun(&self) -> bool {
        self.began.load(Ordering::Relaxed) != u64::MAX
    }

    fn is_over(&self) -> bool {
        let word = self.flight().word();
        !word.is_in_flight(self.seen) && !word.is_cancelled(self.seen)
    }
}

/// Receives the timeout of a call from the timer.
impl<T, E, F> OnTimeout for ThreadCall<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    fn expired(self: Arc<Self>, left: WorkState) {
        let why = EarlyEndReason::Expired;
        self.depart(EarlyEnd { left, why });
    }
}

impl<T, E, F> EarlyEndedCall<E> for ThreadCall<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
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
                let settlement = ended.settlement();
                state.breaker.settle(self.call.ticket, settlement, now, 0);
                if matches!(why, EarlyEndReason::Expired) {
                    self.sample(now, true);
                    self.pool.count_expired(now);
                    state.metrics.count(now, Event::ExpiredInQueue);
                    if self.place.load(Ordering::Relaxed) == NOWHERE {
                        self.pool.not_run();
                    }
                }
                self.drop_pending(now);
            }
            WorkState::Running => {
                self.pool.count_abandoned();
                self.sample(now, ended == Ended::TimedOut);
                state.report(self.call.ticket, self.times(now), ended);
            }
        }
        cause
    }
}

/// A job in the pool's queue. If it is dropped there, it was displaced or the pool dropped its
/// queue. The drop then ends the call as rejected.
struct QueuedJob<T, E, F>(Option<Arc<ThreadCall<T, E, F>>>)
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static;

impl<T, E, F> QueuedJob<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    /// Runs the call on a worker thread. From here on the call itself notifies its caller.
    fn run(mut self) {
        if let Some(call) = self.0.take() {
            call.run();
        }
    }
}

impl<T, E, F> Drop for QueuedJob<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    fn drop(&mut self) {
        let Some(call) = self.0.take() else {
            return;
        };
        // This may be a thread of the command that took the place.
        if let Some(left) = call.flight().cancel(call.seen) {
            let why = EarlyEndReason::Refused(call.pool.refusal_of_dropped());
            call.depart(EarlyEnd { left, why });
        }
    }
}
