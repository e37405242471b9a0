//! The circuit breaker: stops calling what does not answer.
//!
//! While it is closed, a call costs two loads to pass and one addition to report. State changes
//! take a short lock; what a user gave is called after it is released.
//!
//! # Invariants
//!
//! * A probe has an identity: only the calls that were let through in this half-open phase decide
//!   how it ends, and one that is dropped without a verdict opens the breaker again.
//! * A denied call never changes anything.
//! * Time is monotonic, and an argument.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{OnUnhandled, as_nanos};

use crate::{Invalid, Key};

mod config;
mod core;
mod health;
mod state;
pub(crate) mod word;

pub use self::config::{BreakerConfig, BreakerMode, BreakerWindow};
pub use self::state::BreakerState;

use self::core::Core;
use self::health::Health;
use self::state::StateWord;

/// A change of a breaker's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The key of the command.
    pub key: Key,
    /// The state that ended.
    pub from: BreakerState,
    /// The state that began.
    pub to: BreakerState,
    /// When, in nanoseconds of the clock.
    pub at_nanos: u64,
}

type Listener = Arc<dyn Fn(&Transition) + Send + Sync>;

/// A breaker in front of one dependency. All methods take the time.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{BreakerConfig, BreakerState, BreakerWindow, CircuitBreaker};
///
/// let config = BreakerConfig {
///     window: BreakerWindow::Count(10),
///     min_calls: 2,
///     ..BreakerConfig::default()
/// };
/// let breaker = CircuitBreaker::new("prices", config)?;
/// for now in [1, 2] {
///     breaker.try_pass(now).expect("it is closed").failure(now, Duration::ZERO);
/// }
/// assert_eq!(breaker.state(3), BreakerState::Open);
/// let open = breaker.try_pass(2).unwrap_err();
/// assert_eq!(open.retry_after, Some(Duration::from_secs(5)));
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
pub struct CircuitBreaker {
    key: Key,
    word: StateWord,
    mode: AtomicU8,
    health: Health,
    /// When an open breaker lets the first probe through: after this nanosecond.
    denied_until: AtomicU64,
    slow_nanos: AtomicU64,
    /// Fewest calls, percent of errors and of slow calls, for a look without the lock.
    limits: [AtomicU64; 3],
    core: Mutex<Core>,
    listeners: Vec<Listener>,
    /// Hears of listeners that panic.
    unhandled: OnUnhandled,
}

/// The breaker is open: the call was not let through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// When a call may pass again, if that is known.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(after) => write!(f, "the breaker is open, try again in {after:?}"),
            None => f.write_str("the breaker is open"),
        }
    }
}

tidegate_core::debug_as_display!(Open);

impl std::error::Error for Open {}

/// What lets a call through, without a reference to its breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    generation: u64,
    is_probe: bool,
}

impl Ticket {
    /// Of a call that no breaker hears of.
    pub(crate) const UNHEARD: Ticket = Ticket {
        generation: u64::MAX,
        is_probe: false,
    };
}

/// How a call that was let through ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    /// The dependency answered, and the answer says nothing about its health.
    Ignored,
    /// Nobody knows: the caller left.
    Dropped,
}

impl CircuitBreaker {
    /// A closed breaker.
    ///
    /// # Errors
    ///
    /// Which setting makes no sense, and why.
    pub fn new(key: impl Into<Key>, config: BreakerConfig) -> Result<Self, Invalid> {
        Self::with_listeners(key, config, Vec::new(), OnUnhandled::default())
    }

    pub(crate) fn with_listeners(
        key: impl Into<Key>,
        config: BreakerConfig,
        listeners: Vec<Listener>,
        unhandled: OnUnhandled,
    ) -> Result<Self, Invalid> {
        let key = key.into();
        config.validate(&key)?;
        Ok(Self {
            key,
            word: StateWord::default(),
            mode: AtomicU8::new(config.mode as u8),
            health: Health::new(config.window),
            denied_until: AtomicU64::new(0),
            slow_nanos: AtomicU64::new(config.slow_call.map_or(u64::MAX, as_nanos)),
            limits: limits(&config).map(AtomicU64::new),
            core: Mutex::new(Core::new(config)),
            listeners,
            unhandled,
        })
    }

