//! A circuit breaker for code that makes its calls without a command: the breaker and a clock.

use tidegate_core::{Clock, OnUnhandled};

use super::circuit_breaker::Breaker;
use super::config::BreakerConfig;
use super::state::BreakerState;
use super::ticket::{BreakerOpenError, Settlement, Ticket};
use crate::error::ConfigError;
use crate::key::Key;

/// A circuit breaker in front of one dependency, for code that makes its calls without a
/// [`Command`](crate::Command), which has one of its own.
///
/// ```
/// use tidegate_core::Clock;
/// use tidegate_isolate::{BreakerConfig, BreakerState, BreakerWindow, CircuitBreaker};
///
/// let window = BreakerWindow::Count(10);
/// let config = BreakerConfig { window, min_calls: 2, ..BreakerConfig::default() };
/// let breaker = CircuitBreaker::new("prices", config, Clock::system())?;
/// for _ in 0..2 {
///     breaker.try_pass()?.failure();
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// let open = breaker.try_pass().unwrap_err();
/// assert!(open.retry_after.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CircuitBreaker {
    breaker: Breaker,
    clock: Clock,
}

impl CircuitBreaker {
    /// Creates a closed breaker. `key` names it in errors.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid, and why.
    pub fn new(
        key: impl Into<Key>,
        config: BreakerConfig,
        clock: Clock,
    ) -> Result<Self, ConfigError> {
        let breaker = Breaker::new(&key.into(), config, Vec::new(), OnUnhandled::default())?;
        breaker.begin_at(clock.nanos());
        Ok(Self { breaker, clock })
    }

    /// Admits a call, or denies it. An open breaker whose sleep is over becomes half open and
    /// lets this call pass as a probe.
    ///
    /// # Errors
    ///
    /// Returns [`BreakerOpenError`], with the time after which another try makes sense.
    pub fn try_pass(&self) -> Result<Pass<'_>, BreakerOpenError> {
        let began = self.clock.nanos();
        let ticket = self.breaker.try_ticket(began)?;
        Ok(Pass {
            of: self,
            ticket: Some(ticket),
            began,
        })
    }

    /// Returns the current state.
    pub fn state(&self) -> BreakerState {
        self.breaker.state(self.clock.nanos())
    }

    /// Replaces all settings at once. The window must stay the same.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid; the old settings stay in force.
    pub fn configure(&self, config: BreakerConfig) -> Result<(), ConfigError> {
        self.breaker.configure(config)?;
        self.breaker.catch_up(self.clock.nanos());
        Ok(())
    }
}

/// A call that a [`CircuitBreaker`] let pass. The time until its end is the time that it took.
/// Dropping it reports nothing, but a probe that is dropped opens the breaker again.
#[must_use = "dropping a probe opens the breaker again"]
#[derive(Debug)]
pub struct Pass<'a> {
    of: &'a CircuitBreaker,
    ticket: Option<Ticket>,
    began: u64,
}

impl Pass<'_> {
    /// Reports that the call succeeded.
    pub fn success(mut self) {
        self.settle(Settlement::Success);
    }

    /// Reports that the call failed.
    pub fn failure(mut self) {
        self.settle(Settlement::Failure);
    }

    /// Reports that the dependency responded and the result says nothing about its health. If the
    /// call is a probe, the next call may take its place.
    pub fn ignore(mut self) {
        self.settle(Settlement::Ignored);
    }

    fn settle(&mut self, settlement: Settlement) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.of.clock.nanos();
            let took = now.saturating_sub(self.began);
            self.of.breaker.settle(ticket, settlement, now, took);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.settle(Settlement::Dropped);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::ManualClock;

    use super::*;
    use crate::breaker::BreakerWindow;

    #[test]
    fn opens_probes_and_closes_by_its_clock_and_its_settings() {
        let clock = ManualClock::new();
        let window = BreakerWindow::Count(10);
        let config = BreakerConfig {
            window,
            min_calls: 1,
            ..BreakerConfig::default()
        };
        let breaker = CircuitBreaker::new("dep", config.clone(), Clock::from(&clock)).unwrap();
        drop(breaker.try_pass().unwrap());
        breaker.try_pass().unwrap().ignore();
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.try_pass().unwrap().failure();
        assert_eq!(breaker.state(), BreakerState::Open);
        let sleep = breaker.try_pass().unwrap_err().retry_after.unwrap();
        clock.advance(sleep);
        drop(breaker.try_pass().unwrap());
        assert_eq!(breaker.state(), BreakerState::Open, "the probe was dropped");
        let short = BreakerConfig {
            sleep: Duration::from_millis(1),
            ..config
        };
        breaker.configure(short.clone()).unwrap();
        clock.advance(Duration::from_millis(2));
        breaker.try_pass().unwrap().success();
        assert_eq!(breaker.state(), BreakerState::Closed);
        let other = BreakerConfig {
            window: BreakerWindow::Count(11),
            ..short
        };
        assert!(breaker.configure(other).is_err());
    }
}
