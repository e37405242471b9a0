//! The interface for a call: it requests a ticket from the breaker and reports how it ended.
//!
//! While the breaker is closed, a call costs three loads to pass and one addition to report.

use std::sync::atomic::Ordering;

use super::circuit_breaker::CircuitBreaker;
use super::config::BreakerMode;
use super::health::Health;
use super::state::{BreakerState, BreakerTransition};
use super::ticket::{BreakerOpenError, Settlement, Ticket};

impl CircuitBreaker {
    /// Returns the current state.
    pub(crate) fn state(&self, now: u64) -> BreakerState {
        self.judge_if_due(now);
        self.word.get().state()
    }

    /// Returns the state that was decided last. Makes no judgement that is due, so it calls no
    /// listener.
    pub(crate) fn decided(&self) -> BreakerState {
        self.word.get().state()
    }

    /// Returns `true` if ordinary calls are denied, because of the state or the mode.
    pub(crate) fn is_open(&self, now: u64) -> bool {
        match self.mode() {
            BreakerMode::ForcedOpen => true,
            BreakerMode::ForcedClosed | BreakerMode::Disabled => false,
            _ => self.state(now).is_open(),
        }
    }

    /// Returns `true` if a call that is no probe would be denied. Does not count as a try.
    pub(crate) fn denies(&self, now: u64) -> bool {
        self.mode() != BreakerMode::MetricsOnly && self.is_open(now)
    }

    #[inline]
    pub(crate) fn try_ticket(&self, now: u64) -> Result<Ticket, BreakerOpenError> {
        if self.word.is_due(now) {
            self.judge(now);
        }
        let word = self.word.get();
        let free = Ticket {
            generation: word.number(),
            is_probe: false,
        };
        if self.mode.load(Ordering::Relaxed) == BreakerMode::Normal as u8
            && word.state() == BreakerState::Closed
        {
            return Ok(free);
        }
        self.try_ticket_otherwise(now, free)
    }

    /// Decides about a call when the breaker is not closed, or its mode is not `Normal`.
    fn try_ticket_otherwise(&self, now: u64, free: Ticket) -> Result<Ticket, BreakerOpenError> {
        match (self.mode(), self.word.get().state()) {
            (BreakerMode::Normal, BreakerState::Closed) => Ok(free),
            (BreakerMode::Normal, _) => self.try_ticket_when_open(now),
            (BreakerMode::ForcedOpen, _) => Err(BreakerOpenError { retry_after: None }),
            (BreakerMode::Disabled, _) => Ok(Ticket::UNCOUNTED),
            (BreakerMode::ForcedClosed, _) => Ok(free),
            // Denies nothing, but the state changes as if calls were denied.
            (BreakerMode::MetricsOnly, _) => Ok(self.try_ticket_when_open(now).unwrap_or(free)),
        }
    }

    /// Reports how a call ended, and how long it took.
    #[inline]
    pub(crate) fn settle(&self, ticket: Ticket, settlement: Settlement, now: u64, took_nanos: u64) {
        let counts = matches!(settlement, Settlement::Success | Settlement::Failure);
        let is_judged = self.word.is_due(now) || matches!(self.health, Health::Count(_));
        if ticket.is_probe || (counts && is_judged) {
            let changes = self.settle_quietly(ticket, settlement, now, took_nanos);
            self.call_listeners(&changes);
        } else if counts {
            self.count(ticket, settlement, now, took_nanos);
        }
    }

    /// Like [`CircuitBreaker::settle`], but returns the state changes for
    /// [`CircuitBreaker::call_listeners`] instead of calling the listeners.
    #[cold]
    pub(crate) fn settle_quietly(
        &self,
        ticket: Ticket,
        settlement: Settlement,
        now: u64,
        took_nanos: u64,
    ) -> Vec<BreakerTransition> {
        if ticket.is_probe {
            return Vec::from_iter(self.settle_probe(ticket, settlement, now, took_nanos));
        }
        let mut changes = Vec::new();
        if matches!(settlement, Settlement::Success | Settlement::Failure) {
            if self.word.is_due(now) {
                changes = self.judge_quietly(now);
            }
            let is_counted = self.count(ticket, settlement, now, took_nanos);
            if is_counted && matches!(self.health, Health::Count(_)) && self.looks_bad(now) {
                changes.extend(self.judge_counts(now));
            }
        }
        changes
    }

    /// Counts the end of a call, if the phase lasts in which it passed. A judgement that is due was
    /// made, because it may end the phase.
    #[inline]
    fn count(&self, ticket: Ticket, settlement: Settlement, now: u64, took_nanos: u64) -> bool {
        let is_current = ticket.generation == self.word.get().number();
        if is_current {
            let slow = took_nanos > self.slow_nanos.load(Ordering::Relaxed);
            self.health
                .add(now, settlement == Settlement::Failure, slow);
        }
        is_current
    }

    fn looks_bad(&self, now: u64) -> bool {
        let [calls, errors, slow] =
            std::array::from_fn(|at| self.limits[at].load(Ordering::Relaxed));
        self.health.reading(now).is_bad(calls, errors, slow)
    }

    fn judge_if_due(&self, now: u64) {
        if self.word.is_due(now) {
            self.judge(now);
        }
    }
}
