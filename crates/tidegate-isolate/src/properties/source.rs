//! Where properties come from: what a program implements for its own.

use std::sync::Arc;

use crate::error::Invalid;

/// Hears of a property that changed; an error refuses the change.
pub type ChangeListener = Arc<dyn Fn(&str) -> Result<(), Invalid> + Send + Sync>;

/// Where properties come from.
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
    /// The value of a property, if it has one.
    fn get(&self, name: &str) -> Option<String>;

    /// The names of all properties that the source has, if it can tell: they are checked when an
    /// isolation is built. None by default.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns `true` if the source has names of other programs that look like ours, so that a
    /// name that nobody knows is no error.
    fn accepts_unknown(&self) -> bool {
        false
    }

    /// Calls `listener` with the name of every property that changes from now on, on the thread
    /// that changes it. A source that never changes does nothing.
    fn watch(&self, listener: ChangeListener) {
        let _ = listener;
    }
}
