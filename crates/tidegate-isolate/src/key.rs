//! Keys: the names by which commands, groups and pools are found.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name of a command, a group or a pool. Cheap to clone. Two keys are equal if their texts are.
///
/// ```
/// use tidegate_isolate::Key;
///
/// let key = Key::from("prices");
/// assert_eq!(key, Key::from(String::from("prices")));
/// assert_eq!(&*key, "prices");
/// ```
///
/// An enum of your own serves as a key wherever a method takes `impl Into<Key>`, so that a
/// misspelt name does not compile:
///
/// ```
/// use tidegate_isolate::{Command, Isolation, Key, PoolConfig};
///
/// #[derive(Clone, Copy)]
/// enum Pools {
///     Legacy,
///     Reports,
/// }
///
/// impl From<Pools> for Key {
///     fn from(pool: Pools) -> Self {
///         Self::from(match pool {
///             Pools::Legacy => "legacy",
///             Pools::Reports => "reports",
///         })
///     }
/// }
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> = Command::builder("prices")
///     .group("catalog")
///     .pool(Pools::Legacy)
///     .threads(PoolConfig::default())
///     .build(&isolation)?;
/// assert_eq!(prices.pool().as_str(), "legacy");
/// # let _ = Pools::Reports;
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Creates a key from the last part of a type's name, for a command that the type stands for.
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

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if both keys share one interned text, not only equal texts.
    #[inline]
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

impl From<&Key> for String {
    fn from(key: &Key) -> Self {
        key.as_str().to_owned()
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

thread_local! {
    /// The key of the last error that this thread dropped.
    static SPARE: Cell<Option<Key>> = const { Cell::new(None) };
}

/// The key in an error. A command that rejects calls creates an error for each of them, and the
/// callers drop these errors on the same threads. Each thread therefore keeps the key of the last
/// error that it dropped, and the next error takes that key without touching the reference count
/// that all threads share. A thread keeps at most one key.
pub(crate) struct ErrorKey(Option<Key>);

impl ErrorKey {
    pub(crate) fn new(key: Key) -> Self {
        Self(Some(key))
    }

    #[inline]
    pub(crate) fn of(key: &Key) -> Self {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        Self(Some(match spare {
            Some(spare) if spare.is_same(key) => spare,
            _ => key.clone(),
        }))
    }

    #[inline]
    pub(crate) fn key(&self) -> &Key {
        self.0.as_ref().expect("the key is there until the drop")
    }
}

impl Drop for ErrorKey {
    #[inline]
    fn drop(&mut self) {
        let key = self.0.take();
        // While the thread ends, its thread-local is gone: the key is dropped instead.
        let _ = SPARE.try_with(|spare| spare.replace(key));
    }
}

impl Clone for ErrorKey {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl PartialEq for ErrorKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for ErrorKey {}

#[cfg(test)]
mod tests {
    //! An error contains the command's own key, and each thread keeps one key for reuse.

    use super::*;

    #[test]
    fn the_key_of_a_dropped_error_serves_the_next_one() {
        let (one, other) = (Key::from("one"), Key::from("other"));
        drop(ErrorKey::of(&one));
        assert_eq!(Arc::strong_count(&one.0), 2, "the thread keeps it");
        let held = ErrorKey::of(&one);
        assert!(held.key().is_same(&one));
        assert_eq!(Arc::strong_count(&one.0), 2, "it was taken, not cloned");
        let second = held.clone();
        assert_eq!(Arc::strong_count(&one.0), 3);
        drop((held, second));
        drop(ErrorKey::of(&other));
        assert_eq!(Arc::strong_count(&one.0), 1, "one key per thread is kept");
    }
}
