//! The interface for a call: it requests a ticket from the breaker and reports how it ended.
//!
//! While the breaker is closed, a call costs three loads to pass and one addition to report.

use std::sync::atomic::Ordering;

use super::circuit_breaker::Breaker;
use super::config::BreakerMode;
use super::state::{BreakerState, BreakerTransition};
use super::ticket::{BreakerOpenError, Settlement, Ticket};
use crate::metrics::Counts;

impl Breaker {
    /// Returns the current state.
    pub(crate) fn state(&self, now: u64) -> BreakerState {
        self.judge_if_due(now);
        // Without a window of time, nothing else ends a ramp before the next call.
        if self.word.get().state() == BreakerState::Ramping {
            self.catch_up(now);
        }
        self.word.get().state()
    }

    /// Returns the state that was decided last. Makes no judgement that is due, so it calls no
    /// listener.
    pub(crate) fn decided(&self) -> BreakerState {
        self.word.get().state()
    }

    /// Returns `true` if ordinary calls are denied, because of the state or the mode. Does not count
    /// as a try.
    pub(crate) fn is_open(&self, now: u64) -> bool {
        match self.mode() {
            BreakerMode::ForcedOpen => true,
            BreakerMode::Normal => self.state(now).is_open(),
            _ => false,
        }
    }

    /// Returns the denial of a call that has passed with this ticket and has waited since, if the
    /// breaker denies it now: it has opened, or its mode has changed. Makes no judgement that is due, so it
    /// calls no listener.
    pub(crate) fn denial_since(&self, ticket: Ticket, now: u64) -> Option<BreakerOpenError> {
        let word = self.word.get();
        // Any other call of an open phase has passed because another mode let all calls pass.
        let is_probe = ticket.is_probe && ticket.generation == word.number();
        match (self.mode(), word.state()) {
            (BreakerMode::ForcedOpen, _) => Some(BreakerOpenError { retry_after: None }),
            (BreakerMode::Normal, BreakerState::Open) => Some(self.denial(now)),
            (BreakerMode::Normal, BreakerState::HalfOpen) if !is_probe => {
                Some(BreakerOpenError { retry_after: None })
            }
            _ => None,
        }
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
        if let Some(window) = &self.window
            && counts
            && !ticket.is_probe
            && !self.word.is_due(now)
        {
            self.count(window, ticket, settlement, now, took_nanos);
        } else if ticket.is_probe || counts {
            let changes = self.settle_quietly(ticket, settlement, now, took_nanos);
            self.call_listeners(&changes);
        }
    }

    /// Like [`Breaker::settle`], but returns the state changes for
    /// [`Breaker::call_listeners`] instead of calling the listeners.
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
            match &self.window {
                Some(window) => self.count(window, ticket, settlement, now, took_nanos),
                None => {
                    let call = (settlement == Settlement::Failure, self.is_slow(took_nanos));
                    changes.extend(self.judge_call(ticket, call, now));
                }
            }
        }
        changes
    }

    /// Counts the end of a call, if the phase lasts in which it passed. A judgement that is due was
    /// made, because it may end the phase.
    #[inline]
    fn count(
        &self,
        window: &Counts<3>,
        ticket: Ticket,
        settlement: Settlement,
        now: u64,
        took_nanos: u64,
    ) {
        if ticket.generation != self.word.get().number() {
            return;
        }
        window.add(now, 0);
        if settlement == Settlement::Failure {
            window.add(now, 1);
        }
        if self.is_slow(took_nanos) {
            window.add(now, 2);
        }
    }

    #[inline]
    pub(super) fn is_slow(&self, took_nanos: u64) -> bool {
        took_nanos > self.slow_nanos.load(Ordering::Relaxed)
    }

    pub(crate) fn judge_if_due(&self, now: u64) {
        if self.word.is_due(now) {
            self.judge(now);
        }
    }
}
