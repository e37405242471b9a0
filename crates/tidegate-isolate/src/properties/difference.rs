//! Finds the first setting in which two configurations differ, and describes the difference.

use std::time::Duration;

use super::table::{COMMAND, POOL};
use crate::bulkhead::{Partitions, PoolConfig};
use crate::config::CommandConfig;
use crate::rate::RateConfig;

/// Returns the first setting in which two configurations differ, and both of its values.
pub(super) fn difference(
    mine: &CommandConfig,
    its: &CommandConfig,
) -> Option<(&'static str, String)> {
    let of_table = |config: &CommandConfig| -> Vec<_> {
        let table = COMMAND.iter().chain(&POOL);
        let values = table.map(|property| (property.name, (property.get)(config)));
        values
            .chain(pool(&config.pool))
            .chain(others(config))
            .collect()
    };
    first_difference(of_table(mine), of_table(its))
}

/// Like [`difference`], for two pools.
pub(crate) fn pool_difference(
    mine: &PoolConfig,
    its: &PoolConfig,
) -> Option<(&'static str, String)> {
    let of_table = |config: &PoolConfig| -> Vec<_> {
        let whole = CommandConfig {
            pool: config.clone(),
            ..CommandConfig::default()
        };
        let table = POOL.iter();
        let values = table.map(|property| (property.name, (property.get)(&whole)));
        values.chain(pool(config)).collect()
    };
    first_difference(of_table(mine), of_table(its))
}

pub(super) type NamedValue = (&'static str, String);

fn first_difference(mine: Vec<NamedValue>, its: Vec<NamedValue>) -> Option<NamedValue> {
    let mut pairs = mine.into_iter().zip(its);
    pairs.find_map(|((name, mine), (_, its))| {
        let words = |value: String| {
            if value.is_empty() {
                "none".to_owned()
            } else {
                value
            }
        };
        (mine != its).then(|| (name, format!("{} and was {}", words(mine), words(its))))
    })
}

/// The settings of a pool that have no property.
pub(super) fn pool(config: &PoolConfig) -> [NamedValue; 3] {
    [
        ("growth", format!("{:?}", config.growth)),
        ("discipline", format!("{:?}", config.discipline)),
        ("partitions", partitions(config.partitions)),
    ]
}

/// The settings of a command that have no property.
pub(super) fn others(config: &CommandConfig) -> [NamedValue; 11] {
    let (permits, breaker) = (&config.permits, &config.breaker);
    let adaptive = permits.adaptive.as_ref();
    let adaptive = adaptive.map(|limit| {
        let (algorithm, window) = (limit.algorithm, limit.window.is_some());
        let (initial, min, max) = (limit.initial, limit.min, limit.max);
        format!("{algorithm:?} from {initial}, {min} to {max}, gathered: {window}")
    });
    [
        ("permits.max_wait", format!("{:?}", permits.max_wait)),
        ("permits.max_waiting", permits.max_waiting.to_string()),
        ("permits.discipline", format!("{:?}", permits.discipline)),
        ("permits.partitions", partitions(permits.partitions)),
        ("permits.adaptive", adaptive.unwrap_or_default()),
        ("breaker.mode", format!("{:?}", breaker.mode)),
        ("breaker.slow_call", optional(breaker.slow_call)),
        ("breaker.slow_percent", breaker.slow_percent.to_string()),
        ("breaker.sleep_factor", breaker.sleep_factor.to_string()),
        ("breaker.max_sleep", format!("{:?}", breaker.max_sleep)),
        ("rate", config.rate.as_ref().map(rate).unwrap_or_default()),
    ]
}

fn optional(time: Option<Duration>) -> String {
    time.map(|time| format!("{time:?}")).unwrap_or_default()
}

fn partitions(shares: Partitions) -> String {
    let Partitions {
        normal,
        high,
        critical,
    } = shares;
    format!("normal {normal}, high {high}, critical {critical}")
}

fn rate(rate: &RateConfig) -> String {
    let RateConfig { calls, per, burst } = rate;
    format!("{calls} calls per {per:?}, {burst} at once")
}
