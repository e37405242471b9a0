//! The settings of routes that operators change while the gateway runs. They stay in force after a reload, and
//! go with their routes: otherwise they would stay for ever, and surprise whoever uses a name again.

use std::sync::Arc;

use tidegate::isolate::{Isolation, Properties, PropertySource as _};
use tidegate_core::internal::lock;

use super::operator::Operator;
use crate::admin::{SetError, SettingReport};
use crate::config::set::{SetValues, can_be_set, route_of};
use crate::config::{Config, Source, Tree};

/// The files that were read last, and what operators have set in place of their settings.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) tree: Arc<Tree>,
    pub(super) set: SetValues,
}

impl Settings {
    pub(super) fn new(tree: Tree) -> Self {
        Self {
            tree: Arc::new(tree),
            set: SetValues::new(),
        }
    }

    /// Returns the settings with other files, and those that were set of routes that are gone.
    pub(super) fn reloaded(&self, tree: Tree) -> (Self, SetValues) {
        let is_there = |path: &str| route_of(path).is_some_and(|route| tree.has_route(route));
        let all = self.set.clone().into_iter();
        let (set, gone) = all.partition(|(path, _)| is_there(path));
        let tree = Arc::new(tree);
        (Self { tree, set }, gone)
    }

    /// Returns which settings operators have set, if the files have no mistake without them.
    pub(super) fn blame(&self) -> Option<String> {
        let without = self.tree.load(&SetValues::new());
        let all: Vec<&str> = self.set.keys().map(String::as_str).collect();
        let blamed = without.config.is_some() && !all.is_empty();
        blamed.then(|| {
            format!(
                "operators have set `{}`, which is the cause",
                all.join("`, `")
            )
        })
    }

    /// Returns a note about each setting that was set and has no effect.
    pub(super) fn without_effect(&self, config: &Config) -> Vec<String> {
        let notes = self.set.iter().filter_map(|(path, value)| {
            let why = config.why_without_effect(path)?;
            Some(format!("{path} = {value} has no effect: {why}"))
        });
        notes.collect()
    }

    /// Returns the settings that can be set, of all routes or of one.
    pub(super) fn report(&self, config: &Config, route: Option<&str>) -> Vec<SettingReport> {
        let all = config.origins.iter().filter(|one| {
            let own = route_of(&one.path);
            own.is_some_and(|own| route.is_none_or(|route| route == own))
        });
        let reports = all.map(|one| SettingReport {
            path: one.path.clone(),
            value: one.shown.clone(),
            origin: match one.source {
                _ if self.set.contains_key(&one.path) => SettingReport::OPERATOR.to_owned(),
                Source::Own(at) | Source::Inherited(at) => self.tree.sources.place(at).to_string(),
                Source::Default => "default".to_owned(),
            },
            without_effect: match self.set.contains_key(&one.path) {
                true => config.why_without_effect(&one.path),
                false => None,
            },
        });
        reports.collect()
    }
}

impl Operator {
    /// Sets a setting, or gives it the value of the files again.
    pub(super) fn change_setting(&self, path: &str, value: Option<&str>) -> Result<(), SetError> {
        let refuse = |why: &str| SetError::Refused(format!("`{path}` cannot be set: {why}"));
        let Some(turn) = self.gateway.try_turn() else {
            return Err(SetError::Busy);
        };
        let mut settings = lock(&self.settings).clone();
        match value {
            None if settings.set.remove(path).is_none() => return Err(SetError::NotSet),
            None => {}
            Some(_) if !can_be_set(path) => {
                return Err(refuse(
                    "only `timeout`, the keys of `limit`, `queue`, `breaker`, `retry` and `tunnel`, and \
                     `fallback.limit` of a route can, such as `route.NAME.limit.max`",
                ));
            }
            Some(_) if !route_of(path).is_some_and(|route| settings.tree.has_route(route)) => {
                return Err(refuse("there is no such route"));
            }
            Some(value) => drop(settings.set.insert(path.to_owned(), value.to_owned())),
        }
        let mut loaded = settings.tree.load(&settings.set);
        let Some(config) = loaded.config.take() else {
            return Err(SetError::Refused(loaded.mistakes.render(&loaded.sources)));
        };
        if let Some(why) = config.why_without_effect(path).filter(|_| value.is_some()) {
            return Err(refuse(why));
        }
        let adjusted = turn.adjust(config);
        adjusted.map_err(|why| SetError::Refused(why.to_string()))?;
        *lock(&self.settings) = settings;
        Ok(())
    }
}

/// Removes the orders for breakers of commands that do not exist any more. Returns their names.
pub(super) fn remove_orders(properties: &Properties, isolation: &Isolation) -> Vec<String> {
    let mut names = properties.names();
    let known = isolation.snapshots();
    names.retain(|name| {
        let key = name.strip_prefix("hystrix.command.");
        let key = key.and_then(|rest| Some(rest.split_once('.')?.0));
        let is_gone = |key| !known.iter().any(|one| one.key.as_str() == key);
        // No command refuses it, because none has it.
        key.is_some_and(is_gone) && properties.remove(name).is_ok()
    });
    names.sort_unstable();
    names
}
