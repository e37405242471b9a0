//! Decides when a breaker opens, lets probes pass, ramps up and closes. Every transition is made
//! under the breaker's lock. The listeners are called after the lock is released.
//!
//! The diagram of the transitions is in `state`. A breaker over a time window is judged when a
//! bucket has closed, a breaker over the last calls after each call.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::Unhandled;
use tidegate_core::internal::{as_nanos, trace};

use super::circuit_breaker::Breaker;
use super::core::Core;
use super::health;
use super::state::{BreakerState, BreakerTransition};
use super::ticket::{BreakerOpenError, Settlement, Ticket};
use crate::error::contain;
use crate::metrics::Counts;

impl Breaker {
    /// Judges every time window that has ended since the last judgement, in order, and closes a
    /// breaker whose ramp is over. A breaker over the last calls only does the second.
    #[cold]
    pub(super) fn judge(&self, now: u64) {
        let changes = self.judge_quietly(now);
        self.call_listeners(&changes);
    }

    /// Judges like `judge`, and leaves it to the caller to call the listeners.
    pub(super) fn judge_quietly(&self, now: u64) -> Vec<BreakerTransition> {
        let mut changes = Vec::new();
        let Some(counts) = &self.window else {
            let core = self.lock();
            self.word.judge(u64::MAX, || ());
            drop(core);
            changes.extend(self.end_ramp(now));
            return changes;
        };
        let mut core = self.lock();
        let bucket = counts.bucket_of(now);
        if bucket > core.judged || core.judged == 0 {
            let next = counts.start_of(bucket.saturating_add(1));
            self.word.judge(next, || {
                self.judge_closed(&mut core, counts, now, &mut changes);
            });
        }
        drop(core);
        changes.extend(self.end_ramp(now));
        changes
    }

    /// Judges the windows that have ended since the last judgement. If one of them is bad, opens
    /// the breaker with the end of that window as the time of the transition.
    fn judge_closed(
        &self,
        core: &mut Core,
        counts: &Counts<3>,
        now: u64,
        changes: &mut Vec<BreakerTransition>,
    ) {
        let closings = counts.closings(now, core.judged);
        core.judged = counts.bucket_of(now);
        for (end, window) in closings {
            let state = self.word.get().state();
            let judged = matches!(state, BreakerState::Closed | BreakerState::Ramping);
            if judged && core.is_bad(health::reading(window)) {
                let at = counts.start_of(end);
                changes.push(self.open(core, at, state == BreakerState::Ramping));
            }
        }
    }

    /// Adds a call to the last calls and judges them, if the phase lasts in which the call passed. The
    /// caller calls the listeners.
    pub(super) fn judge_call(
        &self,
        ticket: Ticket,
        (error, slow): (bool, bool),
        now: u64,
    ) -> Option<BreakerTransition> {
        let mut core = self.lock();
        let word = self.word.get();
        if ticket.generation != word.number() {
            return None;
        }
        let reading = core.last.add(error, slow);
        let state = word.state();
        let judged = matches!(state, BreakerState::Closed | BreakerState::Ramping);
        let is_bad = judged && core.is_bad(reading);
        is_bad.then(|| self.open(&mut core, now, state == BreakerState::Ramping))
    }

    /// Returns a ticket for a call if the open, half-open or ramping breaker lets it pass. An open
    /// breaker whose sleep is not over denies the call without taking the lock.
    #[cold]
    pub(super) fn try_ticket_when_open(&self, now: u64) -> Result<Ticket, BreakerOpenError> {
        let until = self.denied_until.load(Ordering::Relaxed);
        if self.word.get().state() == BreakerState::Open && now <= until {
            return Err(denial(now, until));
        }
        let mut changes = Vec::from_iter(self.end_ramp(now));
        let mut core = self.lock();
        let answer = self.decide(&mut core, now, &mut changes);
        drop(core);
        self.call_listeners(&changes);
        answer
    }

