//! The gate of a permits bulkhead: takes permits, returns them, and serves waiting calls.
//!
//! Taking a permit is one compare-and-swap against the current limit. A permit is never taken and
//! then undone, so no call is rejected because of another call that was itself rejected. Callers
//! may wait for a bounded time. A free permit is assigned to a waiter before the waiter is woken,
//! so a woken waiter never competes for it.
//!
//! # Invariants
//!
//! * The number of held permits never exceeds the limit that was in force when each was taken.
//! * A permit belongs to the running work: it is returned when the work has ended, not when the
//!   caller stops waiting for it.
//! * Permits that are reserved for critical calls are not taken by other calls, even if they are
//!   free.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;

use tidegate_core::internal::{as_nanos, check_may_block};
use tidegate_core::permits::{Permit, PermitRef, Permits};
use tidegate_core::{Clock, OnUnhandled, Parker, Unhandled};

use super::config::PermitConfig;
use super::moves::{LimitReason, Moves, OnLimitMove};
use super::overstaying::Overstaying;
use super::sampler::Sampler;
use super::wait_graph::{self, GateId, Holding};
use super::waiter::{
    CLOSED, DISPLACED, GONE, NoPermit, Place, SERVED, TURNED_AWAY, WAITING, Waiter,
};
use crate::bulkhead::partition::{Criticality, Partitions};
use crate::bulkhead::queue::WaitQueue;
use crate::error::{Rejection, contain};
use crate::key::Key;
use crate::lock::lock;

/// The permits, the calls that wait for one, and the algorithm that sets the limit.
#[derive(Debug)]
pub(crate) struct Gate {
    id: GateId,
    permits: Permits,
    /// Ceilings by criticality, for the current limit.
    ceilings: [AtomicUsize; 4],
    partitions: Mutex<Partitions>,
    wait_nanos: AtomicU64,
    /// Calls may wait, or were once allowed to wait and may still be waiting.
    serves: AtomicBool,
    max_waiting: AtomicUsize,
    waiting: AtomicUsize,
    /// No waiter is less critical than this. Changed under the lock of the queue.
    least: AtomicU8,
    queue: Arc<Mutex<WaitQueue<Arc<Waiter>>>>,
    /// Created when the limit becomes adaptive for the first time.
    sampler: OnceLock<Sampler>,
    /// The calls that hold a permit although their outcome was reported.
    pub(crate) overstaying: Overstaying,
    /// The key of this gate, and the hook that receives the panics of wakers.
    report: Report,
    /// The moves of the limit.
    moves: Arc<Moves>,
}

/// The key that panics are reported for, and the hook that receives them.
type Report = (Key, OnUnhandled);

impl Gate {
    pub(crate) fn new(config: &PermitConfig) -> Self {
        let gate = Self {
            id: GateId::next(),
            permits: Permits::new(config.limit),
            ceilings: std::array::from_fn(|_| AtomicUsize::new(0)),
            partitions: Mutex::new(config.partitions),
            wait_nanos: AtomicU64::new(as_nanos(config.max_wait)),
            serves: AtomicBool::new(!config.max_wait.is_zero()),
            max_waiting: AtomicUsize::new(config.max_waiting),
            waiting: AtomicUsize::new(0),
            least: AtomicU8::new(u8::MAX),
            queue: Arc::new(Mutex::new(WaitQueue::new(config.discipline))),
            sampler: OnceLock::new(),
            overstaying: Overstaying::default(),
            report: (Key::from("a bulkhead"), OnUnhandled::default()),
            moves: Arc::new(Moves::new(&Key::from("a bulkhead"), Vec::new())),
        };
        gate.apply_limit(config, 0);
        gate
    }

    /// Reports panics of wakers to `hook`, under `key`.
    pub(crate) fn report_to(mut self, key: &Key, hook: &OnUnhandled) -> Self {
        self.report = (key.clone(), hook.clone());
        self
    }

    /// Calls `listeners` at each move of an adaptive limit.
    pub(crate) fn move_to(mut self, key: &Key, listeners: Vec<OnLimitMove>) -> Self {
        self.moves = Arc::new(Moves::new(key, listeners));
        self
    }

