//! Merges changes of settings that were made concurrently, and finds out what a change sets.

use std::time::Duration;

use super::draft::Draft;
use super::table::{Property, TIMEOUT, all};
use crate::breaker::BreakerConfig;
use crate::bulkhead::{PermitConfig, PoolConfig};
use crate::config::CommandConfig;
use crate::error::contain;
use crate::key::Key;
use crate::metrics::MetricsConfig;

/// A change of settings: what it makes of the settings in force, and of others. A setting that is the
/// same in both results, and was not before, is one that the change sets, maybe to the value in force.
pub(crate) struct Changes {
    pub(crate) base: CommandConfig,
    pub(crate) changed: CommandConfig,
    contrary: CommandConfig,
    contrary_changed: CommandConfig,
}

/// The properties of the mode of a breaker. No mode differs from another in all of them.
const SWITCHES: [&str; 3] = [
    "circuitBreaker.enabled",
    "circuitBreaker.forceClosed",
    "circuitBreaker.forceOpen",
];

/// Assigns every field that a change sets to a third value. All fields must be listed: a missing field
/// does not compile.
macro_rules! take_changes {
    ($type:ident: $changes:expr, ($($part:ident)?) => $into:expr; $($field:ident),* $(; $nested:ident)*) => {{
        let Changes { base, changed, contrary, contrary_changed } = $changes;
        let [base, changed, contrary, also] =
            [base, changed, contrary, contrary_changed].map(|config| &(*config)$(.$part)?);
        let $type { $($field: _,)* $($nested: _,)* } = base;
        $(
            let is_set = changed.$field == also.$field && base.$field != contrary.$field;
            if is_set || changed.$field != base.$field {
                $into.$field = changed.$field.clone();
            }
        )*
    }};
}

impl Changes {
    /// Runs `change`, which is user code, on the settings in force and on others.
    pub(crate) fn new(
        base: CommandConfig,
        change: impl FnOnce(&mut CommandConfig) + Clone,
    ) -> Self {
        let contrary = contrary(&base);
        let (mut changed, mut contrary_changed) = (base.clone(), contrary.clone());
        change.clone()(&mut changed);
        // A panic that only other settings cause is none of the caller's.
        let _ = contain(|| change(&mut contrary_changed));
        Self {
            base,
            changed,
            contrary,
            contrary_changed,
        }
    }

    /// Returns the properties that the change sets.
    pub(crate) fn properties(&self) -> impl Iterator<Item = &'static Property> {
        all().filter(|property| {
            let [was, is] = [&self.base, &self.changed].map(property.get);
            let others = [&self.contrary, &self.contrary_changed];
            let is_set = match SWITCHES.contains(&property.name) {
                true => self.changed.breaker.mode == self.contrary_changed.breaker.mode,
                false => {
                    let [other, also] = others.map(property.get);
                    is == also && was != other
                }
            };
            // Switching the timeout off does not set its length.
            let is_silent = property.name == TIMEOUT && self.changed.timeout.is_none();
            (is_set || was != is) && !is_silent
        })
    }

    /// Copies the settings that the change sets to `into`. Other settings of `into`, which may have
    /// changed since the base was read, stay as they are.
    pub(crate) fn merge(&self, into: &mut CommandConfig) {
        take_changes!(CommandConfig: self, () => into;
            bulkhead, timeout, interrupt_on_timeout, interrupt_on_cancel, pool_override,
            fallback_enabled, fallback_permits, fallback_timeout, cache_enabled, log_enabled, rate;
            permits; pool; breaker; metrics);
        take_changes!(PermitConfig: self, (permits) => into.permits;
            limit, max_wait, max_waiting, discipline, partitions, adaptive);
        take_changes!(PoolConfig: self, (pool) => into.pool;
            core, max, queue, rejection_threshold, keep_alive, may_diverge, growth, discipline,
            partitions, window);
        take_changes!(BreakerConfig: self, (breaker) => into.breaker;
            mode, window, min_calls, error_percent, count_rejections, slow_call, slow_percent, sleep,
            sleep_factor, max_sleep, probes, successes, probe_limit, ramp);
        take_changes!(MetricsConfig: self, (metrics) => into.metrics;
            counts, latencies, record_latencies);
    }
}

