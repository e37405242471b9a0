//! Dynamic configuration: properties with the names that Hystrix gave them.
//!
//! A setting is looked for in four places, the first that has it wins: the property of the
//! command (`hystrix.command.<KEY>.x`), what the code said when it built the command, the property
//! for all commands (`hystrix.command.default.x`), the default. A change is pushed to the commands
//! it concerns at once. One that makes no sense is refused with a reason, and the old stays. So is a
//! name that is none, with the one that was probably meant. A change that has no effect because
//! another level or another source hides it is reported
//! ([`IsolationBuilder::on_unhandled`](crate::IsolationBuilder::on_unhandled)).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Invalid;

mod draft;
mod merge;
mod names;
mod said;
mod serial;
mod table;
mod told;

pub(crate) use self::merge::merge;
use self::names::foreign;
pub(crate) use self::names::{COLLAPSER, Concerns, Named, parse};
pub(crate) use self::said::Said;
use self::said::{Keys, all, full_name};
use self::serial::Serial;
pub(crate) use self::table::{Family, POOL, Property, boolean, millis, number};
pub(crate) use self::told::pool_difference;

/// What every name begins with.
pub const PREFIX: &str = "hystrix";

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

/// Properties in memory, to be set and removed. Clones are handles to the same properties.
///
/// ```
/// use tidegate_isolate::{Properties, PropertySource};
///
/// let properties = Properties::new();
/// properties.set("hystrix.command.default.fallback.enabled", "false")?;
/// let value = properties.get("hystrix.command.default.fallback.enabled");
/// assert_eq!(value.as_deref(), Some("false"));
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[derive(Clone, Default)]
pub struct Properties {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    values: Mutex<HashMap<String, String>>,
    listeners: Mutex<Vec<ChangeListener>>,
    /// One change at a time, so that a refused one is undone before the next.
    changing: Serial,
    accepts_unknown: AtomicBool,
}

impl Properties {
    /// No properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts names that are none of ours, from now on and for all handles: without it they are
    /// refused, since they are probably misspelt.
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

    /// Sets a property and tells the commands it concerns.
    ///
    /// # Errors
    ///
    /// Which property of which key, and why, when a command refuses the value. The old value
    /// is then in force again. Also a name that is none.
    pub fn set(&self, name: &str, value: impl Into<String>) -> Result<(), Invalid> {
        if !self.accepts_unknown()
            && let Named::Foreign = parse(name)?
        {
            return Err(foreign(name));
        }
        self.change(name, Some(value.into()))
    }

    /// Removes a property: the next place that has the setting wins.
    ///
    /// # Errors
    ///
    /// As for [`Properties::set`].
    pub fn remove(&self, name: &str) -> Result<(), Invalid> {
        self.change(name, None)
    }

    fn change(&self, name: &str, value: Option<String>) -> Result<(), Invalid> {
        let _one = self.shared.changing.enter();
        let old = self.put(name, value);
        let listeners = lock(&self.shared.listeners).clone();
        let told = listeners.iter().map(|listener| listener(name));
        let told = told.fold(Ok(()), Result::and);
        if told.is_err() {
            self.put(name, old);
            for listener in &listeners {
                // The old value was in force before: nobody refuses it.
                let _ = listener(name);
            }
        }
        told
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something of an isolation that has properties of its own.
pub(crate) trait Concerned: Send + Sync {
    /// Looks at the properties again, if `name` is one of its own. Returns why the value is not in
    /// force, if it is not.
    fn changed(&self, sources: &Sources, name: &str) -> Result<Option<String>, Invalid>;
}

/// Several sources as one: the first that has a property wins.
#[derive(Default)]
pub(crate) struct Sources {
    sources: Vec<Arc<dyn PropertySource>>,
    /// What came after the isolation was made, as long as it lives: a source cannot forget a
    /// listener, so only the isolation itself is one.
    concerned: Mutex<Vec<Weak<dyn Concerned>>>,
    /// Changes that were told so far.
    changes: AtomicU64,
}

/// What the sources say of one command. Read with no lock held, since a source is user code.
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

    /// Adds something that is told of changes, and forgets what is gone.
    pub(crate) fn add(&self, concerned: Weak<dyn Concerned>) {
        let mut all = lock(&self.concerned);
        all.retain(|one| one.strong_count() > 0);
        all.push(concerned);
    }

    /// Tells whatever was added. Returns why the value is not in force, where it is not.
    pub(crate) fn tell(&self, name: &str) -> Result<Vec<String>, Invalid> {
        let all: Vec<_> = lock(&self.concerned).iter().map(Weak::upgrade).collect();
        let told: Vec<_> = all
            .iter()
            .flatten()
            .map(|one| one.changed(self, name))
            .collect();
        let hidden: Result<Vec<_>, _> = told.into_iter().collect();
        Ok(hidden?.into_iter().flatten().collect())
    }

    /// Checks the names that the sources tell.
    pub(crate) fn check_names(&self) -> Result<(), Invalid> {
        let strict = self.sources.iter().filter(|one| !one.accepts_unknown());
        let mut names = strict.flat_map(|source| source.names());
        names.try_for_each(|name| parse(&name).map(|_| ()))
    }

    /// What the source with this number has, and whether an earlier one hides it.
    pub(crate) fn said_by(&self, source: usize, name: &str) -> Option<(String, bool)> {
        let value = self.sources[source].get(name)?;
        let mut earlier = self.sources[..source].iter();
        Some((value, earlier.any(|one| one.get(name).is_some())))
    }

    pub(crate) fn accepts_unknown(&self, source: usize) -> bool {
        self.sources[source].accepts_unknown()
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.sources.iter().find_map(|source| source.get(name))
    }

    /// Asks the sources for everything that they say of a command.
    pub(crate) fn read(&self, keys: Keys<'_>) -> Reading {
        let names = all().flat_map(|property| {
            let scopes = ["default", property.family.key(keys).as_str()];
            scopes.map(|scope| full_name(property, scope))
        });
        let said = names.filter_map(|name| {
            let value = self.get(&name)?;
            Some((name, value))
        });
        Reading(said.collect())
    }

    /// Counts a change, before it is passed on.
    pub(crate) fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How many changes were counted.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Watches every source, with a listener that knows its number.
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

#[cfg(test)]
mod tests;
