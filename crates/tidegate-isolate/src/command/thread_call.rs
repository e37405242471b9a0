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
/// What the caller is told: the answer, or why there is none of the work's own.
pub(super) type WorkAnswer<T, E> = Result<T, Cause<E>>;

/// What a caller that waits is told.
pub(super) enum CallerMessage<T, E> {
    /// The work has ended.
    Ended(WorkAnswer<T, E>),
    /// The call was ended from outside: the caller cleans up after it.
    EndedEarly(Arc<dyn EarlyEndedCall<E>>, EarlyEnd),
}

/// A call that was ended from outside.
pub(super) trait EarlyEndedCall<E>: Send + Sync {
    /// Counts the end and drops the work, on a thread that may run user code; returns why.
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
    /// The queue gave its place to another call, or was given up.
    Refused(Rejection),
}

/// How the caller hears of the end.
pub(super) enum Recipient<T: Send + 'static, E: Send + 'static> {
    /// It waits, and does the rest itself.
    Caller(Promise<CallerMessage<T, E>, CommandError<E>>),
    /// It has a completion, and the call a place on the command's threads for its end.
    Completion(Promise<T, CommandError<E>>, CallOptions<T, E>, Permit),
}

impl<T: Send + 'static, E: Send + 'static> Recipient<T, E> {
    fn is_waiting(&self) -> bool {
        matches!(self, Self::Caller(_))
    }
}

/// The call was submitted, or why not; then with its recipient.
pub(super) type SubmitResult<T, E> = Result<(), (Cause<E>, Option<Recipient<T, E>>)>;

/// What a call holds until its work has really ended.
#[derive(Default)]
pub(super) struct HeldPermits {
    /// Of the gate, if the command has one.
    pub(super) permit: Option<Permit>,
    /// Of the pool, if it is parted.
    pub(super) place: Option<Permit>,
}

/// A call between its submission and its end.
pub(super) struct ThreadCall<T: Send + 'static, E: Send + 'static, F> {
    shared: Arc<Shared<T, E>>,
    pool: Arc<RegisteredPool>,
    call: Admission,
    /// Names this call of the flight, which may serve others later.
    seen: SeenCall,
    /// When the work began. Written by the worker before it starts.
    began: AtomicU64,
    /// Where the job lies in the pool's queue. Written once it is there.
    place: AtomicU64,
    /// Taken by the worker that starts, or by whoever ends the call before that.
    pending: Mutex<Option<PendingWork<F>>>,
    /// Taken by whoever ends the call.
    recipient: Mutex<Option<Recipient<T, E>>>,
}

