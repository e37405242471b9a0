//! Finds the first setting in which two configurations differ, and describes the difference.

use std::time::Duration;

use super::table::{Family, all};
use crate::bulkhead::{Partitions, PoolConfig};
use crate::config::CommandConfig;
use crate::rate::RateConfig;

/// Returns the first setting in which two configurations differ, and both of its values.
pub(super) fn difference(
    mine: &CommandConfig,
    its: &CommandConfig,
) -> Option<(&'static str, String)> {
    first_difference(&values(mine, true), &values(its, true))
}

/// Like [`difference`], for two pools.
pub(crate) fn pool_difference(
    mine: &PoolConfig,
    its: &PoolConfig,
) -> Option<(&'static str, String)> {
    let values = |config: &PoolConfig| {
        let whole = CommandConfig {
            pool: config.clone(),
            ..CommandConfig::default()
        };
        values(&whole, false)
    };
    first_difference(&values(mine), &values(its))
}

/// Returns every setting of a command, or those of its pool alone, with its value.
fn values(config: &CommandConfig, is_whole: bool) -> Vec<NamedValue> {
    let mut values = Vec::new();
    for property in all() {
        if is_whole || property.family == Family::Pool {
            values.push((property.name, (property.get)(config)));
        }
    }
    values.append(&mut pool(&config.pool));
    if is_whole {
        values.append(&mut others(config));
    }
    values
}

pub(super) type NamedValue = (&'static str, String);

/// Both lists have the same settings in the same order.
fn first_difference(mine: &[NamedValue], its: &[NamedValue]) -> Option<NamedValue> {
    for ((name, mine), (_, its)) in mine.iter().zip(its) {
        if mine != its {
            return Some((name, format!("{} and was {}", words(mine), words(its))));
        }
    }
    None
}

fn words(value: &str) -> &str {
    match value {
        "" => "none",
        value => value,
    }
}

/// The settings of a pool that have no property.
pub(super) fn pool(config: &PoolConfig) -> Vec<NamedValue> {
    vec![
        ("growth", format!("{:?}", config.growth)),
        ("discipline", format!("{:?}", config.discipline)),
        ("partitions", partitions(config.partitions)),
    ]
}

/// The settings of a command that have no property.
pub(super) fn others(config: &CommandConfig) -> Vec<NamedValue> {
    let (permits, breaker) = (&config.permits, &config.breaker);
    let adaptive = permits.adaptive.as_ref();
    let adaptive = adaptive.map(|limit| {
        let (algorithm, window) = (limit.algorithm, limit.window.is_some());
        let (initial, min, max) = (limit.initial, limit.min, limit.max);
        format!("{algorithm:?} from {initial}, {min} to {max}, gathered: {window}")
    });
    vec![
        ("permits.max_wait", format!("{:?}", permits.max_wait)),
        ("permits.max_waiting", permits.max_waiting.to_string()),
        ("permits.discipline", format!("{:?}", permits.discipline)),
        ("permits.partitions", partitions(permits.partitions)),
        ("permits.adaptive", adaptive.unwrap_or_default()),
        ("breaker.mode", format!("{:?}", breaker.mode)),
        (
            "breaker.count_rejections",
            breaker.count_rejections.to_string(),
        ),
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
