//! The error of an invalid setting: which property of which key, and why.

use std::error::Error;
use std::fmt;

/// An invalid setting: which property of which key, and why.
///
/// ```
/// use tidegate_isolate::ConfigError;
///
/// let invalid = ConfigError::new("prices", "coreSize", "0", "a pool needs a thread");
/// assert_eq!(invalid.to_string(), "prices: coreSize is 0: a pool needs a thread");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    key: String,
    property: String,
    value: String,
    reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            property,
            value,
            reason,
        } = self;
        write!(f, "{key}: {property} is {value}: {reason}")
    }
}

impl Error for ConfigError {}

impl ConfigError {
    /// Creates an error: the property `property` of `key` must not be `value`, for this reason.
    pub fn new(
        key: impl Into<String>,
        property: impl Into<String>,
        value: impl fmt::Display,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            property: property.into(),
            value: value.to_string(),
            reason: reason.into(),
        }
    }

    /// Returns the key of the command, pool or collapser.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the property.
    pub fn property(&self) -> &str {
        &self.property
    }

    /// Returns why the value is invalid.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Names another property, which the value in force does not fit.
    pub(crate) fn of_property(mut self, property: &str) -> Self {
        self.property = property.to_owned();
        self
    }

    pub(crate) fn of_key(mut self, key: &str) -> Self {
        self.key = key.to_owned();
        self
    }
}

tidegate_core::debug_as_display!(ConfigError);
