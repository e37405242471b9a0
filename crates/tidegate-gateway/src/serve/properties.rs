//! The properties of routes that a reload removes: they go with their routes. Otherwise they would stay
//! for ever, and surprise whoever uses a name again.

use std::collections::BTreeSet;

use tidegate::isolate::{Isolation, Properties, PropertySource as _};

use crate::admin::is_unused;

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
