//! A call on threads of its own.
//!
//! Three may end a call: the worker when the work has ended, the timer when its time is over, the
//! caller when it leaves. The word of its [`Flight`] decides who: exactly one. Whoever it is
//! counts the outcome and tells the caller; the others do nothing but clean up after themselves.
//! A job that is still queued when the caller has gone is taken out at once; one that runs is
//! told through its token, keeps its thread until it returns, and is counted as overstaying.
//!
//! The timer's thread only marks: fallbacks run on the caller's thread if it waits, and beside the
//! timer if it does not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use tidegate_exec::JobHandle;
use tidegate_promise::{Completion, promise_of};
use tidegate_sync::{CancelToken, Permit, Task, check_stance};

use super::call::Options;
use super::outcome::Story;
use super::run::{Ran, Refusal, late};
use super::state::{GATED, INTERRUPTS, INTERRUPTS_ON_CANCEL, RATED, State, THREADS, WATCHED};
use super::{CommandError, Shared};
use crate::alarm::Flight;
use crate::breaker::{Ticket, Verdict};
use crate::bulkhead::ThreadBulkhead;
use crate::context::{Entered, RequestContext};
use crate::plugin::{Install, contain};
use crate::{Cause, Event, Refused, Stage};

/// Not begun yet.
const QUEUED: u64 = u64::MAX;
/// Over before it began.
const ABANDONED: u64 = u64::MAX - 1;

/// What the caller is told: the answer, or why there is none of the work's own.
type Raw<T, E> = Result<T, Cause<E>>;
type Tell<T, E> = Box<dyn FnOnce(Raw<T, E>, By) + Send>;

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Worker,
    Timer,
    Caller,
}

