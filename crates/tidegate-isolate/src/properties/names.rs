//! The names of properties: parses them, and suggests the nearest one for an unknown name.

use super::table::{COMMAND, POOL, Property, all};
use crate::error::ConfigError;

/// The prefix of every name.
pub const PREFIX: &str = "hystrix";

/// The properties of collapsers; see `crate::collapser`.
pub(crate) const COLLAPSER: [&str; 3] = [
    "maxRequestsInBatch",
    "timerDelayInMilliseconds",
    "requestCache.enabled",
];

/// Properties of Hystrix that have no use here. They are recognised, so that settings written for
/// Hystrix are accepted unchanged.
const WITHOUT_USE: [(&str, &str); 12] = [
    ("command", "metrics.rollingPercentile.bucketSize"),
    ("collapser", "metrics.rollingStats.timeInMilliseconds"),
    ("collapser", "metrics.rollingStats.numBuckets"),
    ("collapser", "metrics.rollingPercentile.enabled"),
    ("collapser", "metrics.rollingPercentile.timeInMilliseconds"),
    ("collapser", "metrics.rollingPercentile.numBuckets"),
    ("collapser", "metrics.rollingPercentile.bucketSize"),
    ("timer", "threadpool.default.coreSize"),
    ("stream", "dashboard.intervalInMilliseconds"),
    ("stream", "config.intervalInMilliseconds"),
    ("stream", "utilization.intervalInMilliseconds"),
    ("config", "stream.maxConcurrentConnections"),
];

/// The families whose property names contain a key.
const KEYED: [&str; 3] = ["command", "threadpool", "collapser"];

/// The meaning of a property name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named<'a> {
    /// A property of a command or a pool, with the key in its name; `default` stands for all keys.
    Setting(&'a str, &'static Property),
    /// A property of a collapser, with the key in its name.
    Collapser(&'a str, &'static str),
    /// A property of Hystrix that has no use here.
    WithoutUse,
    /// A name that does not belong to Hystrix.
    Foreign,
}

/// Parses a property name. A key may contain dots, so the name is split before the property, not at
/// the first dot.
///
/// # Errors
///
/// Returns an error with the most similar name if the name starts like a known one but is unknown.
pub(crate) fn parse(name: &str) -> Result<Named<'_>, ConfigError> {
    let (prefix, rest) = name.split_once('.').unwrap_or((name, ""));
    if prefix != PREFIX {
        return match distance(prefix, PREFIX) {
            0..=2 => Err(unknown(name, &format!("{PREFIX}.{rest}"))),
            _ => Ok(Named::Foreign),
        };
    }
    let (family, rest) = rest.split_once('.').unwrap_or((rest, ""));
    let settings = match family {
        "command" => &COMMAND[..],
        "threadpool" => &POOL[..],
        _ => &[],
    };
    // The longest property name wins, because one property may end like another.
    let mut best: Option<(&str, &Property)> = None;
    for one in settings {
        if let Some(key) = key_of(rest, one.name)
            && best.is_none_or(|(shortest, _)| key.len() < shortest.len())
        {
            best = Some((key, one));
        }
    }
    if let Some((key, property)) = best {
        return Ok(Named::Setting(key, property));
    }
    if family == "collapser" {
        for property in COLLAPSER {
            if let Some(key) = key_of(rest, property) {
                return Ok(Named::Collapser(key, property));
            }
        }
    }
    let is_without_use = |(of, property): &(&str, &str)| {
        let fits = match KEYED.contains(of) {
            true => key_of(rest, property).is_some(),
            false => rest == *property,
        };
        *of == family && fits
    };
    let is_plugin = family == "plugin" && key_of(rest, "implementation").is_some();
    if is_plugin || WITHOUT_USE.iter().any(is_without_use) {
        return Ok(Named::WithoutUse);
    }
    Err(unknown(name, &nearest(family, rest)))
}

/// Returns the full name of a property of a key; `default` stands for all keys.
pub(super) fn full_name(property: &Property, scope: &str) -> String {
    let family = property.family.name();
    format!("{PREFIX}.{family}.{scope}.{}", property.name)
}

/// Returns the key before a property's name.
fn key_of<'a>(rest: &'a str, property: &str) -> Option<&'a str> {
    let key = rest.strip_suffix(property)?.strip_suffix('.')?;
    (!key.is_empty()).then_some(key)
}

