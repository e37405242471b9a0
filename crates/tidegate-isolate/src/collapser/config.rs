//! The settings of a collapser: those made in code, and live properties.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{ConfigError, contain};
use crate::key::Key;
use crate::lock::lock;
use crate::properties::{COLLAPSER, PropertyOwner, Sources, boolean, millis, number};

/// Which requests may share a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollapserScope {
    /// The requests of one request context.
    #[default]
    Request,
    /// All requests. The batch then runs without a request context, because it belongs to no single
    /// one.
    Global,
}

/// The settings of a collapser. All but the scope are live properties, under the key of the
/// command: `hystrix.collapser.<KEY>.maxRequestsInBatch`, `timerDelayInMilliseconds` and
/// `requestCache.enabled`, with the same precedence as a command's properties. The fields that differ from
/// their defaults count as set in code;
/// [`Collapser::configure`](crate::Collapser::configure) can set a field to its default, too.
///
/// ```
/// use tidegate_isolate::CollapserConfig;
///
/// assert_eq!(CollapserConfig::default().delay.as_millis(), 10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollapserConfig {
    /// Which requests may share a batch.
    pub scope: CollapserScope,
    /// How long requests are collected.
    pub delay: Duration,
    /// The largest number of arguments in a batch; a full batch runs at once. If it is lowered while a
    /// larger batch is open, that runs as several.
    pub max_batch: usize,
    /// Whether equal arguments share one result. If not, the later ones are rejected.
    pub share_equal: bool,
}

impl Default for CollapserConfig {
    fn default() -> Self {
        Self {
            scope: CollapserScope::Request,
            delay: Duration::from_millis(10),
            max_batch: usize::MAX,
            share_equal: true,
        }
    }
}

/// The settings of one collapser: those made in code, and those in force.
#[derive(Debug)]
pub(super) struct Live {
    key: Key,
    in_code: Mutex<InCode>,
    /// The number of the reading of the properties that was begun last.
    begun: AtomicU64,
    /// The settings in force, and the number of their reading.
    now: Mutex<(u64, Arc<CollapserConfig>)>,
}

/// The settings made in code, and which of [`PROPERTIES`] they set.
#[derive(Clone, Debug)]
struct InCode {
    config: CollapserConfig,
    sets: [bool; 3],
}

impl PropertyOwner for Live {
    /// Reads the properties again if `scope` includes this collapser.
    fn changed(&self, sources: &Sources, scope: &str, property: &str) -> Result<(), ConfigError> {
        if scope != "default" && scope != &*self.key {
            return Ok(());
        }
        let mut refused = self.read(sources).into_iter();
        let its_own = refused.find(|error| error.property() == property);
        its_own.map_or(Ok(()), Err)
    }
}

impl Live {
    /// Resolves the settings of a new collapser.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid, and why.
    pub(super) fn new(
        sources: &Sources,
        key: &Key,
        config: CollapserConfig,
    ) -> Result<Self, ConfigError> {
        config.validate(key)?;
        let default = CollapserConfig::default();
        let differs = |one: Setting| (one.get)(&config) != (one.get)(&default);
        let in_code = InCode {
            sets: PROPERTIES.map(differs),
            config,
        };
        let (in_force, refused) = in_code.resolve(sources, key, &in_code.config);
        if let Some(error) = refused.into_iter().next() {
            return Err(error);
        }
        Ok(Self {
            key: key.clone(),
            in_code: Mutex::new(in_code),
            begun: AtomicU64::new(0),
            now: Mutex::new((0, Arc::new(in_force))),
        })
    }

    /// Returns the settings in force.
    pub(super) fn now(&self) -> Arc<CollapserConfig> {
        Arc::clone(&lock(&self.now).1)
    }