/// A call between its submission and its end.
struct Flying<T, E> {
    state: Arc<State>,
    pool: Arc<ThreadBulkhead>,
    flight: Arc<Flight>,
    ticket: Ticket,
    start: u64,
    timeout: u64,
    deadline: u64,
    /// When the work began; `QUEUED` before that, `ABANDONED` if it never will. Who leaves `QUEUED`
    /// first decides whether the work runs.
    began: AtomicU64,
    /// How the job is taken out of the queue. Set once it is there.
    handle: Mutex<Option<JobHandle>>,
    /// Called by whoever ends the call.
    tell: Mutex<Option<Tell<T, E>>>,
    /// Held until the work has really ended.
    permit: Mutex<Option<Permit>>,
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    pub(super) fn run_on_threads<F>(
        self: &Arc<Self>,
        options: Options<T, E>,
        work: F,
    ) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        let start = self.state.now();
        if check_stance(None).is_err() {
            let cause = Cause::Rejected(Refused::Waiting);
            return self.failed(Story::new(start), options, cause);
        }
        let (promise, raw) = promise_of::<Raw<T, E>, CommandError<E>>();
        let tell: Tell<T, E> = Box::new(move |raw, _| drop(promise.succeed(raw)));
        let flying = self.begin_on_threads(&options, start, work, tell);
        let raw = match flying {
            Ok(_) => raw.wait().unwrap_or(Err(Cause::Cancelled)),
            Err(cause) => Err(cause),
        };
        self.end_with(options, start, raw)
    }

    pub(super) fn queue_on_threads<F>(
        self: &Arc<Self>,
        options: Options<T, E>,
        work: F,
    ) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        let start = self.state.now();
        let (promise, answer) = promise_of::<T, CommandError<E>>();
        let promise = Arc::new(promise.share());
        let (shared, done) = (Arc::clone(self), Arc::clone(&promise));
        let kept = Arc::new(Mutex::new(Some(options)));
        let take = |kept: &Mutex<Option<Options<T, E>>>| {
            let options = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
            options.expect("a call ends once")
        };
        let for_end = Arc::clone(&kept);
        let tell: Tell<T, E> = Box::new(move |raw, by| {
            let options = take(&for_end);
            let aside = Arc::clone(&shared);
            let finish = move |raw| drop(done.try_complete(shared.end_with(options, start, raw)));
            match (raw, by) {
                // Only marked here: a fallback may take its time.
                (Err(cause), By::Timer) => aside.run_aside(cause, finish),
                (raw, _) => finish(raw),
            }
        });
        let begun = {
            let options = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let options = options.as_ref().map(Brief::of);
            let options = options.expect("nobody has ended the call yet");
            self.begin_brief(&options, start, work, tell)
        };
        match begun {
            Ok(flying) => promise.on_cancel(move || flying.cancel()),
            Err(cause) => {
                let options = take(&kept);
                let _ = promise.try_complete(self.end_with(options, start, Err(cause)));
            }
        }
        answer
    }

    fn begin_on_threads<F>(
        self: &Arc<Self>,
        options: &Options<T, E>,
        start: u64,
        work: F,
        tell: Tell<T, E>,
    ) -> Result<Arc<Flying<T, E>>, Cause<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        self.begin_brief(&Brief::of(options), start, work, tell)
    }

    /// Takes everything that the call needs and hands it over, or says why not.
    fn begin_brief<F>(
        self: &Arc<Self>,
        options: &Brief,
        start: u64,
        work: F,
        tell: Tell<T, E>,
    ) -> Result<Arc<Flying<T, E>>, Cause<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        let state = &self.state;
        let flags = state.flags();
        if flags & (WATCHED | RATED) != 0 {
            self.may_begin(start, flags & !THREADS)?;
        }
        let Some(pool) = &state.threads else {
            return Err(Cause::Rejected(Refused::Closed));
        };
        let ticket = state.breaker.try_ticket(start);
        let ticket = ticket.map_err(|open| Cause::ShortCircuited(open.retry_after))?;
        let permit = if flags & GATED != 0 {
            let permit = state.gate.try_enter_owned(options.criticality);
            Some(permit.ok_or_else(|| {
                state.breaker.settle(ticket, Verdict::Failure, start, 0);
                state.gate.sample(start, 0, true);
                Cause::Rejected(Refused::Permits)
            })?)
        } else {
            None
        };
        let timeout = options.timeout.unwrap_or(state.timeout());
        let flying = Arc::new(Flying {
            state: Arc::clone(state),
            pool: Arc::clone(pool),
            flight: state.alarms.take_flight(),
            ticket,
            start,
            timeout,
            deadline: start.saturating_add(timeout),
            began: AtomicU64::new(QUEUED),
            handle: Mutex::new(None),
            tell: Mutex::new(Some(tell)),
            permit: Mutex::new(permit),
        });
        flying.flight.set_waker(&Waker::from(Arc::clone(&flying)));
        let interrupts = flags & INTERRUPTS != 0;
        state
            .alarms
            .arm(&flying.flight, flying.deadline, interrupts);
        self.hand_over(flying, options, work)
    }

    fn hand_over<F>(
        self: &Arc<Self>,
        flying: Arc<Flying<T, E>>,
        options: &Brief,
        work: F,
    ) -> Result<Arc<Flying<T, E>>, Cause<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        let context = options.context.clone().or_else(RequestContext::current);
        let captured = self.state.plugins.propagators.iter();
        let captured: Vec<Install> = captured
            .filter_map(|propagator| contain(|| propagator.capture()).ok())
            .collect();
        let (shared, mine) = (Arc::clone(self), Arc::clone(&flying));
        let queued = Queued(Some(Arc::clone(&flying)));
        let task = Task::labelled::<F, _>(move || {
            queued.started();
            if mine.begin() {
                let surroundings = Surroundings::install(context, captured);
                shared.work(&mine, work);
                drop(surroundings);
            }
        });
        match flying.pool.submit(task, options.criticality) {
            Ok(handle) => {
                *flying.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
                if flying.flight.is_over() {
                    flying.unqueue();
                }
                Ok(flying)
            }
            Err(refused) => {
                // This thread tells; the drop of the job finds nobody to tell.
                let tell = flying.take_tell();
                flying.flight.cancel(false);
                drop(refused);
                drop(tell);
                flying.refuse();
                Err(Cause::Rejected(Refused::Pool))
            }
        }
    }

    /// Runs the work on the thread that it has.
    fn work<F>(&self, flying: &Flying<T, E>, work: F)
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        let state = &*self.state;
        let result: Ran<T, E> = catch_unwind(AssertUnwindSafe(|| {
            state.hook(Stage::ThreadStart).map_err(Refusal)?;
            state.hook(Stage::ExecutionStart).map_err(Refusal)?;
            Ok(work(flying.flight.token()))
        }));
        let now = state.now();
        let first = flying.flight.finish();
        flying.flight.clear_waker();
        flying.ended(now, first);
        if !first {
            // Somebody else has told the caller; what came of it is dropped here.
            drop(contain(|| drop(result)));
            let _ = state.hook(Stage::ThreadComplete);
            return;
        }
        let in_time = now < flying.deadline;
        let raw = match result {
            Ok(Ok(Ok(value))) if in_time => Ok(value),
            other => Err(self.cause_of(other, in_time, flying.timeout)),
        };
        flying.record(now, raw.as_ref().err());
        if raw.is_err() && in_time {
            let _ = state.hook(Stage::ExecutionError);
        }
        let _ = state.hook(Stage::ThreadComplete);
        if let Some(tell) = flying.take_tell() {
            tell(raw, By::Worker);
        }
    }

    /// Turns what became of the work into what the caller gets.
    fn end_with(
        &self,
        options: Options<T, E>,
        start: u64,
        raw: Raw<T, E>,
    ) -> Result<T, CommandError<E>> {
        match raw {
            Ok(value) => {
                if self.is_watched(self.state.flags(), &options) {
                    self.succeeded(Story::until(start, self.state.now()), options);
                }
                Ok(value)
            }
            Err(cause) => self.failed(Story::until(start, self.state.now()), options, cause),
        }
    }

    fn run_aside(&self, cause: Cause<E>, finish: impl FnOnce(Raw<T, E>) + Send + 'static) {
        let task = Task::named("fallback", move || finish(Err(cause)));
        if let Err(task) = self.state.alarms.run_aside(task) {
            // No room beside: late is better than never.
            task.run();
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Flying<T, E> {
    /// Marks that the work begins; false when the call is over already.
    fn begin(&self) -> bool {
        let now = self.state.now();
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        if self.flight.is_over() || self.began.compare_exchange(QUEUED, now, won, lost).is_err() {
            return false;
        }
        let running = self.state.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.state.metrics.note_active(now, running as u64);
        true
    }

    /// Cleans up after work that has ended.
    fn ended(&self, now: u64, was_first: bool) {
        self.state.running.fetch_sub(1, Ordering::Relaxed);
        self.pool.count_executed(now);
        if !was_first {
            self.pool.leave();
        }
        self.give_permit(now);
    }

    /// Counts the end of work that ran.
    fn record(&self, now: u64, cause: Option<&Cause<E>>) {
        let state = &*self.state;
        let began = self.began.load(Ordering::Relaxed).min(now);
        let (wait, run) = (began.saturating_sub(self.start), now - began);
        let total = now.saturating_sub(self.start);
        state.metrics.record(now, wait, run, total);
        let verdict = match cause {
            None => {
                state.metrics.count(now, Event::Success);
                Verdict::Success
            }
            Some(Cause::BadRequest(_)) => Verdict::Ignored,
            Some(Cause::Cancelled) => Verdict::Dropped,
            Some(_) => Verdict::Failure,
        };
        state.breaker.settle(self.ticket, verdict, now, run);
        let timed_out = matches!(cause, Some(Cause::TimedOut(_)));
        state.gate.sample(now, total, timed_out);
    }

    /// Ends a call that is over while its work waits or runs.
    fn leave(&self, cause: Cause<E>, by: By) {
        let now = self.state.now();
        self.flight.clear_waker();
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        let began = self.began.compare_exchange(QUEUED, ABANDONED, won, lost);
        self.unqueue();
        if began.is_ok() {
            let verdict = match by {
                By::Timer => Verdict::Failure,
                _ => Verdict::Dropped,
            };
            self.state.breaker.settle(self.ticket, verdict, now, 0);
            if by == By::Timer {
                self.pool.count_expired(now);
                self.state.metrics.count(now, Event::ExpiredInQueue);
            }
            self.give_permit(now);
        } else {
            self.pool.overstay();
            self.record(now, Some(&cause));
        }
        if let Some(tell) = self.take_tell() {
            tell(Err(cause), by);
        }
    }

    /// The caller leaves.
    fn cancel(&self) {
        let interrupt = self.state.flags() & INTERRUPTS_ON_CANCEL != 0;
        if self.flight.cancel(interrupt) {
            let _ = self.state.hook(Stage::Cancelled);
            self.leave(Cause::Cancelled, By::Caller);
        }
    }

    /// The bulkhead has no room for the call, or gave its place to another.
    fn refuse(&self) {
        let now = self.state.now();
        self.flight.clear_waker();
        self.pool.count_rejected(now);
        self.state
            .breaker
            .settle(self.ticket, Verdict::Failure, now, 0);
        self.state.gate.sample(now, 0, true);
        self.give_permit(now);
    }

    /// Takes the job out of the queue, if it lies there, and frees its place.
    fn unqueue(&self) {
        let handle = self
            .handle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let task = handle.and_then(|handle| handle.remove());
        drop(task);
    }

    fn give_permit(&self, now: u64) {
        let permit = self
            .permit
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if permit.is_some() {
            drop(permit);
            self.state.gate.after_leaving(now);
        }
    }

    fn take_tell(&self) -> Option<Tell<T, E>> {
        self.tell
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// The timer's way to a call whose time is over.
impl<T: Send + 'static, E: Send + 'static> Wake for Flying<T, E> {
    fn wake(self: Arc<Self>) {
        if self.flight.is_expired() {
            self.leave(late(self.timeout), By::Timer);
        }
    }
}

/// A job in the queue. Dropped there, it was displaced or given up: the caller hears of it.
struct Queued<T: Send + 'static, E: Send + 'static>(Option<Arc<Flying<T, E>>>);

impl<T: Send + 'static, E: Send + 'static> Queued<T, E> {
    /// The job has a thread: from here on the work itself tells.
    fn started(mut self) {
        self.0 = None;
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Queued<T, E> {
    fn drop(&mut self) {
        let Some(flying) = self.0.take() else {
            return;
        };
        if flying.flight.cancel(false) {
            flying.refuse();
            if let Some(tell) = flying.take_tell() {
                tell(Err(Cause::Rejected(Refused::Pool)), By::Timer);
            }
        }
    }
}

/// What a submission needs to know of a call's options.
struct Brief {
    timeout: Option<u64>,
    criticality: crate::Criticality,
    context: Option<RequestContext>,
}

impl Brief {
    fn of<T, E>(options: &Options<T, E>) -> Self {
        Self {
            timeout: options.timeout,
            criticality: options.criticality,
            context: options.context.clone(),
        }
    }
}

/// What the calling thread had, on the working thread; dropping it puts back what was there.
struct Surroundings {
    restore: Vec<crate::plugin::Restore>,
    _context: Entered,
}

impl Surroundings {
    fn install(context: Option<RequestContext>, captured: Vec<Install>) -> Self {
        let context = Entered::set(context);
        let restore = captured
            .into_iter()
            .filter_map(|install| contain(install).ok());
        Self {
            restore: restore.collect(),
            _context: context,
        }
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        // Backwards: the last that was installed is the first to go.
        while let Some(restore) = self.restore.pop() {
            let _ = contain(restore);
        }
    }
}
