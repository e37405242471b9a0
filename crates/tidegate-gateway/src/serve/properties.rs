//! The properties of routes that a reload removes: they go with their routes. Otherwise they would stay
//! for ever, and surprise whoever uses a name again.

use std::collections::BTreeSet;

use tidegate::isolate::{Isolation, Properties, PropertySource as _};

use crate::admin::is_unused;

/// The properties that belong to commands, before a reload.
pub(super) struct Used(Vec<String>);

impl Used {
    /// Finds the properties of commands that exist.
    pub(super) fn find(properties: &Properties, isolation: &Isolation) -> Self {
        let mut names = properties.names();
        if !names.is_empty() {
            let keys = keys(isolation);
            names.retain(|name| !is_unused(name, &keys));
        }
        Self(names)
    }

    /// Removes those whose commands do not exist any more. Returns their names.
    pub(super) fn remove_unused(
        mut self,
        properties: &Properties,
        isolation: &Isolation,
    ) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let keys = keys(isolation);
        self.0.retain(|name| is_unused(name, &keys));
        // No command refuses it, because none has it.
        self.0.retain(|name| properties.remove(name).is_ok());
        self.0.sort_unstable();
        self.0
    }
}

fn keys(isolation: &Isolation) -> BTreeSet<String> {
    let snapshots = isolation.snapshots().into_iter();
    snapshots.map(|one| one.key.as_str().to_owned()).collect()
}
