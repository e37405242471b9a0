//! The permits bulkhead: so many calls at a time, on the callers' own threads.
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

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tidegate_sync::{Clock, Parker, Permit, PermitRef, Permits, as_nanos, check_stance, contain};

use super::limit::AdaptiveLimit;
use super::partition::{Criticality, Partitions};
use super::queue::{Discipline, Next, WaitQueue};
use super::sampler::Sampler;
use super::waiter::{GONE, Place, SERVED, TURNED_AWAY, WAITING, Waiter};
use crate::{Invalid, Key, Refused};

/// The settings of a permits bulkhead.
///
/// ```
/// use tidegate_isolate::PermitConfig;
///
/// let config = PermitConfig { limit: 0, ..PermitConfig::default() };
/// let error = config.validate(&"prices".into()).unwrap_err();
/// assert!(error.to_string().starts_with("prices: execution.isolation.semaphore"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PermitConfig {
    /// How many calls may run at the same time; 0 is refused. To refuse every call, force the
    /// breaker open ([`BreakerMode::ForcedOpen`](crate::BreakerMode::ForcedOpen)).
    pub limit: usize,
    /// How long a call waits for a permit; zero refuses at once.
    pub max_wait: Duration,
    /// How many calls may wait at the same time.
    pub max_waiting: usize,
    /// Who is served first of those who wait.
    pub discipline: Discipline,
    /// What is kept free for important calls.
    pub partitions: Partitions,
    /// Lets the limit follow the latency. The limit above is then not used.
    pub adaptive: Option<AdaptiveLimit>,
}

impl Default for PermitConfig {
    fn default() -> Self {
        Self {
            limit: 10,
            max_wait: Duration::ZERO,
            max_waiting: 100,
            discipline: Discipline::Fifo,
            partitions: Partitions::default(),
            adaptive: None,
        }
    }
}

impl PermitConfig {
    /// So many permits, and no waiting.
    pub fn of(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Checks that the settings make sense.
    ///
    /// # Errors
    ///
    /// Which property is wrong, and why.
    pub fn validate(&self, key: &Key) -> Result<(), Invalid> {
        if self.limit == 0 {
            return Err(Invalid::new(
                key.as_str(),
                "execution.isolation.semaphore.maxConcurrentRequests",
                0,
                "nothing would ever run; to refuse everything, force the breaker open",
            ));
        }
        self.partitions.validate(key)?;
        self.adaptive
            .as_ref()
            .map_or(Ok(()), |limit| limit.validate(key))
    }
}

/// Permits, those who wait for one, and the algorithm that sets the limit.
#[derive(Debug)]
pub(crate) struct Gate {
    permits: Permits,
    /// Ceilings by criticality, for the present limit.
    ceilings: [AtomicUsize; 4],
    partitions: Mutex<Partitions>,
    wait_nanos: AtomicU64,
    max_waiting: AtomicUsize,
    waiting: AtomicUsize,
    queue: Mutex<WaitQueue<Arc<Waiter>>>,
    /// Made when the limit is adaptive for the first time.
    sampler: OnceLock<Sampler>,
}

impl Gate {
    pub(crate) fn new(config: &PermitConfig) -> Self {
        let gate = Self {
            permits: Permits::new(config.limit),
            ceilings: std::array::from_fn(|_| AtomicUsize::new(0)),
            partitions: Mutex::new(config.partitions),
            wait_nanos: AtomicU64::new(as_nanos(config.max_wait)),
            max_waiting: AtomicUsize::new(config.max_waiting),
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(WaitQueue::new(config.discipline)),
            sampler: OnceLock::new(),
        };
        gate.set_limit(gate.limit_of(config));
        gate
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
        if place.waiter.wait(clock, &parker, place.until) == SERVED {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Ok(self.permits.adopt());
        }
        self.give_up(&place);
        Err(Refused::Permits)
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
        if self.waiting.fetch_add(1, Ordering::SeqCst) >= self.max_waiting.load(Ordering::Relaxed) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Permits);
        }
        let waiter = Arc::new(Waiter::new(criticality, waker));
        let id = self.lock().push(now, Arc::clone(&waiter));
        // A permit that was given back before this one could be seen waiting.
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
                Some(Err(Refused::Permits))
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

    /// Gives a borrowed permit back.
    #[inline]
    pub(crate) fn leave(&self, permit: PermitRef<'_>, now: u64) {
        drop(permit);
        self.after_leaving(now);
    }

