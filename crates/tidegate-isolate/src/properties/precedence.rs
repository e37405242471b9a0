//! The precedence of levels: combines the settings made in code with the properties of the sources.

use std::time::Duration;

use super::draft::Draft;
use super::merge::Changes;
use super::names::full_name;
use super::sources::Reading;
use super::table::{Family, Keys, Property, STRATEGY, TIMEOUT, all};
use crate::bulkhead::Bulkhead;
use crate::config::CommandConfig;
use crate::error::ConfigError;
use crate::key::Key;

/// A property: its family and its name.
type At = (Family, &'static str);

/// The settings made in code, and the properties that were set explicitly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CodeSettings {
    pub(crate) config: CommandConfig,
    /// The last timeout that the code set, also after it has switched the timeout off.
    timeout: Duration,
    properties: Vec<At>,
    /// The command never runs on threads of a bulkhead.
    only_permits: bool,
}

impl CodeSettings {
    /// Creates settings in which only the fields of `config` that differ from the default count as
    /// set.
    pub(crate) fn new(config: CommandConfig) -> Self {
        let default = CommandConfig::default();
        let mut code_settings = Self {
            timeout: default.timeout.unwrap_or_default(),
            config: default,
            properties: Vec::new(),
            only_permits: false,
        };
        code_settings.change(config);
        code_settings
    }

    /// Applies a change: every setting that it sets counts as set in code.
    pub(crate) fn apply(&mut self, changes: &Changes) {
        let mut config = self.config.clone();
        changes.merge(&mut config);
        self.change(config);
        for property in changes.properties() {
            self.mark(property.family, property.name);
        }
    }

    /// Applies a new configuration: every setting that differs counts as set in code.
    pub(crate) fn change(&mut self, config: CommandConfig) {
        for property in all() {
            let differs = (property.get)(&self.config) != (property.get)(&config);
            // Switching the timeout off does not set its length.
            let is_silent = property.name == TIMEOUT && config.timeout.is_none();
            if differs && !is_silent {
                self.mark(property.family, property.name);
            }
        }
        self.timeout = config.timeout.unwrap_or(self.timeout);
        self.config = config;
    }

    /// Marks a property as set in code even though it has the default value.
    pub(crate) fn mark(&mut self, family: Family, name: &'static str) {
        if !self.sets(family, name) {
            self.properties.push((family, name));
        }
    }

    /// Refuses threads from now on, in code and in properties.
    pub(crate) fn only_permits(&mut self) {
        self.only_permits = true;
    }

    fn check_bulkhead(&self, config: &CommandConfig, key: &Key) -> Result<(), ConfigError> {
        if !self.only_permits || config.bulkhead == Bulkhead::Permits {
            return Ok(());
        }
        let reason = "its calls run where they begin: they have permits, and no threads";
        let value = config.bulkhead.to_string();
        Err(ConfigError::new(key, STRATEGY, value, reason))
    }

    pub(super) fn sets(&self, family: Family, name: &'static str) -> bool {
        self.properties.contains(&(family, name))
    }

    /// Returns the settings of the pool alone.
    pub(crate) fn of_pool(&self) -> Self {
        let mut pool = Self::new(CommandConfig::default());
        pool.take_pool(self);
        pool
    }

    /// Takes over the settings of the pool.
    pub(crate) fn take_pool(&mut self, code_settings: &CodeSettings) {
        self.config.pool = code_settings.config.pool.clone();
        self.properties
            .retain(|(family, _)| *family != Family::Pool);
        let pool = code_settings.properties.iter();
        self.properties
            .extend(pool.filter(|(family, _)| *family == Family::Pool));
    }

