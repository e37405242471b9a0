//! The gate of a permits bulkhead: takes permits, gives them back, and serves waiting calls.
//!
//! Taking a permit is one compare-and-swap against the present limit; nothing is ever taken and
//! then undone, so no call is refused because another one was. Callers may wait for a bounded
//! time; a permit that is free goes to whoever waits before anybody is woken for nothing.
//!
//! # Invariants
//!
//! * Never more permits are held than the limit allowed when each was taken.
//! * A permit belongs to the running work: it is given back when the work has ended, not when the
//!   caller stopped waiting for it.
//! * What is reserved for important calls is not taken by others, however free it is.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use tidegate_core::{
    Clock, OnUnhandled, Parker, Permit, PermitRef, Permits, Unhandled, as_nanos, check_stance,
};

use super::config::PermitConfig;
use super::sampler::Sampler;
use super::wait_graph::{self, GateId, Holding};
use super::waiter::{CLOSED, GONE, Place, SERVED, TURNED_AWAY, WAITING, Waiter};
use crate::bulkhead::partition::{Criticality, Partitions};
use crate::bulkhead::queue::{Next, WaitQueue};
use crate::error::{Refused, contain};
use crate::key::Key;

/// Permits, those who wait for one, and the algorithm that sets the limit.
#[derive(Debug)]
pub(crate) struct Gate {
    id: GateId,
    permits: Permits,
    /// Ceilings by criticality, for the present limit.
    ceilings: [AtomicUsize; 4],
    partitions: Mutex<Partitions>,
    wait_nanos: AtomicU64,
    /// Calls may wait, or were allowed to and may still do so.
    serves: AtomicBool,
    max_waiting: AtomicUsize,
    waiting: AtomicUsize,
    queue: Mutex<WaitQueue<Arc<Waiter>>>,
    /// Made when the limit is adaptive for the first time.
    sampler: OnceLock<Sampler>,
    /// Hears of wakers that panic, and whose gate it is.
    report: Report,
}

/// Whose panics are reported, and to which hook.
type Report = (Key, OnUnhandled);

impl Gate {
    pub(crate) fn new(config: &PermitConfig) -> Self {
        let gate = Self {
            id: wait_graph::next_id(),
            permits: Permits::new(config.limit),
            ceilings: std::array::from_fn(|_| AtomicUsize::new(0)),
            partitions: Mutex::new(config.partitions),
            wait_nanos: AtomicU64::new(as_nanos(config.max_wait)),
            serves: AtomicBool::new(!config.max_wait.is_zero()),
            max_waiting: AtomicUsize::new(config.max_waiting),
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(WaitQueue::new(config.discipline)),
            sampler: OnceLock::new(),
            report: (Key::from("a bulkhead"), OnUnhandled::default()),
        };
        gate.set_limit(gate.limit_of(config));
        gate
    }

    /// Reports wakers that panic to `hook`, as being about `key`.
    pub(crate) fn report_to(mut self, key: &Key, hook: &OnUnhandled) -> Self {
        self.report = (key.clone(), hook.clone());
        self
    }

