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
//!
//! A call allocates once, for its [`Trip`]: the job in the pool's queue, the timer's waker and the
//! caller's way to cancel are all references to it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use tidegate_exec::JobKey;
use tidegate_promise::{Completion, Promise, promise_of};
use tidegate_sync::{CancelToken, Left, Permit, Task, UnderWay, check_stance};

use super::call::{Asked, Options};
use super::outcome::Story;
use super::run::{Ran, Refusal, late};
use super::state::{GATED, INTERRUPTS, INTERRUPTS_ON_CANCEL, RATED, THREADS, WATCHED};
use super::surroundings::Surroundings;
use super::{CommandError, Shared};
use crate::alarm::Flight;
use crate::breaker::{Ticket, Verdict};
use crate::bulkhead::ThreadBulkhead;
use crate::context::RequestContext;
use crate::plugin::{Install, contain};
use crate::{Cause, Criticality, Event, Refused, Stage};

/// No place in the queue.
const NOWHERE: u64 = u64::MAX;

/// What the caller is told: the answer, or why there is none of the work's own.
type Raw<T, E> = Result<T, Cause<E>>;

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Worker,
    Timer,
    Caller,
}

/// How the caller hears of the end.
enum Teller<T: Send + 'static, E: Send + 'static> {
    /// It waits, and does the rest itself.
    Caller(Promise<Raw<T, E>, CommandError<E>>),
    /// It has a completion.
    Answer(Promise<T, CommandError<E>>, Options<T, E>),
}

/// The call is under way, or why not; then with the caller's ear.
type Begun<T, E> = Result<(), (Cause<E>, Option<Teller<T, E>>)>;
/// What a call was let through with.
type Admitted<'a> = (&'a Arc<ThreadBulkhead>, Ticket, Held);

/// What a call holds until its work has really ended.
#[derive(Default)]
struct Held {
    /// Of the gate, if the command has one.
    permit: Option<Permit>,
    /// Of the pool, if it is parted.
    place: Option<Permit>,
}

/// A call between its submission and its end.
struct Trip<T: Send + 'static, E: Send + 'static, F> {
    shared: Arc<Shared<T, E>>,
    pool: Arc<ThreadBulkhead>,
    flight: Arc<Flight>,
    /// Names this call of the flight, which may serve others later.
    seen: UnderWay,
    ticket: Ticket,
    start: u64,
    timeout: u64,
    deadline: u64,
    /// When the work began. Written by the worker before it starts.
    began: AtomicU64,
    /// Where the job lies in the pool's queue. Written once it is there.
    place: AtomicU64,
    /// Taken by the worker that starts, or by whoever ends the call before that.
    cargo: Mutex<Option<Cargo<F>>>,
    /// Taken by whoever ends the call.
    teller: Mutex<Option<Teller<T, E>>>,
}

/// What a worker takes along.
struct Cargo<F> {
    work: F,
    context: Option<RequestContext>,
    captured: Vec<Install>,
    held: Held,
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    #[inline(never)]
    pub(super) fn run_on_threads<F>(
        self: &Arc<Self>,
        options: &mut Options<T, E>,
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
        let brief = Brief::of(options);
        let raw = match self.begin_on_threads(brief, start, work, Teller::Caller(promise)) {
            Ok(()) => raw.wait().unwrap_or(Err(Cause::Cancelled)),
            Err((cause, _)) => Err(cause),
        };
        self.end_with(options, start, raw)
    }

