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
use super::options::Options;
use super::outcome::{Ran, Refusal};
use super::shared::Shared;
use super::surroundings::Surroundings;
use crate::bulkhead::Criticality;
use crate::error::{Cause, CommandError, Rejection};
use crate::event::Event;
use crate::in_flight::{Expires, Flight, Left, UnderWay};
use crate::isolation::RegisteredPool;
use crate::isolation::state::INTERRUPTS_ON_CANCEL;
use crate::plugin::{CallStage, Install};
use crate::request::RequestContext;
use crate::request::wait_graph::{self, RunId};

/// No place in the queue.
const NOWHERE: u64 = u64::MAX;
/// What the caller is told: the answer, or why there is none of the work's own.
pub(super) type Raw<T, E> = Result<T, Cause<E>>;

/// What a caller that waits is told.
pub(super) enum Told<T, E> {
    /// The work has ended.
    Ended(Raw<T, E>),
    /// The call was ended from outside: the caller cleans up after it.
    Left(Arc<dyn Leftover<E>>, Departure),
}

/// A call that was ended from outside.
pub(super) trait Leftover<E>: Send + Sync {
    /// Counts the end and drops the work, on a thread that may run user code; returns why.
    fn clean_up(&self, departure: Departure) -> Cause<E>;
}

/// How a call was ended from outside.
#[derive(Clone, Copy)]
pub(super) struct Departure {
    left: Left,
    why: Why,
}

#[derive(Clone, Copy)]
enum Why {
    Expired,
    Cancelled,
    /// The queue gave its place to another call, or was given up.
    Refused(Rejection),
}

/// How the caller hears of the end.
pub(super) enum Teller<T: Send + 'static, E: Send + 'static> {
    /// It waits, and does the rest itself.
    Caller(Promise<Told<T, E>, CommandError<E>>),
    /// It has a completion, and the call a place on the command's threads for its end.
    Answer(Promise<T, CommandError<E>>, Options<T, E>, Permit),
}

impl<T: Send + 'static, E: Send + 'static> Teller<T, E> {
    fn is_waiting(&self) -> bool {
        matches!(self, Self::Caller(_))
    }
}

/// The call is under way, or why not; then with the caller's ear.
pub(super) type Begun<T, E> = Result<(), (Cause<E>, Option<Teller<T, E>>)>;