/// Returns settings in which each property has another value than in `base`, except the switches of the
/// breaker, of which at least one has.
fn contrary(base: &CommandConfig) -> CommandConfig {
    let (mut contrary, key) = (base.clone(), Key::from("settings"));
    for property in all() {
        for value in ["1", "2", "true", "false", "SEMAPHORE", "THREAD"] {
            let mut draft = Draft::new(contrary.clone(), Duration::from_millis(1));
            if (property.get)(&contrary) == (property.get)(base)
                && (property.set)(&mut draft, value).is_ok()
                && let Ok(other) = draft.finish(&key)
            {
                contrary = other;
            }
        }
    }
    contrary
}

#[cfg(test)]
mod tests {
    //! Two changes of different settings both take effect, and each sets what it assigns.

    use super::*;
    use crate::breaker::{BreakerMode, BreakerWindow};
    use crate::bulkhead::Bulkhead;

    #[test]
    fn changes_of_different_settings_both_stay() {
        let base = CommandConfig::default();
        let mut one = base.clone();
        one.pool.core = 3;
        one.breaker.probes = 2;
        one.timeout = None;
        let change = |config: &mut CommandConfig| {
            config.pool.queue = 7;
            config.breaker.error_percent = 70;
            config.permits.limit = 5;
        };
        let mut both = one.clone();
        change(&mut both);
        let mut merged = one;
        Changes::new(base.clone(), change).merge(&mut merged);
        assert_eq!(merged, both);
        let back = |config: &mut CommandConfig| config.pool.core = base.pool.core;
        Changes::new(both, back).merge(&mut merged);
        assert_eq!(merged.pool.core, base.pool.core, "also back to the default");
    }

    /// Returns settings of which each differs from those of the other.
    fn two() -> [CommandConfig; 2] {
        let mut other = contrary(&CommandConfig::default());
        other.breaker.window = BreakerWindow::Count(7);
        [CommandConfig::default(), other]
    }

    #[test]
    fn every_property_is_set_by_a_change_that_assigns_it_and_by_no_other() {
        for base in two() {
            let nothing = Changes::new(base.clone(), |_| ());
            assert_eq!(nothing.properties().count(), 0);
            let all_of_it = base.clone();
            let assigned = Changes::new(base, |config| *config = all_of_it);
            // A setting that is absent has no value, such as the length of a timeout that is off.
            let has_value = |one: &&Property| !(one.get)(&assigned.changed).is_empty();
            let names = |one: &Property| (one.family, one.name);
            let set = assigned.properties().filter(has_value).map(names);
            assert!(set.eq(all().filter(has_value).map(names)));
        }
    }

    #[test]
    fn a_value_that_is_in_force_already_is_taken_too() {
        let set = |change: fn(&mut CommandConfig)| -> Vec<_> {
            let changes = Changes::new(CommandConfig::default(), change);
            // The code has other settings than those that are in force.
            let mut merged = two()[1].clone();
            changes.merge(&mut merged);
            changes
                .properties()
                .map(|one| (one.name, (one.get)(&merged)))
                .collect()
        };
        let limit = "execution.isolation.semaphore.maxConcurrentRequests";
        assert_eq!(set(|c| c.permits.limit = 10), [(limit, "10".to_owned())]);
        let strategy = ("execution.isolation.strategy", "SEMAPHORE".to_owned());
        assert_eq!(set(|c| c.bulkhead = Bulkhead::Permits), [strategy]);
        let modes = set(|c| c.breaker.mode = BreakerMode::Normal);
        let values = ["true", "false", "false"].map(str::to_owned);
        assert!(modes.into_iter().eq(SWITCHES.into_iter().zip(values)));
        let panics = set(|c| assert_eq!(c.permits.limit, 10));
        assert_eq!(panics, [], "with other settings only");
    }
}