    fn decide(
        &self,
        core: &mut Core,
        now: u64,
        changes: &mut Vec<BreakerTransition>,
    ) -> Result<Ticket, BreakerOpenError> {
        let word = self.word.get();
        let until = self.denied_until.load(Ordering::Relaxed);
        match word.state() {
            BreakerState::Open if now > until => {
                changes.push(self.go(core, BreakerState::HalfOpen, now));
                (core.probes_out, core.successes) = (0, 0);
                Ok(self.probe(core))
            }
            BreakerState::HalfOpen if core.is_proven() => {
                changes.push(self.close(core, now));
                self.decide(core, now, changes)
            }
            BreakerState::HalfOpen if core.probes_are_late(now) => {
                changes.push(self.open(core, now, true));
                Err(self.denial(now))
            }
            BreakerState::HalfOpen if core.has_probe() => Ok(self.probe(core)),
            BreakerState::Open => Err(self.denial(now)),
            BreakerState::HalfOpen => Err(BreakerOpenError { retry_after: None }),
            BreakerState::Ramping => {
                let share = core.ramp_share(now);
                let before = core.ramp_calls * share / 1000;
                core.ramp_calls += 1;
                if core.ramp_calls * share / 1000 > before {
                    Ok(self.free())
                } else {
                    Err(BreakerOpenError { retry_after: None })
                }
            }
            BreakerState::Closed => Ok(self.free()),
        }
    }

    /// Applies the verdict of a probe. A failed, slow or dropped probe opens the breaker again. An
    /// ignored one only makes room for the next probe. The verdict of a probe of an earlier
    /// half-open phase is ignored. The caller calls the listeners.
    #[cold]
    pub(super) fn settle_probe(
        &self,
        ticket: Ticket,
        settlement: Settlement,
        now: u64,
        took: u64,
    ) -> Option<BreakerTransition> {
        let mut core = self.lock();
        let word = self.word.get();
        if word.number() != ticket.generation || word.state() != BreakerState::HalfOpen {
            return None;
        }
        core.probes_out -= 1;
        match settlement {
            Settlement::Ignored => None,
            Settlement::Success if !self.is_slow(took) => {
                core.successes += 1;
                core.is_proven().then(|| self.close(&mut core, now))
            }
            _ => Some(self.open(&mut core, now, true)),
        }
    }

    fn probe(&self, core: &mut Core) -> Ticket {
        core.probes_out += 1;
        Ticket {
            is_probe: true,
            ..self.free()
        }
    }

    fn free(&self) -> Ticket {
        Ticket {
            generation: self.word.get().number(),
            is_probe: false,
        }
    }

    pub(super) fn denial(&self, now: u64) -> BreakerOpenError {
        denial(now, self.denied_until.load(Ordering::Relaxed))
    }

    fn open(&self, core: &mut Core, at: u64, is_relapse: bool) -> BreakerTransition {
        core.relapses = if is_relapse { core.relapses + 1 } else { 0 };
        self.set_sleep(core, at);
        self.go(core, BreakerState::Open, at)
    }

    /// Sets the end of the sleep of a breaker that has been open since `since`.
    pub(super) fn set_sleep(&self, core: &Core, since: u64) {
        let until = since.saturating_add(core.sleep_nanos());
        self.denied_until.store(until, Ordering::Relaxed);
    }

    /// Makes the changes that follow from new settings alone: closes a half-open breaker of which fewer
    /// successes are required now, and a ramping one whose ramp is shorter now. Calls the listeners.
    pub(crate) fn catch_up(&self, now: u64) {
        let mut changes = Vec::new();
        let mut core = self.lock();
        if self.word.get().state() == BreakerState::HalfOpen && core.is_proven() {
            changes.push(self.close(&mut core, now));
        }
        drop(core);
        changes.extend(self.end_ramp(now));
        self.call_listeners(&changes);
    }