/// What a call holds until its work has really ended.
#[derive(Default)]
pub(super) struct Held {
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
    seen: UnderWay,
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
pub(super) struct Cargo<F> {
    pub(super) work: F,
    pub(super) context: Option<RequestContext>,
    pub(super) captured: Vec<Install>,
    /// The shared runs that the work belongs to.
    pub(super) within: Vec<RunId>,
    pub(super) held: Held,
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
        cargo: Cargo<F>,
        teller: Teller<T, E>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            pool: Arc::clone(pool),
            seen: call.flight.word().next_queued(),
            call,
            began: AtomicU64::new(u64::MAX),
            place: AtomicU64::new(NOWHERE),
            cargo: Mutex::new(Some(cargo)),
            teller: Mutex::new(Some(teller)),
        })
    }

    pub(super) fn flight(&self) -> &Flight {
        &self.call.flight
    }

    /// Hears of the end of the time, and of a caller that cancels.
    pub(super) fn listen(self: &Arc<Self>) {
        self.flight().tell(Arc::clone(self) as Arc<dyn Expires>);
        if let Some(Teller::Answer(promise, ..)) = &*self.teller() {
            let call = Arc::clone(self);
            promise.on_cancel(move || call.cancel());
        }
    }

    /// Gives the job to the pool; with the caller's ear back if there is no room.
    pub(super) fn hand_over(self: &Arc<Self>, criticality: Criticality) -> Begun<T, E> {
        let queued = Queued(Some(Arc::clone(self)));
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
                    return Err((Cause::Rejected(refused), self.teller().take()));
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
            within,
            held,
        } = cargo;
        let surroundings = Surroundings::install(&state.plugins, context, captured);
        let within = wait_graph::set(within);
        let result: Ran<T, E> = tidegate_core::internal::contain(|| {
            state.hook(CallStage::ThreadStart).map_err(Refusal)?;
            state.hook(CallStage::ExecutionStart).map_err(Refusal)?;
            Ok(work(self.flight().token()))
        });
        drop(within);
        self.end(result, held, surroundings);
    }

    /// The work has ended, in these surroundings.
    fn end(&self, result: Ran<T, E>, held: Held, within: Surroundings) {
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
        self.flight().clear_ear();
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
    fn depart(self: Arc<Self>, departure: Departure) {
        let mut teller = self.teller();
        if let Some(Teller::Caller(promise)) = teller.take_if(|teller| teller.is_waiting()) {
            drop(teller);
            // With this reference: the last one must not be dropped here.
            let _ = promise.succeed(Told::Left(self, departure));
            return;
        }
        drop(teller);
        let state = &*self.shared.state;
        let (alarms, aside) = (state.alarms.clone(), Arc::clone(&state.aside));
        let end = Task::named("end of a call", move || self.end_aside(departure));
        alarms.run_aside(&aside, end);
    }

    /// Ends a call whose caller does not wait, on a thread of the command.
    fn end_aside(&self, departure: Departure) {
        let cause = self.clean_up(departure);
        let teller = self.teller().take();
        if let Some(Teller::Answer(promise, mut options, _place)) = teller {
            let state = &*self.shared.state;
            let (context, captured) = (options.context.clone(), options.take_captured());
            let _around = Surroundings::install(&state.plugins, context, captured);
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
                token.trip();
                token.run_hooks_to(&state.key, &state.plugins.unhandled);
            }
            let _ = state.hook(CallStage::Cancelled);
            let why = Why::Cancelled;
            let cause = self.clean_up(Departure { left, why });
            self.tell(Err(cause), None);
        }
    }

    /// The bulkhead has no room for the call, or gave its place to another.
    fn refuse(&self, refused: Rejection) {
        let state = &*self.shared.state;
        let now = state.now();
        self.flight().clear_ear();
        self.pool.count_rejected(now);
        state.book_denial(&Denied::Refused(refused, self.call.ticket), (now, now));
        self.drop_cargo(now);
    }

    /// Tells the caller, once, on a thread that may run its code. What it hears of runs in the
    /// surroundings of the work, if any.
    fn tell(&self, raw: Raw<T, E>, within: Option<Surroundings>) {
        let Some(teller) = self.teller().take() else {
            return;
        };
        match teller {
            Teller::Caller(promise) => {
                // Nothing of a user's runs here after the caller has heard: the thread is as good
                // as idle.
                drop(within);
                self.pool.about_to_end();
                drop(promise.succeed(Told::Ended(raw)));
            }
            Teller::Answer(promise, mut options, _place) => {
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
    fn drop_cargo(&self, now: u64) {
        let cargo = self.cargo().take();
        if let Some(cargo) = cargo {
            let Cargo { held, .. } = cargo;
            self.give_back(held, now);
            discard(cargo.work);
            discard_all(cargo.captured);
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
        alarms.keep_flight(Arc::clone(&self.call.flight));
    }

    fn teller(&self) -> MutexGuard<'_, Option<Teller<T, E>>> {
        self.teller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cargo(&self) -> MutexGuard<'_, Option<Cargo<F>>> {
        self.cargo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The timer's way to a call whose time is over.
impl<T, E, F> Expires for ThreadCall<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    fn expired(self: Arc<Self>, left: Left) {
        let why = Why::Expired;
        self.depart(Departure { left, why });
    }
}

impl<T, E, F> Leftover<E> for ThreadCall<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
{
    fn clean_up(&self, Departure { left, why }: Departure) -> Cause<E> {
        let state = &*self.shared.state;
        let cause = match why {
            Why::Refused(refused) => {
                self.refuse(refused);
                return Cause::Rejected(refused);
            }
            Why::Expired => self.call.late(),
            Why::Cancelled => Cause::Cancelled,
        };
        let ended = Ended::by(&cause);
        let now = state.now();
        self.flight().clear_ear();
        self.unqueue();
        match left {
            Left::Queued => {
                let settlement = ended.settlement();
                state.breaker.settle(self.call.ticket, settlement, now, 0);
                if matches!(why, Why::Expired) {
                    self.sample(now, true);
                    self.pool.count_expired(now);
                    state.metrics.count(now, Event::ExpiredInQueue);
                }
                self.drop_cargo(now);
            }
            Left::Running => {
                self.pool.overstay();
                self.sample(now, ended == Ended::TimedOut);
                state.report(self.call.ticket, self.times(now), ended);
            }
        }
        cause
    }
}

/// A job in the queue. Dropped there, it was displaced or given up: the caller hears of it.
struct Queued<T, E, F>(Option<Arc<ThreadCall<T, E, F>>>)
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
        if let Some(call) = self.0.take() {
            call.run();
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
        let Some(call) = self.0.take() else {
            return;
        };
        // On the thread of whichever command took the place.
        if let Some(left) = call.flight().cancel(call.seen) {
            let why = Why::Refused(call.pool.refusal());
            call.depart(Departure { left, why });
        }
    }
}
