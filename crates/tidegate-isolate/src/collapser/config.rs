//! The settings of a collapser: those made in code, and live properties.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::ConfigError;
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
/// `requestCache.enabled`, with the same precedence as a command's properties.
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
    /// The largest number of arguments in a batch; a full batch runs at once.
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
    configured: CollapserConfig,
    now: Mutex<Arc<CollapserConfig>>,
}

impl PropertyOwner for Live {
    /// Reads the properties again if `scope` includes this collapser.
    fn changed(&self, sources: &Sources, scope: &str, property: &str) -> Result<(), ConfigError> {
        if scope != "default" && scope != &*self.key {
            return Ok(());
        }
        let (config, refused) = self.configured.resolve(sources, &self.key, &self.now());
        *lock(&self.now) = Arc::new(config);
        let mut refused = refused.into_iter();
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
        configured: CollapserConfig,
    ) -> Result<Self, ConfigError> {
        if configured.max_batch == 0 {
            return Err(ConfigError::new(key, COLLAPSER[0], 0, NO_ROOM));
        }
        let (in_force, refused) = configured.resolve(sources, key, &configured);
        if let Some(error) = refused.into_iter().next() {
            return Err(error);
        }
        Ok(Self {
            key: key.clone(),
            now: Mutex::new(Arc::new(in_force)),
            configured,
        })
    }

    /// Returns the settings in force.
    pub(super) fn now(&self) -> Arc<CollapserConfig> {
        Arc::clone(&lock(&self.now))
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
    /// Combines the settings made in code with the properties of the collapser `key`. Code
    /// overrides the properties of `default`, and the properties of `key` override code. Also
    /// returns the invalid properties; for these the value of `old` is kept.
    fn resolve(&self, sources: &Sources, key: &Key, old: &Self) -> (Self, Vec<ConfigError>) {
        let (mut config, default) = (self.clone(), Self::default());
        let mut refused = Vec::new();
        for property in &PROPERTIES {
            let says = (property.get)(self) != (property.get)(&default);
            let global = (!says).then_some("default");
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
