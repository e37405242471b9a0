//! The list of all settings in force, each with its origin: as a value, and as text.

use std::fmt;
use std::time::Duration;

use super::draft::Draft;
use super::names::full_name;
use super::precedence::CodeSettings;
use super::sources::Reading;
use super::table::{Family, Keys, Property, all};
use crate::bulkhead::{Partitions, PoolConfig};
use crate::config::CommandConfig;
use crate::key::Key;
use crate::rate::RateConfig;

/// Every setting in force for a command and its pool, with its origin; see
/// [`Command::settings`](crate::Command::settings). Prints one line for each.
///
/// ```
/// use tidegate_isolate::{Command, Isolation, Origin, Properties};
///
/// let properties = Properties::new();
/// let isolation = Isolation::builder().properties(properties.clone()).build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// let name = "hystrix.command.prices.circuitBreaker.ramp.timeInMilliseconds";
/// properties.set(name, "10000")?;
/// let settings = prices.settings();
/// let ramp = settings.get("circuitBreaker.ramp.timeInMilliseconds").unwrap();
/// assert_eq!((ramp.value.as_str(), &ramp.origin), ("10000", &Origin::Property(name.into())));
/// assert!(settings.to_string().contains("fallback.enabled = true (default)"));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The key of the command.
    pub command: Key,
    /// The key of its pool, if the command has used threads. The pool's settings are part of
    /// `values` then.
    pub pool: Option<Key>,
    /// The settings. First those with a property, then those that only code can set.
    pub values: Vec<Setting>,
}

impl Settings {
    /// Returns the setting with this name, such as `fallback.enabled` or `coreSize`. If command and
    /// pool both have it, returns that of the command.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.values.iter().find(|setting| setting.name == name)
    }
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The property without its prefix and key; the field of the settings if only code can set it.
    pub name: &'static str,
    /// The full name of the property that sets it for this key; `None` if only code can set it.
    pub property: Option<String>,
    /// The value. Empty if there is none, such as no timeout.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
}

/// Where the value of a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// It is the built-in default.
    Default,
    /// The code has set it: a builder, or `configure`.
    Code,
    /// This property has set it: that of the key, or that for all keys.
    Property(String),
    /// It was read when the key was built, or before the key was removed, and the property that set it
    /// has changed since.
    Earlier,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Code => f.write_str("code"),
            Self::Property(name) => write!(f, "property {name}"),
            Self::Earlier => f.write_str("an earlier value of its property"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} = {} ({})",
            self.name,
            words(&self.value),
            self.origin
        )
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}", self.command)?;
        if let Some(pool) = &self.pool {
            write!(f, ", pool {pool}")?;
        }
        for setting in &self.values {
            write!(f, "\n  {setting}")?;
        }
        Ok(())
    }
}

impl CodeSettings {
    /// Returns every setting in force in `config`, with its origin. Settings of the pool are
    /// included if the command has a pool. Properties that change after the key was removed are not in
    /// force.
    pub(crate) fn settings(
        &self,
        sources: &Reading,
        keys: Keys<'_>,
        config: &CommandConfig,
        (has_pool, is_removed): (bool, bool),
    ) -> Vec<Setting> {
        let default = CommandConfig::default();
        let mut values = Vec::new();
        for property in all() {
            if !has_pool && property.family != Family::Command {
                continue;
            }
            let origin = match self.origin(sources, keys, property, config) {
                Ok(origin) => origin,
                Err(_) if property.is_fixed || is_removed => Origin::Earlier,
                Err(first) => first,
            };
            values.push(Setting {
                name: property.name,
                property: Some(full_name(property, property.family.key(keys))),
                value: (property.get)(config),
                origin,
            });
        }
        let code_only = |config: &CommandConfig| -> Vec<NamedValue> {
            let mut all = others(config);
            if has_pool {
                all.append(&mut pool(&config.pool));
            }
            all
        };
        let (code_settings, default) = (code_only(&self.config), code_only(&default));
        for (at, in_force) in code_only(config).into_iter().enumerate() {
            // The mode of a breaker may follow from its switches, which are listed above.
            if in_force == code_settings[at] {
                values.push(code_setting(in_force, &default[at]));
            }
        }
        values
    }

    /// Returns the first level that has the value in force. A level whose value is not in force is
    /// passed over: the value was refused, or is read only when a key is built.
    ///
    /// # Errors
    ///
    /// If no level has the value in force, another setting decides it, or it is an earlier one.
    /// Returns the first level.
    fn origin(
        &self,
        sources: &Reading,
        keys: Keys<'_>,
        property: &Property,
        config: &CommandConfig,
    ) -> Result<Origin, Origin> {
        let in_force = (property.get)(config);
        let by_property = |global: bool| {
            let value = self.value(sources, property, keys, global)?;
            let scope = match global {
                true => "default",
                false => property.family.key(keys).as_str(),
            };
            let origin = Origin::Property(full_name(property, scope));
            Some((origin, with_value(property, &value, config)))
        };
        let by_code = || {
            let says = self.sets(property.family, property.name);
            says.then(|| (Origin::Code, Some((property.get)(&self.config))))
        };
        let default = (property.get)(&CommandConfig::default());
        let levels = [
            by_property(false),
            by_code(),
            by_property(true),
            Some((Origin::Default, Some(default))),
        ];
        let mut first = None;
        for (origin, value) in levels.into_iter().flatten() {
            if value.as_ref() == Some(&in_force) {
                return Ok(origin);
            }
            first = first.or(Some(origin));
        }
        Err(first.unwrap_or(Origin::Default))
    }
}

/// Returns how the table prints the property after `value` is set in `config`; `None` if the value
/// is invalid.
fn with_value(property: &Property, value: &str, config: &CommandConfig) -> Option<String> {
    let mut draft = Draft::new(config.clone(), Duration::ZERO);
    (property.set)(&mut draft, value.trim()).ok()?;
    let config = draft.finish(&"settings".into()).ok()?;
    Some((property.get)(&config))
}

/// Returns the first setting in which two configurations differ, with both of its values.
pub(crate) fn difference(
    mine: &CommandConfig,
    its: &CommandConfig,
) -> Option<(&'static str, String)> {
    let values = |config| {
        let with_property = all().map(|property| (property.name, (property.get)(config)));
        let code_only = pool(&config.pool).into_iter().chain(others(config));
        with_property.chain(code_only).collect::<Vec<_>>()
    };
    let ((name, mine), (_, its)) = values(mine)
        .into_iter()
        .zip(values(its))
        .find(|(mine, its)| mine != its)?;
    Some((name, format!("{} and was {}", words(&mine), words(&its))))
}

fn words(value: &str) -> &str {
    match value {
        "" => "none",
        value => value,
    }
}

/// The name of a setting, and its value as text.
type NamedValue = (&'static str, String);

/// Returns a setting that only code can set.
fn code_setting((name, value): NamedValue, default: &NamedValue) -> Setting {
    let origin = match value == default.1 {
        true => Origin::Default,
        false => Origin::Code,
    };
    Setting {
        name,
        property: None,
        value,
        origin,
    }
}

/// The settings of a pool that have no property.
fn pool(config: &PoolConfig) -> Vec<NamedValue> {
    vec![
        ("growth", format!("{:?}", config.growth)),
        ("discipline", format!("{:?}", config.discipline)),
        ("partitions", partitions(config.partitions)),
    ]
}

/// The settings of a command that have no property.
fn others(config: &CommandConfig) -> Vec<NamedValue> {
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
