//! Dynamic configuration: properties with the names that Hystrix gave them.
//!
//! A setting is looked for in four places, the first that has it wins: the property of the
//! command (`hystrix.command.<KEY>.x`), what the code said when it built the command, the property
//! for all commands (`hystrix.command.default.x`), the default. A change is pushed to the commands
//! it concerns at once. One that makes no sense is refused with a reason, and the old stays.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{CommandConfig, Invalid, Key};

mod table;

pub(crate) use self::table::{COMMAND, Family, POOL, Property};

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
    changing: Mutex<()>,
}

impl Properties {
    /// No properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a property and tells the commands it concerns.
    ///
    /// # Errors
    ///
    /// Which property of which key, and why, when a command refuses the value. The old value
    /// is then in force again.
    pub fn set(&self, name: &str, value: impl Into<String>) -> Result<(), Invalid> {
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
        let _one = lock(&self.shared.changing);
        let old = self.put(name, value);
        let listeners = lock(&self.shared.listeners).clone();
        let told = listeners.iter().try_for_each(|listener| listener(name));
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
    /// Looks at the properties again, if `name` is one of its own.
    fn changed(&self, sources: &Sources, name: &str) -> Result<(), Invalid>;
}

/// Several sources as one: the first that has a property wins.
#[derive(Default)]
pub(crate) struct Sources {
    sources: Vec<Arc<dyn PropertySource>>,
    /// What came after the isolation was made, as long as it lives: a source cannot forget a
    /// listener, so only the isolation itself is one.
    concerned: Mutex<Vec<Weak<dyn Concerned>>>,
}

impl Sources {
    pub(crate) fn new(sources: Vec<Arc<dyn PropertySource>>) -> Self {
        Self {
            sources,
            concerned: Mutex::default(),
        }
    }

    /// Adds something that is told of changes, and forgets what is gone.
    pub(crate) fn add(&self, concerned: Weak<dyn Concerned>) {
        let mut all = lock(&self.concerned);
        all.retain(|one| one.strong_count() > 0);
        all.push(concerned);
    }

    /// Tells whatever was added.
    pub(crate) fn tell(&self, name: &str) -> Result<(), Invalid> {
        let all: Vec<_> = lock(&self.concerned).iter().map(Weak::upgrade).collect();
        let mut living = all.iter().flatten();
        living.try_for_each(|one| one.changed(self, name))
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.sources.iter().find_map(|source| source.get(name))
    }

    pub(crate) fn watch(&self, listener: &ChangeListener) {
        for source in &self.sources {
            source.watch(Arc::clone(listener));
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sources({})", self.sources.len())
    }
}

/// A property: whose, and which.
type At = (Family, &'static str);

/// What the code said, and which properties it said it about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) config: CommandConfig,
    properties: Vec<At>,
}

impl Said {
    /// Everything by default except where `config` differs from the default.
    pub(crate) fn new(config: CommandConfig) -> Self {
        let mut said = Self {
            config: CommandConfig::default(),
            properties: Vec::new(),
        };
        said.change(config);
        said
    }

    /// Takes over a new configuration: whatever differs was said by the code.
    pub(crate) fn change(&mut self, config: CommandConfig) {
        for property in COMMAND.iter().chain(&POOL) {
            let differs = (property.get)(&self.config) != (property.get)(&config);
            if differs {
                self.mark(property.family, property.name);
            }
        }
        self.config = config;
    }

    /// Marks a property as said although it has the value of the default.
    pub(crate) fn mark(&mut self, family: Family, name: &'static str) {
        if !self.properties.contains(&(family, name)) {
            self.properties.push((family, name));
        }
    }

    /// Which setting differs from what another builder said, and what this one says of it.
    pub(crate) fn difference(&self, other: &Said) -> Option<(String, String)> {
        let (mine, its) = (&self.config, &other.config);
        for property in COMMAND.iter().chain(&POOL) {
            let (mine, its) = ((property.get)(mine), (property.get)(its));
            if mine != its {
                let value = format!("{mine} and was {its}");
                return Some((property.name.to_owned(), value));
            }
        }
        let told =
            |name: &str, differs: bool, value: String| differs.then(|| (name.to_owned(), value));
        let (permits, pool) = (&mine.permits, &mine.pool);
        told("permits", *permits != its.permits, format!("{permits:?}"))
            .or_else(|| told("pool", *pool != its.pool, format!("{pool:?}")))
            .or_else(|| {
                let breaker = &mine.breaker;
                told("breaker", *breaker != its.breaker, format!("{breaker:?}"))
            })
            .or_else(|| told("rate", mine.rate != its.rate, format!("{:?}", mine.rate)))
    }