    /// Changes the settings made in code. `change` runs on the settings in force, and on others of which
    /// each differs: a setting that is then the same in both is one that it sets.
    pub(super) fn configure(
        &self,
        sources: &Sources,
        change: impl FnOnce(&mut CollapserConfig) + Clone,
    ) -> Result<(), ConfigError> {
        let base = self.now();
        let (mut is, mut also) = ((*base).clone(), (*base).clone());
        also.delay = base.delay.saturating_sub(Duration::from_nanos(1));
        also.delay += Duration::from_nanos(u64::from(also.delay == base.delay));
        also.max_batch = base.max_batch - 1;
        also.share_equal = !base.share_equal;
        change.clone()(&mut is);
        // A panic that only other settings cause is none of the caller's.
        let _ = contain(|| change(&mut also));
        is.validate(&self.key)?;
        let mut in_code = lock(&self.in_code);
        let InCode { config, sets } = &mut *in_code;
        config.scope = is.scope;
        if is.max_batch != base.max_batch || is.max_batch == also.max_batch {
            (config.max_batch, sets[0]) = (is.max_batch, true);
        }
        if is.delay != base.delay || is.delay == also.delay {
            (config.delay, sets[1]) = (is.delay, true);
        }
        if is.share_equal != base.share_equal || is.share_equal == also.share_equal {
            (config.share_equal, sets[2]) = (is.share_equal, true);
        }
        drop(in_code);
        self.read(sources);
        Ok(())
    }

    /// Reads the properties again, with no lock held. Returns the invalid ones. If a reading that was
    /// begun later is in force, this one may be out of date, and the properties are read again.
    fn read(&self, sources: &Sources) -> Vec<ConfigError> {
        loop {
            // ORDERING: AcqRel pairs with itself. A thread that has changed a setting begins a reading
            // afterwards; a reading with a later number sees the change.
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            let in_code = lock(&self.in_code).clone();
            let (config, refused) = in_code.resolve(sources, &self.key, &self.now());
            let mut now = lock(&self.now);
            if number > now.0 {
                *now = (number, Arc::new(config));
                return refused;
            }
        }
    }
}

const NO_ROOM: &str = "a batch needs room for one request";

/// The prefix of the names of collapser properties.
const FAMILY: &str = "hystrix.collapser.";

/// A property of collapsers.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) set: fn(&mut CollapserConfig, &str) -> Result<(), String>,
    pub(crate) get: fn(&CollapserConfig) -> String,
}

pub(crate) const PROPERTIES: [Setting; 3] = [
    Setting {
        name: COLLAPSER[0],
        set: |config, value| match number(value)? {
            0 => Err(NO_ROOM.to_owned()),
            most => {
                config.max_batch = most;
                Ok(())
            }
        },
        get: |config| config.max_batch.to_string(),
    },
    Setting {
        name: COLLAPSER[1],
        set: |config, value| {
            config.delay = millis(value)?;
            Ok(())
        },
        get: |config| config.delay.as_millis().to_string(),
    },
    Setting {
        name: COLLAPSER[2],
        set: |config, value| {
            config.share_equal = boolean(value)?;
            Ok(())
        },
        get: |config| config.share_equal.to_string(),
    },
];

impl CollapserConfig {
    fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        match self.max_batch {
            0 => Err(ConfigError::new(key, COLLAPSER[0], 0, NO_ROOM)),
            _ => Ok(()),
        }
    }
}

impl InCode {
    /// Combines the settings made in code with the properties of the collapser `key`. Code
    /// overrides the properties of `default`, and the properties of `key` override code. Also
    /// returns the invalid properties; for these the value of `old` is kept.
    fn resolve(
        &self,
        sources: &Sources,
        key: &Key,
        old: &CollapserConfig,
    ) -> (CollapserConfig, Vec<ConfigError>) {
        let (mut config, mut refused) = (self.config.clone(), Vec::new());
        for (property, is_set) in PROPERTIES.iter().zip(self.sets) {
            let global = (!is_set).then_some("default");
            for scope in global.into_iter().chain([key.as_str()]) {
                let Some(value) = sources.get(&format!("{FAMILY}{scope}.{}", property.name)) else {
                    continue;
                };
                if let Err(reason) = (property.set)(&mut config, value.trim()) {
                    refused.push(ConfigError::new(key, property.name, value, reason));
                    // The text of a valid setting can always be parsed.
                    let _ = (property.set)(&mut config, &(property.get)(old));
                }
            }
        }
        (config, refused)
    }
}