    /// Serves whoever waits, after a permit was given back.
    #[inline]
    pub(crate) fn after_leaving(&self, now: u64) {
        if self.may_wait() {
            // Pairs with the count in `wait`: either the waiter finds the permit that was just
            // given back, or this thread finds the waiter.
            fence(Ordering::SeqCst);
            if self.waiting.load(Ordering::Relaxed) != 0 {
                self.serve(now);
            }
        }
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

    /// Hands free permits to those who wait, in the order of the discipline.
    #[cold]
    fn serve(&self, now: u64) {
        let mut decided = Vec::new();
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
                    None => {
                        queue.put_back(entry);
                        break;
                    }
                },
            }
        }
        drop(queue);
        // The waker of a future is user code: it runs with no lock held.
        for waiter in decided {
            let _ = contain(|| waiter.wake());
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitQueue<Arc<Waiter>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! Bounds, reserves and waiting.

    use super::*;
    use tidegate_sync::ManualClock;

    fn waiting(limit: usize) -> PermitConfig {
        PermitConfig {
            limit,
            max_wait: Duration::from_millis(10),
            ..PermitConfig::default()
        }
    }

    #[test]
    fn what_matters_most_is_refused_last() {
        let gate = Gate::new(&PermitConfig {
            limit: 4,
            partitions: Partitions {
                normal: 0.25,
                high: 0.25,
                critical: 0.25,
            },
            ..PermitConfig::default()
        });
        let mut held = Vec::new();
        for criticality in [
            Criticality::Sheddable,
            Criticality::Normal,
            Criticality::High,
            Criticality::Critical,
        ] {
            held.push(gate.try_enter(criticality).expect("its share is free"));
            assert!(gate.try_enter(criticality).is_none(), "{criticality:?}");
        }
        assert_eq!(gate.held(), 4);
    }

    #[test]
    fn a_lower_limit_acts_at_once_and_takes_nothing_back() {
        let gate = Gate::new(&PermitConfig::of(2));
        let held = [
            gate.try_enter_owned(Criticality::Normal),
            gate.try_enter_owned(Criticality::Normal),
        ];
        gate.configure(&PermitConfig::of(1));
        assert_eq!((gate.held(), gate.limit()), (2, 1));
        assert!(gate.try_enter(Criticality::Critical).is_none());
        drop(held);
        assert!(gate.try_enter(Criticality::Normal).is_some());
    }

    #[test]
    fn a_waiter_gets_the_permit_that_is_given_back() {
        let manual = ManualClock::new();
        let clock = Clock::from(&manual);
        let gate = Gate::new(&waiting(1));
        let first = gate.try_enter(Criticality::Normal).expect("it is free");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| gate.wait(&clock, Criticality::Normal, u64::MAX).is_ok());
            manual.await_sleepers(1);
            assert_eq!(gate.waiting(), 1);
            gate.leave(first, 0);
            assert!(waiter.join().expect("it does not panic"));
        });
        assert_eq!((gate.held(), gate.waiting()), (0, 0));
    }

    #[test]
    fn a_raised_limit_serves_who_waits() {
        let gate = Gate::new(&waiting(1));
        let _first = gate.try_enter(Criticality::Normal).expect("it is free");
        let place = gate.queue_up(0, Criticality::Normal, u64::MAX, Waker::noop());
        let place = place.expect("there is room to wait");
        assert!(gate.ask(&place, 0, Waker::noop()).is_none());
        gate.configure(&waiting(2));
        gate.after_leaving(0);
        let served = gate.ask(&place, 0, Waker::noop());
        assert!(matches!(served, Some(Ok(_))));
    }

    #[test]
    fn waiting_ends_with_its_time_and_with_its_room() {
        let manual = ManualClock::new();
        let clock = Clock::from(&manual);
        let gate = Gate::new(&PermitConfig {
            max_waiting: 1,
            ..waiting(1)
        });
        let _first = gate.try_enter(Criticality::Normal);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| gate.wait(&clock, Criticality::Normal, u64::MAX).err());
            manual.await_sleepers(1);
            let second = gate.wait(&clock, Criticality::Normal, u64::MAX);
            assert_eq!(second.err(), Some(Refused::Permits), "one may wait");
            manual.advance(Duration::from_millis(10));
            assert_eq!(
                waiter.join().expect("it does not panic"),
                Some(Refused::Permits)
            );
        });
        assert_eq!((gate.held(), gate.waiting()), (1, 0));
    }

    #[test]
    fn a_thread_that_must_not_block_is_refused_instead() {
        let gate = Gate::new(&waiting(1));
        let _first = gate.try_enter(Criticality::Normal);
        let refused = tidegate_sync::non_blocking(|| {
            gate.wait(&Clock::system(), Criticality::Normal, u64::MAX)
                .err()
        });
        assert_eq!(refused, Some(Refused::Waiting));
    }

    #[test]
    fn no_permit_is_lost_between_waiters_and_those_who_leave() {
        let manual = ManualClock::new();
        let clock = Clock::from(&manual);
        let gate = Gate::new(&PermitConfig {
            max_wait: Duration::from_secs(1),
            ..waiting(2)
        });
        let (most, now) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let permit = gate.try_enter(Criticality::Normal);
                        let permit = match permit {
                            Some(permit) => Ok(permit),
                            None => gate.wait(&clock, Criticality::Normal, u64::MAX),
                        };
                        let permit = permit.expect("time stands still");
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        now.fetch_sub(1, Ordering::SeqCst);
                        gate.leave(permit, 0);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 2);
        assert_eq!((gate.held(), gate.waiting()), (0, 0));
    }

    #[test]
    fn an_adaptive_limit_moves_the_permits() {
        let gate_limit = Some(AdaptiveLimit {
            window: None,
            ..AdaptiveLimit::aimd()
        });
        let gate = Gate::new(&PermitConfig {
            adaptive: gate_limit.clone(),
            ..PermitConfig::default()
        });
        let _held: Vec<_> = (0..20)
            .map(|_| gate.try_enter(Criticality::Normal))
            .collect();
        assert_eq!(gate.limit(), 20);
        gate.sample(0, 1_000_000, false);
        assert_eq!(gate.limit(), 21);
        let other = PermitConfig {
            limit: 3,
            adaptive: gate_limit,
            ..PermitConfig::default()
        };
        gate.configure(&other);
        gate.after_leaving(0);
        assert_eq!(gate.limit(), 21, "the latency decides, not the setting");
    }
}
