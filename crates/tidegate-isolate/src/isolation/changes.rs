//! Handles a property that has changed in one of the sources: refreshes the keys that it concerns.

use std::sync::Arc;

use super::registry::Inner;
use crate::error::ConfigError;
use crate::properties::{Family, Named, parse};

impl Inner {
    /// Refreshes every command that the changed property of `source` concerns. All of them are
    /// refreshed, even if one returns an error.
    pub(super) fn changed(&self, source: usize, name: &str) -> Result<(), ConfigError> {
        let named = match parse(name) {
            Err(_) if self.sources.accepts_unknown(source) => return Ok(()),
            named => named?,
        };
        // A key that is being built notices the new count, or is already in the map below.
        self.sources.count_change();
        let (scope, property) = match named {
            Named::Setting(scope, property) => (scope, property),
            Named::Collapser(scope, property) => {
                return self.sources.notify_owners(scope, property);
            }
            Named::WithoutUse | Named::Foreign => return Ok(()),
        };
        let mut states = Vec::new();
        for state in self.states().values() {
            let key = match property.family {
                Family::Command => &state.key,
                Family::Pool => &state.pool,
            };
            if scope == "default" || &**key == scope {
                states.push(Arc::clone(state));
            }
        }
        let mut result = Ok(());
        for state in states {
            result = result.and(state.refresh(property));
        }
        result
    }
}