    /// Returns the settings in force: the settings made in code, combined with the properties.
    ///
    /// An invalid value is reported. The value that was in force before stays, if there was one,
    /// and all other properties are applied: a source that cannot take a value back must not block
    /// all other changes.
    pub(crate) fn resolve(
        &self,
        sources: &Reading,
        keys: Keys<'_>,
        old: Option<&CommandConfig>,
    ) -> Result<(CommandConfig, Vec<ConfigError>), ConfigError> {
        let mut skipped: Vec<At> = Vec::new();
        let mut refused = Vec::new();
        loop {
            let (mut draft, invalid) = self.read(sources, keys, &skipped);
            let kept = old.cloned().unwrap_or_default();
            for property in all() {
                let is = |(family, name)| family == property.family && name == property.name;
                let unread = invalid.iter().any(|(at, _)| is(*at));
                if unread || skipped.iter().any(|at| is(*at)) {
                    // The text of a valid setting can be parsed; an absent value is empty text and
                    // sets nothing.
                    let _ = (property.set)(&mut draft, &(property.get)(&kept));
                }
            }
            let (error, family) = match draft.finish(keys.0) {
                Err(error) => (error, Family::Command),
                Ok(mut config) => {
                    if let Some(old) = old {
                        refused.extend(keep_fixed(&mut config, old, keys.0));
                    }
                    let checked = self.check_bulkhead(&config, keys.0);
                    match checked.and_then(|()| config.validate(keys.0)) {
                        Err(error) => {
                            let family = match config.pool.validate(keys.0) {
                                Err(_) => Family::Pool,
                                Ok(()) => Family::Command,
                            };
                            (error, family)
                        }
                        Ok(()) => {
                            for (_, error) in invalid {
                                refused.push(error);
                            }
                            return Ok((config, refused));
                        }
                    }
                }
            };
            let blamed = blamed(error.property(), family);
            let is_set = |at: &At| !skipped.contains(at) && self.is_from(sources, *at, keys);
            match blamed.into_iter().find(is_set) {
                None => return Err(error),
                Some(at) => {
                    skipped.push(at);
                    refused.push(error.of_key(at.0.key(keys)).of_property(at.1));
                }
            }
        }
    }

    /// Reads all properties except `skipped`, the weaker level first.
    fn read(
        &self,
        sources: &Reading,
        keys: Keys<'_>,
        skipped: &[At],
    ) -> (Draft, Vec<(At, ConfigError)>) {
        let mut draft = Draft::new(self.config.clone(), self.timeout);
        let mut invalid = Vec::new();
        for global in [true, false] {
            for property in all() {
                let at = (property.family, property.name);
                if skipped.contains(&at) {
                    continue;
                }
                let Some(value) = self.value(sources, property, keys, global) else {
                    continue;
                };
                if let Err(reason) = (property.set)(&mut draft, value.trim()) {
                    let key = property.family.key(keys).as_str();
                    let error = ConfigError::new(key, property.name, value, reason);
                    invalid.push((at, error));
                }
            }
        }
        (draft, invalid)
    }

    /// Returns the property's value for all commands, if that level applies, or for this command.
    pub(super) fn value(
        &self,
        sources: &Reading,
        property: &Property,
        keys: Keys<'_>,
        global: bool,
    ) -> Option<String> {
        let says = self.sets(property.family, property.name);
        if global && (says || property.per_key_only) {
            return None;
        }
        let scope = match global {
            true => "default",
            false => property.family.key(keys).as_str(),
        };
        sources.get(&full_name(property, scope))
    }

    /// Returns `true` if a source sets the property, so that an invalid value does not come from
    /// the code.
    fn is_from(&self, sources: &Reading, at: At, keys: Keys<'_>) -> bool {
        let property = all().find(|property| (property.family, property.name) == at);
        property.is_some_and(|property| {
            let value = |global| self.value(sources, property, keys, global);
            value(true).or_else(|| value(false)).is_some()
        })
    }
}

/// Keeps the settings that are fixed for the life of a key: a property that changes later affects
/// only later keys.
fn keep_fixed(config: &mut CommandConfig, old: &CommandConfig, key: &Key) -> Option<ConfigError> {
    config.metrics = old.metrics;
    config.breaker.window = old.breaker.window;
    config.pool.window = old.pool.window;
    if config.pool_override == old.pool_override {
        return None;
    }
    let reason = "a command stays in its pool: remove the key and build it again";
    let moved = std::mem::replace(&mut config.pool_override, old.pool_override.clone());
    let value = moved.unwrap_or_else(|| "gone".to_owned());
    let property = "threadPoolKeyOverride";
    Some(ConfigError::new(key, property, value, reason))
}

/// Returns the properties that an error about `name` may come from. First those of `family`, since
/// two properties have the same name in both. A window that does not divide into its buckets is an
/// error about their number, and the length may be the one to blame.
fn blamed(name: &str, family: Family) -> Vec<At> {
    let (time, buckets) = (".timeInMilliseconds", ".numBuckets");
    let other = name.strip_suffix(buckets);
    let other = other.map(|window| format!("{window}{time}"));
    let mut blamed: Vec<At> = Vec::new();
    for is_own in [true, false] {
        for name in [Some(name), other.as_deref()].into_iter().flatten() {
            for property in all() {
                if property.name == name && (property.family == family) == is_own {
                    blamed.push((property.family, property.name));
                }
            }
        }
    }
    blamed
}
