//! The source of properties: a trait that a program implements for its own configuration.

use std::sync::Arc;

use crate::error::ConfigError;

/// Is called with the name of a changed property; an error rejects the change.
pub type ChangeListener = Arc<dyn Fn(&str) -> Result<(), ConfigError> + Send + Sync>;

/// A source of properties.
///
/// ```
/// use tidegate_isolate::PropertySource;
///
/// struct Environment;
///
/// impl PropertySource for Environment {
///     fn get(&self, name: &str) -> Option<String> {
///         std::env::var(name.replace('.', "_")).ok()
///     }
/// }
///
/// assert_eq!(Environment.get("hystrix.command.default.nothing"), None);
/// ```
pub trait PropertySource: Send + Sync + 'static {
    /// Returns the value of a property, if the source has one.
    fn get(&self, name: &str) -> Option<String>;

    /// Returns the names of all properties of the source, if it can list them: they are checked
    /// when an isolation is built. Empty by default.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns `true` if the source also has names of other programs that look like names of this
    /// crate, so that an unknown name is no error.
    fn accepts_unknown(&self) -> bool {
        false
    }

    /// Calls `listener` with the name of every property that changes from now on, on the thread
    /// that changes it. A source that never changes does nothing.
    fn watch(&self, listener: ChangeListener) {
        let _ = listener;
    }
}