    pub(super) fn queue_on_threads<F>(
        self: &Arc<Self>,
        mut options: Options<T, E>,
        work: F,
    ) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        let start = self.state.now();
        // A fallback may run, and the call be logged, on a thread that knows nothing of it.
        options.context = options.context.or_else(RequestContext::current);
        if !self.state.plugins.propagators.is_empty() {
            options.set_captured(self.state.plugins.capture());
        }
        let (promise, answer) = promise_of::<T, CommandError<E>>();
        let brief = Brief::of(&options);
        let teller = Teller::Answer(promise, options);
        if let Err((cause, teller)) = self.begin_on_threads(brief, start, work, teller)
            && let Some(Teller::Answer(promise, mut options)) = teller
        {
            let _ = promise.complete(self.end_with(&mut options, start, Err(cause)));
        }
        answer
    }

    /// Takes everything that the call needs and hands it over, or says why not.
    fn begin_on_threads<F>(
        self: &Arc<Self>,
        brief: Brief,
        start: u64,
        work: F,
        teller: Teller<T, E>,
    ) -> Begun<T, E>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        let state = &self.state;
        let flags = state.flags();
        let (pool, ticket, held) = match self.admit(flags, start, brief.criticality) {
            Ok(admitted) => admitted,
            Err(cause) => return Err((cause, Some(teller))),
        };
        let timeout = brief.timeout.unwrap_or(state.timeout());
        let deadline = start.saturating_add(timeout);
        let context = brief.context.or_else(RequestContext::current);
        let cargo = Cargo {
            work,
            context,
            captured: state.plugins.capture(),
            held,
        };
        let flight = state.alarms.take_flight();
        let interrupts = flags & INTERRUPTS != 0;
        flight.prepare(state.alarms.clock().clock(), deadline, interrupts);
        let trip = Arc::new(Trip {
            shared: Arc::clone(self),
            pool: Arc::clone(pool),
            seen: flight.word().next_queued(),
            flight,
            ticket,
            start,
            timeout,
            deadline,
            began: AtomicU64::new(u64::MAX),
            place: AtomicU64::new(NOWHERE),
            cargo: Mutex::new(Some(cargo)),
            teller: Mutex::new(Some(teller)),
        });
        // Before it begins, or its end might find nobody to tell.
        trip.listen();
        trip.flight.word().begin_queued();
        state.alarms.watch(deadline);
        trip.hand_over(brief.criticality)
    }

    /// Asks everybody who may refuse a call.
    fn admit(
        &self,
        flags: u32,
        start: u64,
        criticality: Criticality,
    ) -> Result<Admitted<'_>, Cause<E>> {
        let state = &*self.state;
        if flags & (WATCHED | RATED) != 0 {
            self.may_begin(start, flags & !THREADS)?;
        }
        let Some(pool) = state.threads.get() else {
            return Err(Cause::Rejected(Refused::Closed));
        };
        let ticket = state.breaker.try_ticket(start);
        let ticket = ticket.map_err(|open| Cause::ShortCircuited(open.retry_after))?;
        let Ok(place) = pool.take_place(criticality) else {
            state.breaker.settle(ticket, Verdict::Failure, start, 0);
            pool.count_rejected(start);
            return Err(Cause::Rejected(pool.refusal()));
        };
        let mut held = Held {
            permit: None,
            place,
        };
        if flags & GATED == 0 {
            return Ok((pool, ticket, held));
        }
        let Some(permit) = state.gate.try_enter_owned(criticality) else {
            state.breaker.settle(ticket, Verdict::Failure, start, 0);
            state.gate.sample(start, 0, true);
            return Err(Cause::Rejected(Refused::Permits));
        };
        held.permit = Some(permit);
        Ok((pool, ticket, held))
    }

    /// Turns what became of the work into what the caller gets.
    fn end_with(
        &self,
        options: &mut Options<T, E>,
        start: u64,
        raw: Raw<T, E>,
    ) -> Result<T, CommandError<E>> {
        match raw {
            Ok(value) => {
                if self.is_watched(self.state.flags(), &Asked(Some(options))) {
                    self.succeeded(Story::until(start, self.state.now()), options);
                }
                Ok(value)
            }
            Err(cause) => self.failed(Story::until(start, self.state.now()), options, cause),
        }
    }
}