    /// The settings in force: what the code said, under and over what the sources say.
    ///
    /// A value that makes no sense is reported. The one that was in force before stays, if there
    /// was one, and whatever else the sources say is taken over: a source that cannot take a value
    /// back must not keep all others from being heard.
    pub(crate) fn resolve(
        &self,
        sources: &Sources,
        (key, pool): (&Key, &Key),
        old: Option<&CommandConfig>,
    ) -> Result<(CommandConfig, Vec<Invalid>), Invalid> {
        let mut skipped: Vec<At> = Vec::new();
        let mut refused = Vec::new();
        loop {
            let (mut config, invalid) = self.read(sources, (key, pool), &skipped);
            let old_or_default = old.cloned().unwrap_or_default();
            for property in COMMAND.iter().chain(&POOL) {
                let is = |(family, name)| family == property.family && name == property.name;
                let unread = invalid.iter().any(|(at, _)| is(*at));
                if unread || skipped.iter().any(|at| is(*at)) {
                    // A value that was told can be read.
                    let _ = (property.set)(&mut config, &(property.get)(&old_or_default));
                }
            }
            if let Some(old) = old {
                config.metrics = old.metrics;
                config.breaker.window = old.breaker.window;
                config.pool.window = old.pool.window;
            }
            let Err(error) = config.validate(key) else {
                refused.extend(invalid.into_iter().map(|(_, error)| error));
                return Ok((config, refused));
            };
            let mut table = COMMAND.iter().chain(&POOL);
            let property = table.find(|property| property.name == error.property());
            let at = property.map(|property| (property.family, property.name));
            match at.filter(|at| !skipped.contains(at) && self.is_from(sources, *at, (key, pool))) {
                None => return Err(error),
                Some(at) => {
                    skipped.push(at);
                    let whose = if at.0 == Family::Pool { pool } else { key };
                    refused.push(error.of_key(whose));
                }
            }
        }
    }

    /// Reads what the sources say of everything but `skipped`.
    fn read(
        &self,
        sources: &Sources,
        keys: (&Key, &Key),
        skipped: &[At],
    ) -> (CommandConfig, Vec<(At, Invalid)>) {
        let mut config = self.config.clone();
        let mut invalid = Vec::new();
        for property in COMMAND.iter().chain(&POOL) {
            let at = (property.family, property.name);
            if skipped.contains(&at) {
                continue;
            }
            for value in self.values(sources, property, keys) {
                if let Err(reason) = (property.set)(&mut config, value.trim()) {
                    let key = property.family.key(keys).as_str();
                    let error = Invalid::new(key, property.name, value, reason);
                    invalid.push((at, error));
                }
            }
        }
        (config, invalid)
    }

    /// What the sources say of a property, the weakest first.
    fn values<'a>(
        &self,
        sources: &'a Sources,
        property: &Property,
        keys: (&'a Key, &'a Key),
    ) -> impl Iterator<Item = String> + use<'a> {
        let (family, name) = (property.family.name(), property.name);
        let said = self.properties.contains(&(property.family, name));
        let global = (!said && !property.per_key_only).then_some("default");
        let scopes = global
            .into_iter()
            .chain([property.family.key(keys).as_str()]);
        scopes.filter_map(move |scope| sources.get(&format!("{PREFIX}.{family}.{scope}.{name}")))
    }

    /// Whether a source says something of a property, so that the code is not to blame.
    fn is_from(&self, sources: &Sources, at: At, keys: (&Key, &Key)) -> bool {
        let mut table = COMMAND.iter().chain(&POOL);
        let property = table.find(|property| (property.family, property.name) == at);
        property.is_some_and(|property| self.values(sources, property, keys).next().is_some())
    }
}

/// Which keys a property concerns: all commands, one, the commands of a pool, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Concerns<'a> {
    All,
    Command(&'a str),
    Pool(&'a str),
    Nothing,
}

/// Finds out whom a change of `name` concerns. A key may contain dots, so the name is cut at
/// the property, not at the first dot.
pub(crate) fn concerns(name: &str) -> Concerns<'_> {
    let Some(rest) = name.strip_prefix(PREFIX).and_then(|n| n.strip_prefix('.')) else {
        return Concerns::Nothing;
    };
    for (family, table) in [("command.", &COMMAND[..]), ("threadpool.", &POOL)] {
        let Some(rest) = rest.strip_prefix(family) else {
            continue;
        };
        let key = |property: &Property| {
            let key = rest.strip_suffix(property.name)?.strip_suffix('.')?;
            (!key.is_empty()).then_some(key)
        };
        // The longest name wins: one property may end like another.
        let keys = table.iter().filter_map(key);
        return match keys.min_by_key(|key| key.len()) {
            None => Concerns::Nothing,
            Some("default") => Concerns::All,
            Some(key) if family == "command." => Concerns::Command(key),
            Some(key) => Concerns::Pool(key),
        };
    }
    Concerns::Nothing
}

#[cfg(test)]
mod tests;
