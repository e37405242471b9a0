//! The properties that operators have set, at a reload. Those of routes that it removes go with their
//! routes: otherwise they would stay for ever, and surprise whoever uses a name again.

use std::collections::BTreeSet;

use tidegate::isolate::{Isolation, Properties, PropertySource as _};

use crate::admin::is_unused;
use crate::command::why_without_effect;

/// The commands before a reload.
pub(super) struct Commands(BTreeSet<String>);

impl Commands {
    pub(super) fn of(isolation: &Isolation) -> Self {
        Self(keys(isolation))
    }

    /// Removes the properties of those that do not exist any more, also if they were set during the
    /// reload. Returns their names.
    pub(super) fn remove_unused(
        &self,
        properties: &Properties,
        isolation: &Isolation,
    ) -> Vec<String> {
        let mut names = properties.names();
        if names.is_empty() {
            return names;
        }
        let now = keys(isolation);
        names.retain(|name| !is_unused(name, &self.0) && is_unused(name, &now));
        // No command refuses it, because none has it.
        names.retain(|name| properties.remove(name).is_ok());
        names.sort_unstable();
        names
    }
}

fn keys(isolation: &Isolation) -> BTreeSet<String> {
    let snapshots = isolation.snapshots().into_iter();
    snapshots.map(|one| one.key.as_str().to_owned()).collect()
}

/// Returns a note about each property that has no effect on its route.
pub(super) fn without_effect(properties: &Properties, isolation: &Isolation) -> Vec<String> {
    let mut names = properties.names();
    names.sort_unstable();
    let notes = names.into_iter().filter_map(|name| {
        let value = properties.get(&name)?;
        let why = why_without_effect(&name, &value, isolation)?;
        Some(format!("{name} = {value} has no effect: {why}"))
    });
    notes.collect()
}

/// Returns why a reload has failed, and which properties the route has that this is about: they may be
/// the cause.
pub(super) fn why_with_properties(why: &str, properties: &Properties) -> String {
    let route = why
        .strip_prefix("route.")
        .and_then(|rest| Some(rest.split_once(": ")?.0));
    let Some(route) = route else {
        return why.to_owned();
    };
    let mut names = properties.names();
    names.retain(|name| {
        let rest = name.strip_prefix("hystrix.command.");
        rest.and_then(|rest| rest.split_once('.'))
            .is_some_and(|(key, _)| key.split_once(':').map_or(key, |(own, _)| own) == route)
    });
    if names.is_empty() {
        return why.to_owned();
    }
    names.sort_unstable();
    let names = names.join("`, `");
    format!("{why}; operators have set `{names}`, which may be the cause")
}