    /// Begins a new phase of the same state: the results of calls that are in flight, also of probes, no
    /// longer count.
    pub(super) fn forget_calls_in_flight(&self, core: &mut Core) {
        core.probes_out = 0;
        self.change_to(self.word.get().state());
    }

    /// Closes the breaker and forgets what it has counted, as if it were new. Its mode stays: a
    /// breaker that is forced open still denies every call. Results of calls that are in flight,
    /// also of probes, no longer count.
    pub(crate) fn reset(&self, now: u64) {
        let mut core = self.lock();
        self.restart(&mut core, now);
        core.relapses = 0;
        self.denied_until.store(0, Ordering::Relaxed);
        let change = match self.word.get().state() {
            BreakerState::Closed => {
                self.forget_calls_in_flight(&mut core);
                None
            }
            _ => Some(self.go(&mut core, BreakerState::Closed, now)),
        };
        drop(core);
        self.call_listeners(change.as_slice());
    }

    /// Empties the window, and marks the windows that ended before as judged.
    fn restart(&self, core: &mut Core, now: u64) {
        core.last.clear();
        if let Some(counts) = &self.window {
            counts.restart(now);
            core.judged = core.judged.max(counts.bucket_of(now));
        }
        core.ramp_calls = 0;
    }

    fn close(&self, core: &mut Core, now: u64) -> BreakerTransition {
        self.restart(core, now);
        match core.config.ramp {
            Some(ramp) if !ramp.is_zero() => self.go(core, BreakerState::Ramping, now),
            _ => {
                core.relapses = 0;
                self.go(core, BreakerState::Closed, now)
            }
        }
    }

    /// Closes a breaker whose ramp is over. The caller calls the listeners.
    fn end_ramp(&self, now: u64) -> Option<BreakerTransition> {
        if self.word.get().state() != BreakerState::Ramping {
            return None;
        }
        let mut core = self.lock();
        let ramp = as_nanos(core.config.ramp.unwrap_or(Duration::ZERO));
        let over = now.saturating_sub(core.since) >= ramp;
        let ends = self.word.get().state() == BreakerState::Ramping && over;
        ends.then(|| {
            core.relapses = 0;
            self.go(&mut core, BreakerState::Closed, now)
        })
    }

    fn go(&self, core: &mut Core, to: BreakerState, at: u64) -> BreakerTransition {
        let from = self.word.get().state();
        // `at` may be slightly earlier than `since`, which another thread has set. `since` never
        // goes back, so no time is counted twice.
        let since = core.since.max(at);
        core.times[from as usize] += since - core.since;
        core.entered[to as usize] += 1;
        core.since = since;
        self.change_to(to);
        BreakerTransition {
            key: self.key.clone(),
            from,
            to,
            at_nanos: at,
        }
    }

    /// Begins a phase. Called only under the breaker's lock, so no other thread does.
    fn change_to(&self, state: BreakerState) {
        let changed = self.word.change(self.word.get(), state);
        debug_assert!(changed.is_some(), "edges are taken under the lock");
    }

    /// Reports the changes and calls the listeners, one after the other. A listener that panics is
    /// reported and does not stop the others.
    pub(crate) fn call_listeners(&self, changes: &[BreakerTransition]) {
        for change in changes {
            let (from, to) = (change.from.name(), change.to.name());
            trace::breaker_changed(&self.key, from, to, change.to == BreakerState::Open);
            for listener in &self.listeners {
                if let Err(message) = contain(|| listener(change)) {
                    let message = &*message;
                    self.unhandled
                        .report(&self.key, &Unhandled::HookPanic { message });
                }
            }
        }
    }
}

/// Returns the error of a call at `now`. The first call that may pass comes after `until`, and not
/// at that nanosecond.
fn denial(now: u64, until: u64) -> BreakerOpenError {
    let left = until.saturating_sub(now).saturating_add(1);
    BreakerOpenError {
        retry_after: Some(Duration::from_nanos(left)),
    }
}