    /// Counts the time in its states from `now` on.
    pub(crate) fn begin_at(&self, now: u64) {
        self.lock().since = now;
    }

    /// Calls `listen` at every change of state, on the thread whose call caused it.
    pub fn on_transition(mut self, listen: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.listeners.push(Arc::new(listen));
        self
    }

    /// Lets a call through, or not. An open breaker whose sleep is over becomes half open and
    /// lets this call through as a probe.
    ///
    /// # Errors
    ///
    /// [`Open`], with the time after which it makes sense to try again.
    pub fn try_pass(&self, now: u64) -> Result<Pass<'_>, Open> {
        let ticket = self.try_ticket(now)?;
        Ok(Pass {
            of: self,
            ticket: Some(ticket),
            now,
        })
    }

    /// Whether a call would be let through now. Changes nothing.
    pub fn would_allow(&self, now: u64) -> bool {
        match self.mode() {
            BreakerMode::ForcedOpen => false,
            BreakerMode::Normal => {
                self.judge_if_due(now);
                match self.word.get().state() {
                    BreakerState::Open => now > self.denied_until.load(Ordering::Relaxed),
                    BreakerState::HalfOpen => self.lock().has_probe(now),
                    _ => true,
                }
            }
            _ => true,
        }
    }

    /// Where it stands.
    pub fn state(&self, now: u64) -> BreakerState {
        self.judge_if_due(now);
        self.word.get().state()
    }

    /// Whether calls are denied, in whichever way.
    pub fn is_open(&self, now: u64) -> bool {
        match self.mode() {
            BreakerMode::ForcedOpen => true,
            BreakerMode::ForcedClosed | BreakerMode::Disabled => false,
            _ => self.state(now).is_open(),
        }
    }

    /// What the breaker does with its judgement.
    pub fn mode(&self) -> BreakerMode {
        match self.mode.load(Ordering::Relaxed) {
            1 => BreakerMode::MetricsOnly,
            2 => BreakerMode::Disabled,
            3 => BreakerMode::ForcedOpen,
            4 => BreakerMode::ForcedClosed,
            _ => BreakerMode::Normal,
        }
    }

    /// How often each state was entered: closed, open, half open, ramping.
    pub fn transitions(&self) -> [u64; 4] {
        self.lock().entered
    }

    /// How long the breaker was in each state until `now`: closed, open, half open, ramping. A
    /// breaker is closed from the zero of its clock on.
    pub fn time_in_states(&self, now: u64) -> [Duration; 4] {
        let core = self.lock();
        let mut times = core.times;
        let state = self.word.get().state() as usize;
        times[state] += now.saturating_sub(core.since);
        times.map(Duration::from_nanos)
    }

    /// Changes the settings, at once and all together; the window keeps its shape.
    ///
    /// # Errors
    ///
    /// Which setting makes no sense; the old ones stay in force.
    pub fn configure(&self, config: BreakerConfig) -> Result<(), Invalid> {
        config.validate(&self.key)?;
        let mut core = self.lock();
        if core.config.window != config.window {
            let value = config.window;
            let reason = "the window is fixed for the life of the breaker";
            return Err(Invalid::new(&*self.key, "breaker.window", value, reason));
        }
        self.mode.store(config.mode as u8, Ordering::Relaxed);
        let slow = config.slow_call.map_or(u64::MAX, as_nanos);
        self.slow_nanos.store(slow, Ordering::Relaxed);
        for (limit, new) in self.limits.iter().zip(limits(&config)) {
            limit.store(new, Ordering::Relaxed);
        }
        core.config = config;
        Ok(())
    }

    /// The settings in force.
    pub fn config(&self) -> BreakerConfig {
        self.lock().config.clone()
    }

    /// Calls, failed ones and slow ones in the window.
    pub fn counts(&self, now: u64) -> (u64, u64, u64) {
        let reading = self.health.reading(now);
        (reading.total, reading.errors, reading.slow)
    }

    #[inline]
    pub(crate) fn try_ticket(&self, now: u64) -> Result<Ticket, Open> {
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

    /// Lets a call through a breaker that is not closed, or not in use.
    fn try_ticket_otherwise(&self, now: u64, free: Ticket) -> Result<Ticket, Open> {
        match (self.mode(), self.word.get().state()) {
            (BreakerMode::Normal, BreakerState::Closed) => Ok(free),
            (BreakerMode::Normal, _) => self.try_ticket_when_open(now),
            (BreakerMode::ForcedOpen, _) => Err(Open { retry_after: None }),
            (BreakerMode::Disabled, _) => Ok(Ticket::UNHEARD),
            (BreakerMode::ForcedClosed, _) => Ok(free),
            // Nothing is denied, and the states go on as if it were.
            (BreakerMode::MetricsOnly, _) => Ok(self.try_ticket_when_open(now).unwrap_or(free)),
        }
    }

    /// Reports how a call ended that took so long.
    #[inline]
    pub(crate) fn settle(&self, ticket: Ticket, verdict: Verdict, now: u64, took_nanos: u64) {
        if ticket.is_probe {
            self.settle_probe(ticket, verdict, now, took_nanos);
            return;
        }
        let counts = matches!(verdict, Verdict::Success | Verdict::Failure);
        if counts && self.word.is_due(now) {
            self.judge(now);
        }
        // Looked at after the judgement: that may have ended the phase of the call.
        if counts && ticket.generation == self.word.get().generation() {
            let slow = took_nanos > self.slow_nanos.load(Ordering::Relaxed);
            self.health.add(now, verdict == Verdict::Failure, slow);
            if matches!(self.health, Health::Count(_)) && self.looks_bad(now) {
                self.judge_counts(now);
            }
        }
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

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn limits(config: &BreakerConfig) -> [u64; 3] {
    [
        u64::from(config.min_calls),
        u64::from(config.error_percent),
        u64::from(config.slow_percent),
    ]
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker")
            .field("key", &self.key)
            .field("state", &self.word.get().state())
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}

/// A call that was let through. It ends as a success, a failure, ignored, or dropped: a dropped
/// probe opens the breaker again, any other dropped pass says nothing.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{BreakerConfig, CircuitBreaker};
///
/// let breaker = CircuitBreaker::new("prices", BreakerConfig::default())?;
/// let pass = breaker.try_pass(0).expect("it is closed");
/// pass.success(1_000, Duration::from_nanos(1_000));
/// assert_eq!(breaker.counts(1_000), (1, 0, 0));
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[must_use = "dropping a probe opens the breaker again"]
#[derive(Debug)]
pub struct Pass<'a> {
    of: &'a CircuitBreaker,
    ticket: Option<Ticket>,
    now: u64,
}

impl Pass<'_> {
    /// The call succeeded.
    pub fn success(self, now: u64, took: Duration) {
        self.settle(Verdict::Success, now, took);
    }

    /// The call failed.
    pub fn failure(self, now: u64, took: Duration) {
        self.settle(Verdict::Failure, now, took);
    }

    /// The dependency answered, and the answer says nothing about its health. A probe's place
    /// is free for the next call.
    pub fn ignore(self, now: u64) {
        self.settle(Verdict::Ignored, now, Duration::ZERO);
    }

    /// Whether this call is a probe.
    pub fn is_probe(&self) -> bool {
        self.ticket.is_some_and(|ticket| ticket.is_probe)
    }

    fn settle(mut self, verdict: Verdict, now: u64, took: Duration) {
        if let Some(ticket) = self.ticket.take() {
            self.of.settle(ticket, verdict, now, as_nanos(took));
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // Nobody says when: the sleep counts from the moment that it was let through.
            self.of.settle(ticket, Verdict::Dropped, self.now, 0);
        }
    }
}

#[cfg(test)]
mod tests;
