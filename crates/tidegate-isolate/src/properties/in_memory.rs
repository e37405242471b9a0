//! Properties in memory: a source that programs and tests can set.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::names::{Named, foreign, parse};
use super::serial::Serial;
use super::source::{ChangeListener, PropertySource};
use crate::error::ConfigError;
use crate::lock::lock;

/// Properties in memory, which can be set and removed. Clones are handles to the same properties.
///
/// ```
/// use tidegate_isolate::{Properties, PropertySource};
///
/// let properties = Properties::new();
/// properties.set("hystrix.command.default.fallback.enabled", "false")?;
/// let value = properties.get("hystrix.command.default.fallback.enabled");
/// assert_eq!(value.as_deref(), Some("false"));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, Default)]
pub struct Properties {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    values: Mutex<HashMap<String, String>>,
    listeners: Mutex<Vec<ChangeListener>>,
    /// One change at a time, so that an invalid change is undone before the next.
    changing: Serial,
    accepts_unknown: AtomicBool,
}

impl Properties {
    /// Creates an empty set of properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts unknown names, from now on and for all handles. By default they are rejected,
    /// because they are probably misspelt.
    ///
    /// ```
    /// use tidegate_isolate::Properties;
    ///
    /// let (name, value) = ("hystrix.command.prices.fallback.enable", "false");
    /// let error = Properties::new().set(name, value).unwrap_err();
    /// assert!(error.to_string().contains("`hystrix.command.prices.fallback.enabled`"));
    /// assert!(Properties::new().accept_unknown().set(name, value).is_ok());
    /// ```
    pub fn accept_unknown(self) -> Self {
        self.shared.accepts_unknown.store(true, Ordering::Relaxed);
        self
    }

    /// Sets a property and notifies the commands that it concerns.
    ///
    /// # Errors
    ///
    /// Returns which property of which key is invalid, and why, if a command rejects the value. The
    /// old value is then in force again. Also returns an error for an unknown name.
    pub fn set(&self, name: &str, value: impl Into<String>) -> Result<(), ConfigError> {
        if !self.accepts_unknown()
            && let Named::Foreign = parse(name)?
        {
            return Err(foreign(name));
        }
        self.change(name, Some(value.into()))
    }

    /// Removes a property. The next level that has the setting then applies.
    ///
    /// # Errors
    ///
    /// Like [`Properties::set`].
    pub fn remove(&self, name: &str) -> Result<(), ConfigError> {
        self.change(name, None)
    }

    fn change(&self, name: &str, value: Option<String>) -> Result<(), ConfigError> {
        let _one = self.shared.changing.enter();
        let old = self.put(name, value);
        let listeners = lock(&self.shared.listeners).clone();
        let result = listeners.iter().map(|listener| listener(name));
        let result = result.fold(Ok(()), Result::and);
        if result.is_err() {
            self.put(name, old);
            for listener in &listeners {
                // The old value was in force before, so no listener rejects it.
                let _ = listener(name);
            }
        }
        result
    }

    fn put(&self, name: &str, value: Option<String>) -> Option<String> {
        let mut values = lock(&self.shared.values);
        match value {
            Some(value) => values.insert(name.to_owned(), value),
            None => values.remove(name),
        }
    }
}

impl PropertySource for Properties {
    fn get(&self, name: &str) -> Option<String> {
        lock(&self.shared.values).get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        lock(&self.shared.values).keys().cloned().collect()
    }

    fn accepts_unknown(&self) -> bool {
        self.shared.accepts_unknown.load(Ordering::Relaxed)
    }

    fn watch(&self, listener: ChangeListener) {
        lock(&self.shared.listeners).push(listener);
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = lock(&self.shared.values);
        f.debug_map().entries(values.iter()).finish()
    }
}