impl<T, E, F> Trip<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    /// Hears of the end of the time, and of a caller that cancels.
    fn listen(self: &Arc<Self>) {
        self.flight.put_waker(Waker::from(Arc::clone(self)));
        if let Some(Teller::Answer(promise, _)) = &*self.teller() {
            let trip = Arc::clone(self);
            promise.on_cancel(move || trip.cancel());
        }
    }

    /// Gives the job to the pool; with the caller's ear back if there is no room.
    fn hand_over(self: &Arc<Self>, criticality: Criticality) -> Begun<T, E> {
        let queued = Queued(Some(Arc::clone(self)));
        let task = Task::labelled::<F, _>(move || queued.run());
        match self.pool.submit(task, criticality) {
            Ok(None) => Ok(()),
            Ok(Some(JobKey(place))) => {
                // Either whoever leaves finds the place, or this finds that the call was left.
                self.place.store(place, Ordering::Relaxed);
                if self.flight.word().is_left() {
                    self.unqueue();
                }
                Ok(())
            }
            Err(refused) => {
                // This thread tells. If nobody was faster the call ends as one that never was, and
                // the drop of the job finds it over.
                let mine = self.flight.word().start() && self.flight.finish();
                drop(refused);
                if mine {
                    self.refuse();
                    self.keep_flight();
                    return Err((Cause::Rejected(self.pool.refusal()), self.teller().take()));
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
        if !self.flight.word().start() {
            // The call is over; whoever ended it has cleaned up.
            return;
        }
        let Some(cargo) = self.cargo().take() else {
            unreachable!("only the worker that starts takes it");
        };
        let running = state.running.fetch_add(1, Ordering::Relaxed) + 1;
        state.metrics.note_active(now, running as u64);
        self.pool.count_begun(now);
        let Cargo {
            work,
            context,
            captured,
            held,
        } = cargo;
        let surroundings = Surroundings::install(context, captured);
        let result: Ran<T, E> = tidegate_sync::contain(|| {
            state.hook(Stage::ThreadStart).map_err(Refusal)?;
            state.hook(Stage::ExecutionStart).map_err(Refusal)?;
            Ok(work(self.flight.token()))
        });
        self.end(result, held, surroundings);
    }

    /// The work has ended, in these surroundings.
    fn end(&self, result: Ran<T, E>, held: Held, within: Surroundings) {
        let state = &*self.shared.state;
        let now = state.now();
        let first = self.flight.finish();
        state.running.fetch_sub(1, Ordering::Relaxed);
        self.pool.count_executed(now);
        if !first {
            self.give_back(held, now);
            // Somebody else has told the caller; what came of it is dropped here.
            self.pool.leave();
            drop(contain(|| drop(result)));
            let _ = state.hook(Stage::ThreadComplete);
            return;
        }
        self.flight.clear_waker();
        self.keep_flight();
        let in_time = now < self.deadline;
        let raw = match result {
            Ok(Ok(Ok(value))) if in_time => Ok(value),
            other => Err(self.shared.cause_of(other, in_time, self.timeout)),
        };
        // Sampled while its permit still counts as in use.
        self.record(now, raw.as_ref().err());
        self.give_back(held, now);
        match &raw {
            Ok(_) => self.shared.emitted(),
            Err(_) if in_time => drop(state.hook(Stage::ExecutionError)),
            Err(_) => {}
        }
        let _ = state.hook(Stage::ThreadComplete);
        self.tell(raw, By::Worker, Some(within));
    }

    /// Counts the end of work that ran.
    fn record(&self, now: u64, cause: Option<&Cause<E>>) {
        let state = &*self.shared.state;
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

    /// Cleans up after a call that was ended from outside, and tells its caller.
    fn leave(&self, left: Left, cause: Cause<E>, by: By) {
        let state = &*self.shared.state;
        let now = state.now();
        self.flight.clear_waker();
        self.unqueue();
        match left {
            Left::Queued => {
                let verdict = match by {
                    By::Timer => Verdict::Failure,
                    _ => Verdict::Dropped,
                };
                state.breaker.settle(self.ticket, verdict, now, 0);
                if by == By::Timer {
                    let waited = now.saturating_sub(self.start);
                    state.gate.sample(now, waited, true);
                    self.pool.count_expired(now);
                    state.metrics.count(now, Event::ExpiredInQueue);
                }
                self.drop_cargo(now);
            }
            Left::Running => {
                self.pool.overstay();
                self.record(now, Some(&cause));
            }
        }
        self.tell(Err(cause), by, None);
    }

    /// The caller leaves.
    fn cancel(&self) {
        let state = &*self.shared.state;
        let interrupt = state.flags() & INTERRUPTS_ON_CANCEL != 0;
        if let Some(left) = self.flight.cancel(self.seen, interrupt) {
            let _ = state.hook(Stage::Cancelled);
            self.leave(left, Cause::Cancelled, By::Caller);
        }
    }

    /// The bulkhead has no room for the call, or gave its place to another.
    fn refuse(&self) {
        let state = &*self.shared.state;
        let now = state.now();
        self.flight.clear_waker();
        self.pool.count_rejected(now);
        state.breaker.settle(self.ticket, Verdict::Failure, now, 0);
        state.gate.sample(now, 0, true);
        self.drop_cargo(now);
    }

    /// Tells the caller, once. What it hears of runs in the surroundings of the work, if any.
    fn tell(&self, raw: Raw<T, E>, by: By, within: Option<Surroundings>) {
        let Some(teller) = self.teller().take() else {
            return;
        };
        let (promise, mut options) = match teller {
            Teller::Caller(promise) => {
                // Nothing of a user's runs here after the caller has heard: the thread is as good
                // as idle.
                drop(within);
                if by == By::Worker {
                    self.pool.about_to_end();
                }
                return drop(promise.succeed(raw));
            }
            Teller::Answer(promise, options) => (promise, options),
        };
        let (shared, start) = (&self.shared, self.start);
        match (raw, by) {
            // Only marked here: a fallback may take its time.
            (Err(cause), By::Timer) => {
                let shared = Arc::clone(shared);
                let aside = Arc::clone(&shared);
                let task = Task::named("fallback", move || {
                    let (context, captured) = (options.context.clone(), options.take_captured());
                    let _around = Surroundings::install(context, captured);
                    let _ = promise.complete(shared.end_with(&mut options, start, Err(cause)));
                });
                if let Err(task) = aside.state.alarms.run_aside(task) {
                    // No room beside: late is better than never.
                    task.run();
                }
            }
            (raw, _) => drop(promise.complete(shared.end_with(&mut options, start, raw))),
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
    fn drop_cargo(&self, now: u64) {
        let cargo = self.cargo().take();
        if let Some(Cargo { work, held, .. }) = cargo {
            self.give_back(held, now);
            let _ = contain(|| drop(work));
        }
    }

    fn give_back(&self, held: Held, now: u64) {
        let Held { permit, place } = held;
        drop(place);
        if permit.is_some() {
            drop(permit);
            self.shared.state.gate.after_leaving(now);
        }
    }

    /// Lets the flight serve another call; nothing of this one touches it any more.
    fn keep_flight(&self) {
        let alarms = &self.shared.state.alarms;
        alarms.keep_flight(Arc::clone(&self.flight));
    }

    fn teller(&self) -> MutexGuard<'_, Option<Teller<T, E>>> {
        self.teller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cargo(&self) -> MutexGuard<'_, Option<Cargo<F>>> {
        self.cargo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The timer's way to a call whose time is over.
impl<T, E, F> Wake for Trip<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        if let Some(left) = self.flight.expired() {
            self.leave(left, late(self.timeout), By::Timer);
        }
    }
}

/// A job in the queue. Dropped there, it was displaced or given up: the caller hears of it.
struct Queued<T, E, F>(Option<Arc<Trip<T, E, F>>>)
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static;

impl<T, E, F> Queued<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    /// The job has a thread: from here on the work itself tells.
    fn run(mut self) {
        if let Some(trip) = self.0.take() {
            trip.run();
        }
    }
}

impl<T, E, F> Drop for Queued<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    fn drop(&mut self) {
        let Some(trip) = self.0.take() else {
            return;
        };
        if trip.flight.cancel(trip.seen, false).is_some() {
            trip.refuse();
            let refused = trip.pool.refusal();
            trip.tell(Err(Cause::Rejected(refused)), By::Timer, None);
        }
    }
}

/// What a submission needs to know of a call's options.
struct Brief {
    timeout: Option<u64>,
    criticality: Criticality,
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
