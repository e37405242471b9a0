//! Handles a property that has changed in one of the sources: refreshes the keys that it concerns,
//! and reports a change that has no effect.

use std::sync::Arc;

use super::registry::Inner;
use super::state::State;
use crate::error::ConfigError;
use crate::properties::{Named, PropertyScope, parse};

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
        let mut states = Vec::new();
        for state in self.states().values() {
            let is_concerned = match named.concerns() {
                PropertyScope::All => true,
                PropertyScope::Command(key) => &*state.key == key,
                PropertyScope::Pool(pool) => &*state.pool == pool,
                PropertyScope::Nothing => false,
            };
            if is_concerned {
                states.push(Arc::clone(state));
            }
        }
        let mut result = Ok(());
        for state in &states {
            result = result.and(state.refresh(name));
        }
        let hidden = self.sources.notify_owners(name);
        result?;
        self.report_hidden(source, (name, named), &states, hidden?);
        Ok(())
    }

    /// Reports a change that has no effect, or has an effect only for some keys.
    fn report_hidden(
        &self,
        source: usize,
        (name, named): (&str, Named<'_>),
        states: &[Arc<State>],
        mut hidden: Vec<String>,
    ) {
        const MOST: usize = 3;
        let Some((value, by_source)) = self.sources.value_from(source, name) else {
            return;
        };
        let report = |why: &str| self.plugins.report(&format!("`{name}` = {value}: {why}"));
        match named {
            Named::Foreign => return,
            _ if by_source => return report("an earlier source has it, too; change it there"),
            Named::WithoutUse => return report("Hystrix has it, and it has no use here"),
            Named::Collapser => {}
            Named::Setting(scope, property) => {
                let mut all = Vec::new();
                for why in hidden {
                    insert(&mut all, why);
                }
                for state in states {
                    if let Some(why) = state.why_hidden((scope, property), &value) {
                        insert(&mut all, why);
                    }
                }
                hidden = all;
            }
        }
        if hidden.is_empty() {
            return;
        }
        let more = hidden.len().saturating_sub(MOST);
        hidden.truncate(MOST);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let list = hidden.join(", ");
        report(&format!("not in force for {list}{more}"));
    }
}

/// Adds a text to a sorted list, unless it is there.
fn insert(list: &mut Vec<String>, text: String) {
    let at = list.partition_point(|one| *one < text);
    if list.get(at) != Some(&text) {
        list.insert(at, text);
    }
}
