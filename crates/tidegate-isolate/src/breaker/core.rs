//! What only the holder of a breaker's lock touches, and what follows from it alone.

use std::time::Duration;

use tidegate_core::as_nanos;

use super::config::BreakerConfig;
use super::health::Reading;

/// What only the holder of the lock touches.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: BreakerConfig,
    /// The last bucket whose beginning was judged.
    pub(super) judged: u64,
    /// Failed sleeps in a row, for the growing sleep.
    pub(super) relapses: u32,
    pub(super) probes_out: u32,
    pub(super) successes: u32,
    /// When the present state began.
    pub(super) since: u64,
    /// Calls that came while ramping.
    pub(super) ramp_calls: u64,
    pub(super) entered: [u64; 4],
    pub(super) times: [u64; 4],
}

impl Core {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self {
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

    /// Whether another probe may go out.
    pub(super) fn has_probe(&self, now: u64) -> bool {
        let wanted = self.config.successes.saturating_sub(self.successes);
        self.probes_out < self.config.probes.min(wanted) || self.probes_are_late(now)
    }

    pub(super) fn probes_are_late(&self, now: u64) -> bool {
        now.saturating_sub(self.since) > as_nanos(self.config.probe_limit)
    }

    pub(super) fn is_bad(&self, reading: Reading) -> bool {
        reading.is_bad(
            u64::from(self.config.min_calls),
            u64::from(self.config.error_percent),
            u64::from(self.config.slow_percent),
        )
    }

    /// The sleep after this trip.
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

    /// The share of the calls that passes while ramping, in thousandths.
    pub(super) fn ramp_share(&self, now: u64) -> u64 {
        let ramp = as_nanos(self.config.ramp.unwrap_or(Duration::ZERO)).max(1);
        let passed = now.saturating_sub(self.since);
        // It begins at a tenth: a share of nothing would learn nothing.
        (passed.saturating_mul(1000) / ramp).clamp(100, 1000)
    }
}
