//! Merges changes of settings that were made concurrently.

use crate::breaker::BreakerConfig;
use crate::bulkhead::{PermitConfig, PoolConfig};
use crate::config::CommandConfig;
use crate::metrics::MetricsConfig;

/// Assigns every field in which two values of a type differ to a third value. All fields must be
/// listed: a missing field does not compile.
macro_rules! take_changes {
    ($type:ident: $base:expr, $changed:expr => $into:expr; $($field:ident),* $(; $nested:ident)*) => {{
        let $type { $($field: _,)* $($nested: _,)* } = $base;
        $(
            if $changed.$field != $base.$field {
                $into.$field = $changed.$field.clone();
            }
        )*
    }};
}

/// Copies the settings that differ between `base` and `changed` to `into`. Other settings of
/// `into`, which may have changed since `base` was read, stay as they are.
pub(crate) fn merge(base: &CommandConfig, changed: &CommandConfig, into: &mut CommandConfig) {
    take_changes!(CommandConfig: base, changed => into;
        bulkhead, timeout, interrupt_on_timeout, interrupt_on_cancel, pool_override,
        fallback_enabled, fallback_permits, fallback_timeout, cache_enabled, log_enabled, rate;
        permits; pool; breaker; metrics);
    take_changes!(PermitConfig: &base.permits, changed.permits => into.permits;
        limit, max_wait, max_waiting, discipline, partitions, adaptive);
    take_changes!(PoolConfig: &base.pool, changed.pool => into.pool;
        core, max, queue, rejection_threshold, keep_alive, may_diverge, growth, discipline,
        partitions, window);
    take_changes!(BreakerConfig: &base.breaker, changed.breaker => into.breaker;
        mode, window, min_calls, error_percent, count_rejections, slow_call, slow_percent, sleep, sleep_factor,
        max_sleep, probes, successes, probe_limit, ramp);
    take_changes!(MetricsConfig: &base.metrics, changed.metrics => into.metrics;
        counts, latencies, record_latencies);
}

#[cfg(test)]
mod tests {
    //! Two changes of different settings both take effect.

    use super::*;

    #[test]
    fn changes_of_different_settings_both_stay() {
        let base = CommandConfig::default();
        let (mut one, mut other) = (base.clone(), base.clone());
        one.pool.core = 3;
        one.breaker.probes = 2;
        one.timeout = None;
        other.pool.queue = 7;
        other.breaker.error_percent = 70;
        other.permits.limit = 5;
        let mut merged = one.clone();
        merge(&base, &other, &mut merged);
        let mut both = one;
        both.pool.queue = 7;
        both.breaker.error_percent = 70;
        both.permits.limit = 5;
        assert_eq!(merged, both);
        let back = |config: &mut CommandConfig| config.pool.core = base.pool.core;
        let mut undone = both.clone();
        back(&mut undone);
        merge(&both, &undone, &mut merged);
        assert_eq!(merged.pool.core, base.pool.core, "also back to the default");
    }
}
