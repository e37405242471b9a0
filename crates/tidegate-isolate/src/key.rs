//! Keys: the names by which commands, groups and pools are found.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A name of a command, a group or a pool. Cheap to clone; equal when the text is.
///
/// ```
/// use tidegate_isolate::Key;
///
/// let key = Key::from("prices");
/// assert_eq!(key, Key::from(String::from("prices")));
/// assert_eq!(&*key, "prices");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The last part of a type's name: a key for the command that the type stands for.
    ///
    /// ```
    /// use tidegate_isolate::Key;
    ///
    /// struct Prices;
    /// assert_eq!(Key::for_type::<Prices>().as_str(), "Prices");
    /// ```
    pub fn for_type<T: ?Sized>() -> Self {
        let name = std::any::type_name::<T>();
        let plain = name.split('<').next().unwrap_or(name);
        Self::from(plain.rsplit("::").next().unwrap_or(plain))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the two are one interned key, not only equal.
    pub fn is_same(&self, other: &Key) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for Key {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
