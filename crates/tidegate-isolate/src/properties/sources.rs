//! All sources of an isolation combined into one, and the properties that they have for a command.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::names::{full_name, parse};
use super::source::{ChangeListener, PropertySource};
use super::table::{Keys, all};
use crate::error::ConfigError;
use crate::lock::lock;

/// A part of an isolation that has properties of its own.
pub(crate) trait PropertyOwner: Send + Sync {
    /// Reads the properties again, because `property` has changed for the key `scope` or, if that
    /// is `default`, for all keys.
    fn changed(&self, sources: &Sources, scope: &str, property: &str) -> Result<(), ConfigError>;
}

/// Several sources combined into one: the first source that has a property wins.
#[derive(Default)]
pub(crate) struct Sources {
    sources: Vec<Arc<dyn PropertySource>>,
    /// Property owners that were added after the isolation was built, while they are alive. A
    /// source cannot remove a listener, so only the isolation itself is registered as one.
    concerned: Mutex<Vec<Weak<dyn PropertyOwner>>>,
    /// The number of changes reported so far.
    changes: AtomicU64,
}

/// The properties that the sources have for one command. Read with no lock held, because a source
/// is user code.
pub(crate) struct Reading(HashMap<String, String>);

impl Reading {
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

impl Sources {
    pub(crate) fn new(sources: Vec<Arc<dyn PropertySource>>) -> Self {
        Self {
            sources,
            concerned: Mutex::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// Adds a property owner that is notified of changes, and removes owners that were dropped.
    pub(crate) fn add(&self, concerned: Weak<dyn PropertyOwner>) {
        let mut all = lock(&self.concerned);
        all.retain(|one| one.strong_count() > 0);
        all.push(concerned);
    }

    /// Notifies all added owners. Returns the first error.
    pub(crate) fn notify_owners(&self, scope: &str, property: &str) -> Result<(), ConfigError> {
        let all = lock(&self.concerned).clone();
        let mut result = Ok(());
        for one in all.iter().filter_map(Weak::upgrade) {
            result = result.and(one.changed(self, scope, property));
        }
        result
    }

    /// Checks the names that the sources list.
    pub(crate) fn check_names(&self) -> Result<(), ConfigError> {
        for source in &self.sources {
            if source.accepts_unknown() {
                continue;
            }
            for name in source.names() {
                parse(&name)?;
            }
        }
        Ok(())
    }

    pub(crate) fn accepts_unknown(&self, source: usize) -> bool {
        self.sources[source].accepts_unknown()
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.sources.iter().find_map(|source| source.get(name))
    }

    /// Reads all properties that the sources have for a command.
    pub(crate) fn read(&self, keys: Keys<'_>) -> Reading {
        let mut values = HashMap::new();
        for property in all() {
            for scope in ["default", property.family.key(keys).as_str()] {
                let name = full_name(property, scope);
                if let Some(value) = self.get(&name) {
                    values.insert(name, value);
                }
            }
        }
        Reading(values)
    }

    /// Counts a change, before it is passed on.
    pub(crate) fn count_change(&self) {
        // ORDERING: Release pairs with the Acquire in `changes`: a key that is built after it has
        // read this count reads the changed value.
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of changes counted so far.
    pub(crate) fn changes(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `count_change`. The lock of the keys orders
        // the second read by a key under construction: it sees the new count, or the change finds
        // the key.
        self.changes.load(Ordering::SeqCst)
    }

    /// Watches every source with a listener that is created for its number.
    pub(crate) fn watch(&self, listener: impl Fn(usize) -> ChangeListener) {
        for (number, source) in self.sources.iter().enumerate() {
            source.watch(listener(number));
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sources({})", self.sources.len())
    }
}
