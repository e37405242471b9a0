//! The part of a breaker that its lock protects, and the decisions that depend on it alone.

use std::time::Duration;

use tidegate_core::internal::as_nanos;

use super::config::{BreakerConfig, BreakerWindow};
use super::health::{LastCalls, Reading};

/// The fields that the breaker's lock protects.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: BreakerConfig,
    /// The calls to judge, if the window is a number of calls.
    pub(super) last: LastCalls,
    /// The number of the newest bucket when the windows were last judged. All windows that ended
    /// before this bucket are judged.
    pub(super) judged: u64,
    /// How many times in a row the breaker opened again without closing in between; the sleep grows
    /// with it.
    pub(super) relapses: u32,
    pub(super) probes_out: u32,
    pub(super) successes: u32,
    /// When the current state began.
    pub(super) since: u64,
    /// Calls that arrived while ramping.
    pub(super) ramp_calls: u64,
    pub(super) entered: [u64; 4],
    pub(super) times: [u64; 4],
}

impl Core {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self {
            last: LastCalls::new(config.window),
            config,
            judged: 0,
            relapses: 0,
            probes_out: 0,
            successes: 0,
            since: 0,
            ramp_calls: 0,
            entered: [0; 4],
            times: [0; 4],
        }
    }

    /// Returns `true` if fewer probes are in flight than are allowed and still needed.
    pub(super) fn has_probe(&self) -> bool {
        let wanted = self.config.successes.saturating_sub(self.successes);
        self.probes_out < self.config.probes.min(wanted)
    }

    /// Returns `true` if enough probes have succeeded. A probe is not always the one that finds out:
    /// the number may have been lowered.
    pub(super) fn is_proven(&self) -> bool {
        self.successes >= self.config.successes
    }

    pub(super) fn probes_are_late(&self, now: u64) -> bool {
        now.saturating_sub(self.since) > as_nanos(self.config.probe_limit)
    }

    pub(super) fn is_bad(&self, reading: Reading) -> bool {
        let least = match self.config.window {
            BreakerWindow::Count(calls) => self.config.min_calls.min(calls),
            BreakerWindow::Time(_) => self.config.min_calls,
        };
        reading.is_bad(
            u64::from(least),
            u64::from(self.config.error_percent),
            u64::from(self.config.slow_percent),
        )
    }

    /// Returns the length of the sleep after the breaker opens: it grows with `relapses` up to
    /// `max_sleep`.
    pub(super) fn sleep_nanos(&self) -> u64 {
        let factor = self
            .config
            .sleep_factor
            .powi(self.relapses.min(1_000) as i32);
        let nanos = as_nanos(self.config.sleep) as f64 * factor;
        let longest = as_nanos(self.config.max_sleep.max(self.config.sleep));
        if nanos.is_finite() {
            (nanos as u64).min(longest)
        } else {
            longest
        }
    }

    /// Returns the share of calls that pass while ramping, in thousandths.
    pub(super) fn ramp_share(&self, now: u64) -> u64 {
        let ramp = as_nanos(self.config.ramp.unwrap_or(Duration::ZERO)).max(1);
        let passed = now.saturating_sub(self.since);
        // Starts at a tenth: with a share of zero, no call would pass and the breaker would learn
        // nothing.
        (passed.saturating_mul(1000) / ramp).clamp(100, 1000)
    }
}