/// Returns the known name that is most similar to `family` and `rest`.
fn nearest(family: &str, rest: &str) -> String {
    let mut best = (usize::MAX, String::new());
    let mut consider = |of: &str, property: &str| {
        let dots = property.matches('.').count() + 1;
        // Takes as many parts of the name as the property has; the rest is the key.
        let cut = rest.rmatch_indices('.').nth(dots - 1);
        let (key, suffix) = match cut {
            Some((at, _)) => (&rest[..at], &rest[at + 1..]),
            None => ("<KEY>", rest),
        };
        let far = distance(suffix, property) + distance(family, of);
        if far < best.0 {
            best = (far, format!("{PREFIX}.{of}.{key}.{property}"));
        }
    };
    for property in all() {
        consider(property.family.name(), property.name);
    }
    for name in &COLLAPSER {
        consider("collapser", name);
    }
    best.1
}

fn unknown(name: &str, nearest: &str) -> ConfigError {
    let reason = format!(
        "did you mean `{nearest}`? A source with names of other programs says so \
         (`accepts_unknown`)"
    );
    ConfigError::new("properties", name, "unknown", reason)
}

/// Returns the error for a foreign name where only known names are expected.
pub(super) fn foreign(name: &str) -> ConfigError {
    let reason = format!(
        "names begin with `{PREFIX}.`; properties with names of other programs say so \
         (`Properties::accept_unknown`)"
    );
    ConfigError::new("properties", name, "unknown", reason)
}

/// Returns the number of letters to insert, remove or replace to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let mut row = vec![0];
    for _ in b.chars() {
        row.push(row.len());
    }
    for (done, letter) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = done + 1;
        for (at, other) in b.chars().enumerate() {
            let changed = before + usize::from(letter != other);
            before = row[at + 1];
            row[at + 1] = changed.min(before + 1).min(row[at] + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    //! Known names are recognised, and misspelt names are distinguished from foreign ones.

    use super::*;

    #[test]
    fn a_distance_is_the_number_of_characters_that_differ() {
        for (a, b, far) in [
            ("", "abc", 3),
            ("command", "comand", 1),
            ("hystrix", "histrix", 1),
            ("coreSize", "coresize", 1),
            ("abc", "abc", 0),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_nearest_one() {
        for (name, meant) in [
            (
                "hystrix.command.prices.circuitBreaker.requestVolumeTreshold",
                "hystrix.command.prices.circuitBreaker.requestVolumeThreshold",
            ),
            (
                "hystrix.command.a.b.fallback.enable",
                "hystrix.command.a.b.fallback.enabled",
            ),
            (
                "hystrix.comand.prices.fallback.enabled",
                "hystrix.command.prices.fallback.enabled",
            ),
            (
                "hystrix.threadPool.catalog.coreSize",
                "hystrix.threadpool.catalog.coreSize",
            ),
            (
                "hystrix.command.catalog.coreSize",
                "hystrix.threadpool.catalog.coreSize",
            ),
            (
                "hystrix.collapser.names.maxRequestInBatch",
                "hystrix.collapser.names.maxRequestsInBatch",
            ),
            (
                "hystrix.threadpool.coreSize",
                "hystrix.threadpool.<KEY>.coreSize",
            ),
            (
                "histrix.command.prices.fallback.enabled",
                "hystrix.command.prices.fallback.enabled",
            ),
        ] {
            let error = parse(name).unwrap_err();
            let hint = format!("did you mean `{meant}`?");
            assert!(error.reason().starts_with(&hint), "{name}: {error}");
            assert_eq!(error.property(), name);
        }
        assert!(parse("hystrix").is_err() && parse("hystrix.command").is_err());
    }

    #[test]
    fn names_of_hystrix_are_known_and_those_of_others_are_not_ours() {
        for known in [
            "hystrix.command.default.metrics.rollingPercentile.bucketSize",
            "hystrix.collapser.a.metrics.rollingStats.numBuckets",
            "hystrix.timer.threadpool.default.coreSize",
            "hystrix.stream.dashboard.intervalInMilliseconds",
            "hystrix.config.stream.maxConcurrentConnections",
            "hystrix.plugin.HystrixEventNotifier.implementation",
        ] {
            assert!(matches!(parse(known), Ok(Named::WithoutUse)), "{known}");
        }
        for foreign in ["spring.name", "", "a"] {
            assert!(matches!(parse(foreign), Ok(Named::Foreign)), "{foreign}");
        }
        let collapser = parse("hystrix.collapser.default.maxRequestsInBatch");
        assert!(matches!(
            collapser,
            Ok(Named::Collapser("default", "maxRequestsInBatch"))
        ));
    }
}
