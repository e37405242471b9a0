//! The circuit breaker of one dependency: its parts, its settings and its statistics.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::OnUnhandled;
use tidegate_core::internal::as_nanos;

use super::config::{BreakerConfig, BreakerMode, BreakerWindow};
use super::core::Core;
use super::state::{BreakerState, OnTransition};
use super::word::BreakerWord;
use crate::error::ConfigError;
use crate::key::Key;
use crate::lock::lock;
use crate::metrics::Counts;

/// A circuit breaker in front of one dependency. Methods that depend on time receive it as an
/// argument.
pub(crate) struct Breaker {
    pub(super) key: Key,
    pub(super) word: BreakerWord,
    pub(super) mode: AtomicU8,
    /// The window of time that is judged; `None` if the last calls are, which the lock protects.
    pub(super) window: Option<Counts<3>>,
    /// The end of the sleep: an open breaker lets the first probe through after this nanosecond.
    pub(super) denied_until: AtomicU64,
    pub(super) slow_nanos: AtomicU64,
    counts_rejections: AtomicBool,
    core: Mutex<Core>,
    pub(super) listeners: Vec<OnTransition>,
    /// Receives the panics of listeners.
    pub(super) unhandled: OnUnhandled,
}

impl Breaker {
    /// Creates a closed breaker.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid, and why.
    pub(crate) fn new(
        key: &Key,
        config: BreakerConfig,
        listeners: Vec<OnTransition>,
        unhandled: OnUnhandled,
    ) -> Result<Self, ConfigError> {
        config.validate(key)?;
        Ok(Self {
            key: key.clone(),
            word: BreakerWord::default(),
            mode: AtomicU8::new(config.mode as u8),
            window: match config.window {
                BreakerWindow::Time(window) => Some(Counts::new(window)),
                BreakerWindow::Count(_) => None,
            },
            denied_until: AtomicU64::new(0),
            slow_nanos: AtomicU64::new(config.slow_call.map_or(u64::MAX, as_nanos)),
            counts_rejections: AtomicBool::new(config.count_rejections),
            core: Mutex::new(Core::new(config)),
            listeners,
            unhandled,
        })
    }

    /// Starts counting the time in each state at `now`.
    pub(crate) fn begin_at(&self, now: u64) {
        self.lock().since = now;
    }

    /// Returns how the breaker applies its state to calls.
    pub(crate) fn mode(&self) -> BreakerMode {
        BreakerMode::ALL[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    /// Returns how often each state was entered: closed, open, half open, ramping.
    pub(crate) fn transitions(&self) -> [u64; 4] {
        self.lock().entered
    }

    /// Returns how long the breaker was in each state until `now`: closed, open, half open,
    /// ramping. A new breaker counts as closed since time zero of its clock.
    pub(crate) fn time_in_states(&self, now: u64) -> [Duration; 4] {
        let core = self.lock();
        let mut times = core.times;
        let state = self.word.get().state() as usize;
        times[state] += now.saturating_sub(core.since);
        times.map(Duration::from_nanos)
    }

    /// Replaces all settings at once. The window must stay the same. Changes that follow from the new
    /// settings are made by the next call, or by [`Breaker::catch_up`]. A breaker that becomes disabled
    /// no longer counts the calls in flight.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid; the old settings stay in force.
    pub(crate) fn configure(&self, config: BreakerConfig) -> Result<(), ConfigError> {
        config.validate(&self.key)?;
        let mut core = self.lock();
        if core.config.window != config.window {
            let value = config.window;
            let reason = "the window is fixed for the life of the breaker";
            return Err(ConfigError::new(&self.key, "breaker.window", value, reason));
        }
        self.mode.store(config.mode as u8, Ordering::Relaxed);
        let slow = config.slow_call.map_or(u64::MAX, as_nanos);
        self.slow_nanos.store(slow, Ordering::Relaxed);
        self.counts_rejections
            .store(config.count_rejections, Ordering::Relaxed);
        let before = core.config.mode;
        core.config = config;
        if core.config.mode == BreakerMode::Disabled && before != BreakerMode::Disabled {
            self.forget_calls_in_flight(&mut core);
        }
        if self.word.get().state() == BreakerState::Open {
            self.set_sleep(&core, core.since);
        }
        Ok(())
    }

    /// Returns `true` if a call that a full bulkhead rejects counts as failed.
    pub(crate) fn counts_rejections(&self) -> bool {
        self.counts_rejections.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }
}

debug_fields!(Breaker, this =>
    key: this.key, state: this.word.get().state(), mode: this.mode());
