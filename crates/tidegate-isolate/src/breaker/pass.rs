//! The interface for a call: it requests a ticket from the breaker and reports how it ended.
//!
//! While the breaker is closed, a call costs three loads to pass and one addition to report.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::internal::as_nanos;

use super::circuit_breaker::CircuitBreaker;
use super::config::BreakerMode;
use super::health::Health;
use super::state::{BreakerState, BreakerTransition};
use super::ticket::{BreakerOpenError, Settlement, Ticket};

impl CircuitBreaker {
    /// Lets a call pass, or denies it. An open breaker whose sleep is over becomes half open and
    /// lets this call pass as a probe.
    ///
    /// # Errors
    ///
    /// Returns [`BreakerOpenError`], with the time after which a retry makes sense.
    pub fn try_pass(&self, now: u64) -> Result<Pass<'_>, BreakerOpenError> {
        let ticket = self.try_ticket(now)?;
        Ok(Pass {
            of: self,
            ticket: Some(ticket),
            now,
        })
    }

    /// Returns `true` if a call would pass now. Takes no probe, but makes a judgement that is due,
    /// and opens a half-open breaker whose probes are late.
    pub fn would_allow(&self, now: u64) -> bool {
        match self.mode() {
            BreakerMode::ForcedOpen => false,
            BreakerMode::Normal => {
                self.judge_if_due(now);
                match self.word.get().state() {
                    BreakerState::Open => now > self.denied_until.load(Ordering::Relaxed),
                    BreakerState::HalfOpen => self.has_room_for_a_probe(now),
                    _ => true,
                }
            }
            _ => true,
        }
    }

    /// Returns the current state.
    pub fn state(&self, now: u64) -> BreakerState {
        self.judge_if_due(now);
        self.word.get().state()
    }

    /// Returns the state that was decided last. Makes no judgement that is due, so it calls no
    /// listener.
    pub(crate) fn decided(&self) -> BreakerState {
        self.word.get().state()
    }

    /// Returns `true` if ordinary calls are denied, because of the state or the mode.
    pub fn is_open(&self, now: u64) -> bool {
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
            generation: word.generation(),
            is_probe: false,
        };
        if self.mode.load(Ordering::Relaxed) == BreakerMode::Normal as u8 && word.is_closed() {
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
        if ticket.is_probe {
            let change = self.settle_probe(ticket, settlement, now, took_nanos);
            self.call_listeners(change.as_slice());
            return;
        }
        let counts = matches!(settlement, Settlement::Success | Settlement::Failure);
        if counts && self.word.is_due(now) {
            self.judge(now);
        }
        // Checked after the judgement, which may have ended the phase of the call.
        if counts && ticket.generation == self.word.get().generation() {
            let slow = took_nanos > self.slow_nanos.load(Ordering::Relaxed);
            self.health
                .add(now, settlement == Settlement::Failure, slow);
            if matches!(self.health, Health::Count(_)) && self.looks_bad(now) {
                let change = self.judge_counts(now);
                self.call_listeners(change.as_slice());
            }
        }
    }

    /// Reports like `settle`, on a thread that must not run user code. Returns the changes of state,
    /// with which the caller calls the listeners on another thread.
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
        let counts = matches!(settlement, Settlement::Success | Settlement::Failure);
        if counts && self.word.is_due(now) {
            changes = self.judge_quietly(now);
        }
        if counts && ticket.generation == self.word.get().generation() {
            let slow = took_nanos > self.slow_nanos.load(Ordering::Relaxed);
            self.health
                .add(now, settlement == Settlement::Failure, slow);
            if matches!(self.health, Health::Count(_)) && self.looks_bad(now) {
                changes.extend(self.judge_counts(now));
            }
        }
        changes
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

/// A call that the breaker let pass. It ends as a success, a failure, ignored, or dropped. A
/// dropped probe opens the breaker again; any other dropped pass has no effect.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{BreakerConfig, CircuitBreaker};
///
/// let breaker = CircuitBreaker::new("prices", BreakerConfig::default())?;
/// let pass = breaker.try_pass(0).expect("it is closed");
/// pass.success(1_000, Duration::from_nanos(1_000));
/// assert_eq!(breaker.counts(1_000), (1, 0, 0));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[must_use = "dropping a probe opens the breaker again"]
#[derive(Debug)]
pub struct Pass<'a> {
    of: &'a CircuitBreaker,
    ticket: Option<Ticket>,
    now: u64,
}

impl Pass<'_> {
    /// Reports that the call succeeded.
    pub fn success(self, now: u64, took: Duration) {
        self.settle(Settlement::Success, now, took);
    }

    /// Reports that the call failed.
    pub fn failure(self, now: u64, took: Duration) {
        self.settle(Settlement::Failure, now, took);
    }

    /// Reports that the dependency responded and the result says nothing about its health. If the
    /// call is a probe, the next call may take its place.
    pub fn ignore(self, now: u64) {
        self.settle(Settlement::Ignored, now, Duration::ZERO);
    }

    /// Returns `true` if this call is a probe.
    pub fn is_probe(&self) -> bool {
        self.ticket.is_some_and(|ticket| ticket.is_probe)
    }

    fn settle(mut self, settlement: Settlement, now: u64, took: Duration) {
        if let Some(ticket) = self.ticket.take() {
            self.of.settle(ticket, settlement, now, as_nanos(took));
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // The time of the drop is unknown, so the sleep counts from the time at which the call
            // passed.
            self.of.settle(ticket, Settlement::Dropped, self.now, 0);
        }
    }
}