    /// Takes a permit if one is available to calls of this criticality.
    #[inline]
    pub(crate) fn try_enter(&self, criticality: Criticality) -> Option<PermitRef<'_>> {
        self.permits.try_borrow_below(self.ceiling(criticality))
    }

    /// Returns `true` if no permit is available to calls of this criticality, and calls may not
    /// wait for one.
    #[inline]
    pub(crate) fn is_shut(&self, criticality: Criticality) -> bool {
        self.permits.is_full_below(self.ceiling(criticality)) && !self.may_wait()
    }

    /// Like `try_enter`, but returns a permit that owns its handle.
    pub(crate) fn try_enter_owned(&self, criticality: Criticality) -> Option<Permit> {
        self.permits.try_acquire_below(self.ceiling(criticality))
    }

    /// Returns `true` if callers may wait.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        self.wait_nanos.load(Ordering::Relaxed) != 0
    }

    /// If callers may wait, records that the calling thread works with a permit, until the returned
    /// guard is dropped: a later wait of this thread might be for that very permit.
    #[inline]
    pub(crate) fn hold(&self) -> Option<Holding> {
        let serves = self.serves.load(Ordering::Relaxed);
        serves.then(|| wait_graph::hold(self.id, &self.permits))
    }

    /// Blocks until a permit is available, at most for the configured time and not beyond `until`, the
    /// deadline of the call. Calls `may_wait` each time before the thread sleeps, with its waker, and gives
    /// up if it returns `false`.
    #[cold]
    pub(crate) fn wait(
        &self,
        clock: &Clock,
        criticality: Criticality,
        until: u64,
        mut may_wait: impl FnMut(&Waker) -> bool,
    ) -> Result<PermitRef<'_>, NoPermit> {
        if check_may_block(None).is_err() {
            return Err(NoPermit::Refused(Rejection::Waiting));
        }
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        let place = self.enqueue_waiter(clock.nanos(), criticality, until, &waker);
        let place = place.map_err(NoPermit::Refused)?;
        // Checked after queueing: by then, a free permit has already been handed over.
        let recorded = match place.waiter.state() {
            WAITING => wait_graph::wait_for(self.id).map(Some),
            _ => Ok(None),
        };
        let Ok(_recorded) = recorded else {
            self.give_up(&place);
            self.serve_waiters(clock.nanos());
            return Err(NoPermit::Refused(Rejection::Deadlock));
        };
        let may_wait = || may_wait(&waker);
        let state = place.waiter.wait(clock, &parker, place.until, may_wait);
        if state == SERVED {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Ok(self.permits.adopt());
        }
        self.give_up(&place);
        Err(place.refusal(state))
    }

    /// Queues a waiter, at most for the configured time and not beyond `until`, the deadline of the call.
    /// If the queue is full, the waiter takes the place of a less critical one. The caller must then poll
    /// with [`Gate::poll_waiter`] or leave with [`Gate::give_up`].
    pub(crate) fn enqueue_waiter(
        &self,
        now: u64,
        criticality: Criticality,
        until: u64,
        waker: &Waker,
    ) -> Result<Place, Rejection> {
        let queue_ends = now.saturating_add(self.wait_nanos.load(Ordering::Relaxed));
        let is_full = self.waiting.fetch_add(1, Ordering::Relaxed)
            >= self.max_waiting.load(Ordering::Relaxed);
        if is_full && !self.displace(criticality) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Rejection::Permits);
        }
        let waiter = Arc::new(Waiter::new(criticality, waker));
        let mut queue = lock(&self.queue);
        let id = queue.push(now, Arc::clone(&waiter));
        self.least.fetch_min(criticality as u8, Ordering::Relaxed);
        drop(queue);
        // ORDERING: SeqCst fence pairs with the one in `has_waiters_to_see`: the search for a
        // permit that follows finds a permit that was returned before this waiter became visible.
        fence(Ordering::SeqCst);
        self.serve(now);
        Ok(Place {
            waiter,
            id,
            until: until.min(queue_ends),
            ends_call: until <= queue_ends,
        })
    }

    /// Turns away a waiter that is less critical than a call for which there is no place. Returns `false`
    /// if there is none, and takes no lock then, unless a less critical call has waited lately.
    #[cold]
    fn displace(&self, criticality: Criticality) -> bool {
        let rank = criticality as u8;
        if rank <= self.least.load(Ordering::Relaxed) {
            return false;
        }
        let mut queue = lock(&self.queue);
        let Some(displaced) = queue.remove_least(|waiter| waiter.criticality as u8, rank) else {
            self.least.store(rank, Ordering::Relaxed);
            return false;
        };
        drop(queue);
        // Otherwise its wait has just ended, and it gives up its place itself.
        if displaced.decide(DISPLACED).is_ok() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            wake_all(vec![displaced], &self.report);
        }
        true
    }

    /// Returns the outcome of a queued waiter; `None` while it waits. After an outcome the slot is
    /// given up.
    pub(crate) fn poll_waiter(
        &self,
        place: &Place,
        now: u64,
        waker: &Waker,
    ) -> Option<Result<PermitRef<'_>, NoPermit>> {
        place.waiter.set_waker(waker);
        let mut state = place.waiter.state();
        if state == WAITING && now >= place.until {
            state = place.waiter.decide(GONE).err().unwrap_or(GONE);
        }
        match state {
            WAITING => None,
            SERVED => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Some(Ok(self.permits.adopt()))
            }
            _ => {
                self.give_up(place);
                Some(Err(place.refusal(state)))
            }
        }
    }

    /// Leaves the queue. A permit that was assigned in the meantime becomes free again.
    pub(crate) fn give_up(&self, place: &Place) {
        let decided = place.waiter.decide(GONE);
        if decided != Err(DISPLACED) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        if decided == Err(SERVED) {
            drop(self.permits.adopt());
        }
        lock(&self.queue).remove(place.id);
    }

    /// Returns a function that wakes all waiters and decides nothing: each of them finds out whether it
    /// may still wait.
    pub(crate) fn waker_of_all(&self) -> impl Fn() + Send + Sync + use<> {
        let (queue, report) = (Arc::clone(&self.queue), self.report.clone());
        move || {
            let all: Vec<_> = lock(&queue).iter().cloned().collect();
            wake_all(all, &report);
        }
    }

    /// Ends the wait of all waiters because the isolation ends. The caller must wake them.
    pub(crate) fn reject_all_waiters(&self) -> Woken {
        let mut decided = lock(&self.queue).take_all();
        decided.retain(|waiter| waiter.decide(CLOSED).is_ok());
        self.woken(decided)
    }

    /// Returns a permit that was taken and forgotten, and serves waiting calls. The time is read
    /// for only if there are any.
    #[inline]
    pub(crate) fn give_back(&self, now: impl FnOnce() -> u64) {
        drop(self.permits.adopt());
        if self.has_waiters_to_see() {
            self.serve(now());
        }
    }

    /// Serves the waiters after a permit was returned.
    #[inline]
    pub(crate) fn serve_waiters(&self, now: u64) {
        if self.has_waiters_to_see() {
            self.serve(now);
        }
    }

    /// Returns `true` if a call may be waiting for the permit that was just returned.
    #[inline]
    fn has_waiters_to_see(&self) -> bool {
        if self.serves.load(Ordering::Relaxed) {
            // ORDERING: SeqCst fence pairs with the one in `enqueue_waiter`: either the waiter
            // finds the permit that was just returned, or this thread finds the waiter.
            fence(Ordering::SeqCst);
            return self.waiting.load(Ordering::Relaxed) != 0;
        }
        false
    }

    /// Serves the waiters like `serve_waiters`, but leaves it to the caller to wake them where user
    /// code may run. Takes the moves of the limit, too. Returns `None` if there is nothing to do.
    pub(crate) fn take_served_waiters(&self, now: u64) -> Option<Woken> {
        let decided = match self.has_waiters_to_see() {
            true => self.decide(now),
            false => Vec::new(),
        };
        let has_any = !decided.is_empty() || self.moves.are_pending();
        has_any.then(|| self.woken(decided))
    }

    fn woken(&self, decided: Vec<Arc<Waiter>>) -> Woken {
        Woken {
            decided,
            report: self.report.clone(),
            moves: Arc::clone(&self.moves),
        }
    }

    /// Passes the latency of a finished call to the adaptive limit, if there is one.
    #[inline]
    pub(crate) fn sample(&self, now: u64, nanos: u64, dropped: bool) {
        if let Some(sampler) = self.sampler.get().filter(|sampler| sampler.is_on()) {
            self.sample_and_tell(sampler, now, nanos, dropped);
        }
    }

    #[inline(never)]
    fn sample_and_tell(&self, sampler: &Sampler, now: u64, nanos: u64, dropped: bool) {
        if self.pass_sample(sampler, now, nanos, dropped) {
            self.serve_waiters(now);
            self.moves.tell(&self.report.1);
        }
    }

    /// Samples like `sample`, on a thread that must not wake waiters. Returns those to wake, if a
    /// new limit has room for them.
    pub(crate) fn sample_quietly(&self, now: u64, nanos: u64, dropped: bool) -> Option<Woken> {
        let sampler = self.sampler.get().filter(|sampler| sampler.is_on())?;
        let is_new = self.pass_sample(sampler, now, nanos, dropped);
        is_new.then(|| self.take_served_waiters(now)).flatten()
    }

    #[inline]
    fn pass_sample(&self, sampler: &Sampler, now: u64, nanos: u64, dropped: bool) -> bool {
        let in_flight = self.permits.held();
        let apply = |limit, reason| self.move_limit(limit, reason, now);
        sampler.sample(now, nanos, (in_flight, dropped), apply)
    }

    /// Applies new settings; permits that are held stay held.
    ///
    /// The caller must then serve the waiters with [`Gate::take_served_waiters`], which also tells
    /// of a move of the limit.
    pub(crate) fn configure(&self, config: &PermitConfig, now: u64) {
        *lock(&self.partitions) = config.partitions;
        self.max_waiting
            .store(config.max_waiting, Ordering::Relaxed);
        if !config.max_wait.is_zero() {
            self.serves.store(true, Ordering::Relaxed);
        }
        self.wait_nanos
            .store(as_nanos(config.max_wait), Ordering::Relaxed);
        lock(&self.queue).set_discipline(config.discipline);
        self.apply_limit(config, now);
    }

    /// Sets the limit that follows from the settings: the fixed limit, or the current limit of the
    /// algorithm.
    fn apply_limit(&self, config: &PermitConfig, now: u64) {
        let moved = |limit| self.move_limit(limit, Some(LimitReason::Settings), now);
        match (&config.adaptive, self.sampler.get()) {
            (Some(adaptive), _) => {
                let sampler = || Sampler::new(adaptive.clone());
                let sampler = self.sampler.get_or_init(sampler);
                sampler.configure(adaptive, moved);
            }
            (None, Some(sampler)) => sampler.switch_off(|was_adaptive| match was_adaptive {
                true => moved(config.limit),
                false => self.set_limit(config.limit),
            }),
            (None, None) => self.set_limit(config.limit),
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

    /// Sets an adaptive limit and records its move. Called under the lock of the algorithm, so the
    /// moves are in order.
    fn move_limit(&self, limit: usize, reason: Option<LimitReason>, now: u64) {
        let before = self.permits.limit();
        self.set_limit(limit);
        self.moves.record((before, limit), reason, now);
    }

    fn set_limit(&self, limit: usize) {
        let partitions = *lock(&self.partitions);
        self.permits.set_limit(limit);
        for (place, ceiling) in self.ceilings.iter().zip(partitions.ceilings(limit)) {
            place.store(ceiling, Ordering::Relaxed);
        }
    }

    #[inline]
    fn ceiling(&self, criticality: Criticality) -> usize {
        self.ceilings[criticality as usize].load(Ordering::Relaxed)
    }

    /// Hands free permits to waiters and wakes them.
    #[cold]
    fn serve(&self, now: u64) {
        // The waker of a future is user code, so it runs with no lock held.
        wake_all(self.decide(now), &self.report);
    }

    /// Hands free permits to waiters in the order of the discipline; returns the waiters to wake.
    fn decide(&self, now: u64) -> Vec<Arc<Waiter>> {
        let mut queue = lock(&self.queue);
        std::iter::from_fn(|| self.decide_next(&mut queue, now)).collect()
    }

    /// Turns away the oldest waiter, or hands a free permit to the next one that may have it: a reserved
    /// permit may be available to a more critical waiter behind the first.
    fn decide_next(&self, queue: &mut WaitQueue<Arc<Waiter>>, now: u64) -> Option<Arc<Waiter>> {
        if let Some(late) = queue.pop_late(now) {
            let _ = late.decide(TURNED_AWAY);
            return Some(late);
        }
        // Without a permit for any call, no waiter is searched for.
        if self
            .permits
            .is_full_below(self.ceiling(Criticality::Critical))
        {
            return None;
        }
        let mut permit = None;
        let next = queue.pop_if(now, |waiter| {
            permit = self.try_enter(waiter.criticality);
            permit.is_some()
        })?;
        // If the waiter has left in the meantime, the permit is free for the next one.
        if next.decide(SERVED).is_ok() {
            permit.into_iter().for_each(PermitRef::forget);
        }
        Some(next)
    }
}

/// Waiters whose wait has ended and that are to be woken, and moves of the limit that are to be
/// told.
pub(crate) struct Woken {
    decided: Vec<Arc<Waiter>>,
    report: Report,
    moves: Arc<Moves>,
}

impl Woken {
    /// Wakes the waiters, then calls the listeners of moves. Runs user code.
    pub(crate) fn wake(self) {
        wake_all(self.decided, &self.report);
        self.moves.tell(&self.report.1);
    }
}

fn wake_all(decided: Vec<Arc<Waiter>>, (key, hook): &Report) {
    for waiter in decided {
        if let Err(message) = contain(|| waiter.wake()) {
            let message = &*message;
            hook.report(key, &Unhandled::HookPanic { message });
        }
    }
}