    /// Takes a permit if one is free for calls of this criticality.
    #[inline]
    pub(crate) fn try_enter(&self, criticality: Criticality) -> Option<PermitRef<'_>> {
        self.permits.try_borrow_below(self.ceiling(criticality))
    }

    /// Whether a call of this criticality finds no permit, and may not wait for one.
    #[inline]
    pub(crate) fn is_shut(&self, criticality: Criticality) -> bool {
        self.permits.is_full_below(self.ceiling(criticality)) && !self.may_wait()
    }

    /// As `try_enter`, with a permit that owns its handle.
    pub(crate) fn try_enter_owned(&self, criticality: Criticality) -> Option<Permit> {
        self.permits.try_acquire_below(self.ceiling(criticality))
    }

    /// Whether callers may wait.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        self.wait_nanos.load(Ordering::Relaxed) != 0
    }

    /// Notes that the calling thread works with a permit until the answer is dropped, where callers
    /// may wait for one: a wait of its own might be for that very permit.
    #[inline]
    pub(crate) fn hold(&self) -> Option<Holding> {
        let serves = self.serves.load(Ordering::Relaxed);
        serves.then(|| wait_graph::hold(self.id, &self.permits))
    }

    /// Waits for a permit until the configured time is over, or `until`.
    #[cold]
    pub(crate) fn wait(
        &self,
        clock: &Clock,
        criticality: Criticality,
        until: u64,
    ) -> Result<PermitRef<'_>, Refused> {
        if check_stance(None).is_err() {
            return Err(Refused::Waiting);
        }
        let parker = Parker::new();
        let place = self.queue_up(clock.nanos(), criticality, until, &Waker::from(&parker))?;
        // After the place is taken: then a permit that is free has been handed over.
        let recorded = match place.waiter.state() {
            WAITING => wait_graph::wait_for(self.id).map(Some),
            _ => Ok(None),
        };
        let Ok(_recorded) = recorded else {
            self.give_up(&place);
            self.after_leaving(clock.nanos());
            return Err(Refused::Circle);
        };
        let state = place.waiter.wait(clock, &parker, place.until);
        if state == SERVED {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Ok(self.permits.adopt());
        }
        self.give_up(&place);
        Err(refusal(state))
    }

    /// Takes a place among those who wait, until the configured time is over or `until`. Whoever
    /// does so asks with [`Gate::ask`] or leaves with [`Gate::give_up`].
    pub(crate) fn queue_up(
        &self,
        now: u64,
        criticality: Criticality,
        until: u64,
        waker: &Waker,
    ) -> Result<Place, Refused> {
        let until = until.min(now.saturating_add(self.wait_nanos.load(Ordering::Relaxed)));
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting.load(Ordering::Relaxed)
        {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Permits);
        }
        let waiter = Arc::new(Waiter::new(criticality, waker));
        let id = self.lock().push(now, Arc::clone(&waiter));
        // ORDERING: SeqCst fence pairs with the one in `has_waiters_to_see`: the look for a permit
        // that follows finds one that was given back before this waiter could be seen.
        fence(Ordering::SeqCst);
        self.serve(now);
        Ok(Place { waiter, id, until })
    }

    /// What became of a place; none while it waits. After an answer the place is given up.
    pub(crate) fn ask(
        &self,
        place: &Place,
        now: u64,
        waker: &Waker,
    ) -> Option<Result<Permit, Refused>> {
        place.waiter.set_waker(waker);
        let mut state = place.waiter.state();
        if state == WAITING && now >= place.until {
            state = place
                .waiter
                .decide(GONE)
                .map_or_else(|state| state, |_| GONE);
        }
        match state {
            WAITING => None,
            SERVED => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Some(Ok(self.permits.adopt_owned()))
            }
            _ => {
                self.give_up(place);
                Some(Err(refusal(state)))
            }
        }
    }

    /// Leaves a place; a permit that came meanwhile goes to the next.
    pub(crate) fn give_up(&self, place: &Place) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if place.waiter.decide(GONE) == Err(SERVED) {
            drop(self.permits.adopt());
        }
        self.lock().remove(place.id);
    }

    /// Ends the wait of all who wait now: everything ends. The caller wakes them.
    pub(crate) fn turn_away_all(&self) -> Woken {
        let mut decided = self.lock().take_all();
        decided.retain(|waiter| waiter.decide(CLOSED).is_ok());
        let report = self.report.clone();
        Woken { decided, report }
    }

    /// Gives a borrowed permit back.
    #[inline]
    pub(crate) fn leave(&self, permit: PermitRef<'_>, now: u64) {
        drop(permit);
        self.after_leaving(now);
    }

    /// Serves whoever waits, after a permit was given back.
    #[inline]
    pub(crate) fn after_leaving(&self, now: u64) {
        if self.has_waiters_to_see() {
            self.serve(now);
        }
    }

    /// Whether a call may wait for the permit that was just given back.
    #[inline]
    fn has_waiters_to_see(&self) -> bool {
        if self.serves.load(Ordering::Relaxed) {
            // ORDERING: SeqCst fence pairs with the one in `queue_up`: either the waiter finds the
            // permit that was just given back, or this thread finds the waiter.
            fence(Ordering::SeqCst);
            return self.waiting.load(Ordering::Relaxed) != 0;
        }
        false
    }

    /// Serves whoever waits, as after a permit was given back, and leaves it to the caller to wake
    /// them where user code may run; none if nobody is to be woken.
    pub(crate) fn serve_quietly(&self, now: u64) -> Option<Woken> {
        let decided = match self.has_waiters_to_see() {
            true => self.decide(now),
            false => return None,
        };
        let report = self.report.clone();
        (!decided.is_empty()).then_some(Woken { decided, report })
    }

    /// Gives the latency of a finished call to the adaptive limit, if there is one.
    #[inline]
    pub(crate) fn sample(&self, now: u64, nanos: u64, dropped: bool) {
        if let Some(sampler) = self.sampler.get().filter(|sampler| sampler.is_on()) {
            let in_flight = self.permits.held();
            if let Some(limit) = sampler.sample(now, nanos, in_flight, dropped) {
                self.set_limit(limit);
                self.after_leaving(now);
            }
        }
    }

    /// Takes over new settings; holders keep what they hold.
    ///
    /// The caller then serves whoever waits, with [`Gate::after_leaving`].
    pub(crate) fn configure(&self, config: &PermitConfig) {
        *self
            .partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = config.partitions;
        self.max_waiting
            .store(config.max_waiting, Ordering::Relaxed);
        if !config.max_wait.is_zero() {
            self.serves.store(true, Ordering::Relaxed);
        }
        self.wait_nanos
            .store(as_nanos(config.max_wait), Ordering::Relaxed);
        self.lock().set_discipline(config.discipline);
        self.set_limit(self.limit_of(config));
    }

    /// The limit that follows from the settings: the one given, or where the algorithm stands.
    fn limit_of(&self, config: &PermitConfig) -> usize {
        match &config.adaptive {
            Some(adaptive) => {
                let sampler = || Sampler::new(adaptive.clone());
                self.sampler.get_or_init(sampler).configure(adaptive)
            }
            None => {
                self.sampler.get().inspect(|sampler| sampler.switch_off());
                config.limit
            }
        }
    }

    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.permits.held()
    }

    pub(crate) fn limit(&self) -> usize {
        self.permits.limit()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn set_limit(&self, limit: usize) {
        let partitions = *self
            .partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.permits.set_limit(limit);
        for (place, ceiling) in self.ceilings.iter().zip(partitions.ceilings(limit)) {
            place.store(ceiling, Ordering::Relaxed);
        }
    }

    #[inline]
    fn ceiling(&self, criticality: Criticality) -> usize {
        self.ceilings[criticality as usize].load(Ordering::Relaxed)
    }

    /// Hands free permits to those who wait, and wakes them.
    #[cold]
    fn serve(&self, now: u64) {
        // The waker of a future is user code: it runs with no lock held.
        wake_all(self.decide(now), &self.report);
    }

    /// Hands free permits to those who wait, in the order of the discipline; returns who is to be
    /// woken.
    fn decide(&self, now: u64) -> Vec<Arc<Waiter>> {
        let (mut decided, mut passed_over) = (Vec::new(), Vec::new());
        let mut queue = self.lock();
        while let Some(next) = queue.pop(now) {
            match next {
                Next::TurnAway(entry) => {
                    let _ = entry.what.decide(TURNED_AWAY);
                    decided.push(entry.what);
                }
                Next::Serve(entry) => match self.try_enter(entry.what.criticality) {
                    Some(permit) => {
                        // A waiter that has left in between leaves the permit for the next.
                        if entry.what.decide(SERVED).is_ok() {
                            permit.forget();
                        }
                        decided.push(entry.what);
                    }
                    // What is reserved for others may be free for one that matters more.
                    None => {
                        let is_last = self.ceiling(entry.what.criticality) >= self.permits.limit();
                        passed_over.push(entry);
                        if is_last {
                            break;
                        }
                    }
                },
            }
        }
        for entry in passed_over {
            queue.put_back(entry);
        }
        drop(queue);
        decided
    }

    fn lock(&self) -> MutexGuard<'_, WaitQueue<Arc<Waiter>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Callers that were served and are to be woken.
pub(crate) struct Woken {
    decided: Vec<Arc<Waiter>>,
    report: Report,
}

impl Woken {
    /// Wakes them. Runs user code.
    pub(crate) fn wake(self) {
        wake_all(self.decided, &self.report);
    }
}

/// Why a wait that ended in this state has no permit.
fn refusal(state: u8) -> Refused {
    match state {
        CLOSED => Refused::Closed,
        _ => Refused::Permits,
    }
}

fn wake_all(decided: Vec<Arc<Waiter>>, (key, hook): &Report) {
    for waiter in decided {
        if let Err(message) = contain(|| waiter.wake()) {
            let message = &*message;
            hook.tell(key, &Unhandled::HookPanic { message });
        }
    }
}