/// What a worker takes along.
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

    /// Hears of the end of the time, and of a caller that cancels.
    pub(super) fn listen(self: &Arc<Self>) {
        self.flight().tell(Arc::clone(self) as Arc<dyn OnTimeout>);
        if let Some(Recipient::Completion(promise, ..)) = &*self.recipient() {
            let call = Arc::clone(self);
            promise.on_cancel(move || call.cancel());
        }
    }

    /// Gives the job to the pool; returns the recipient if there is no room.
    pub(super) fn hand_over(self: &Arc<Self>, criticality: Criticality) -> SubmitResult<T, E> {
        let queued = QueuedJob(Some(Arc::clone(self)));
        let task = Task::labelled::<F, _>(move || queued.run());
        match self.pool.submit(task, criticality) {
            Ok(None) => Ok(()),
            Ok(Some(JobKey(place))) => {
                // Either whoever leaves finds the place, or this finds that the call was left.
                self.place.store(place, Ordering::Relaxed);
                if self.flight().word().is_left() {
                    self.unqueue();
                }
                Ok(())
            }
            Err(refused) => {
                // This thread tells. If nobody was faster the call ends as one that never was, and
                // the drop of the job finds it over.
                let mine = self.flight().word().start() && self.flight().finish();
                drop(refused);
                if mine {
                    let refused = self.pool.refusal();
                    self.refuse(refused);
                    self.keep_flight();
                    return Err((Cause::Rejected(refused), self.recipient().take()));
                }
                Ok(())
            }
        }
    }

    /// Runs the work on the thread that it has.
    fn run(&self) {
        let state = &*self.shared.state;
        let now = state.now();
        self.began.store(now, Ordering::Relaxed);
        if !self.flight().word().start() {
            // The call is over; whoever ended it has cleaned up.
            return;
        }
        let Some(pending) = self.pending().take() else {
            unreachable!("only the worker that starts takes it");
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

    /// The work has ended, with this context installed.
    fn end(&self, result: WorkResult<T, E>, held: HeldPermits, within: InstalledContext) {
        let state = &*self.shared.state;
        let now = state.now();
        let first = self.flight().finish();
        state.running.fetch_sub(1, Ordering::Relaxed);
        self.pool.count_executed(now);
        if !first {
            self.give_back(held, now);
            // Somebody else has told the caller; what came of it is dropped here.
            self.pool.leave();
            discard(result);
            let _ = state.hook(CallStage::ThreadComplete);
            return;
        }
        self.flight().clear_listener();
        self.keep_flight();
        let in_time = now < self.call.deadline();
        // Sampled while its permit still counts as held.
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
        self.tell(raw, Some(within));
    }

    /// When the call was made, when its work began, which it has, and that it ends now.
    fn times(&self, now: u64) -> Times {
        let start = self.call.start;
        let began = self.began.load(Ordering::Relaxed).min(now);
        Times { start, began, now }
    }

    /// Feeds the adaptive limit, which bounds what is queued or runs.
    fn sample(&self, now: u64, is_dropped: bool) {
        let took = now.saturating_sub(self.call.start);
        self.shared.state.gate.sample(now, took, is_dropped);
    }

    /// The call was ended from outside. What follows may run user code, and this thread must not:
    /// the caller goes on if it waits, and else a thread that the command has for that.
    fn depart(self: Arc<Self>, early_end: EarlyEnd) {
        let mut recipient = self.recipient();
        if let Some(Recipient::Caller(promise)) =
            recipient.take_if(|recipient| recipient.is_waiting())
        {
            drop(recipient);
            // With this reference: the last one must not be dropped here.
            let _ = promise.succeed(CallerMessage::EndedEarly(self, early_end));
            return;
        }
        drop(recipient);
        let state = &*self.shared.state;
        let (alarms, aside) = (state.alarms.clone(), Arc::clone(&state.aside));
        let end = Task::named("end of a call", move || self.end_aside(early_end));
        alarms.run_aside(&aside, end);
    }

    /// Ends a call whose caller does not wait, on a thread of the command.
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

    /// The caller leaves.
    fn cancel(&self) {
        let state = &*self.shared.state;
        let interrupt = state.flags() & INTERRUPTS_ON_CANCEL != 0;
        if let Some(left) = self.flight().cancel(self.seen) {
            if interrupt {
                let token = self.flight().token();
                token.cancel_without_hooks();
                token.run_hooks_to(&state.key, &state.plugins.unhandled);
            }
            let _ = state.hook(CallStage::Cancelled);
            let why = EarlyEndReason::Cancelled;
            let cause = self.clean_up(EarlyEnd { left, why });
            self.tell(Err(cause), None);
        }
    }

    /// The bulkhead has no room for the call, or gave its place to another.
    fn refuse(&self, refused: Rejection) {
        let state = &*self.shared.state;
        let now = state.now();
        self.flight().clear_listener();
        self.pool.count_rejected(now);
        state.book_denial(&Denied::Refused(refused, self.call.ticket), (now, now));
        self.drop_pending(now);
    }

    /// Tells the caller, once, on a thread that may run its code. What it hears of runs in the
    /// context of the work, if any.
    fn tell(&self, raw: WorkAnswer<T, E>, within: Option<InstalledContext>) {
        let Some(recipient) = self.recipient().take() else {
            return;
        };
        match recipient {
            Recipient::Caller(promise) => {
                // Nothing of a user's runs here after the caller has heard: the thread is as good
                // as idle.
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

    /// Takes the job out of the queue, if it lies there, and frees its place.
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
            self.shared.state.gate.after_leaving(now);
        }
    }

    /// Lets the flight serve another call; nothing of this one touches it any more.
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

/// The timer's way to a call whose time is over.
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
                }
                self.drop_pending(now);
            }
            WorkState::Running => {
                self.pool.overstay();
                self.sample(now, ended == Ended::TimedOut);
                state.report(self.call.ticket, self.times(now), ended);
            }
        }
        cause
    }
}

/// A job in the queue. Dropped there, it was displaced or given up: the caller hears of it.
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
    /// The job has a thread: from here on the work itself tells.
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
        // On the thread of whichever command took the place.
        if let Some(left) = call.flight().cancel(call.seen) {
            let why = EarlyEndReason::Refused(call.pool.refusal());
            call.depart(EarlyEnd { left, why });
        }
    }
}
