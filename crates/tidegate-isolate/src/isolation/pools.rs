//! The thread bulkheads of an isolation, one for each pool key.
//!
//! A pool is shared only by commands that name it, or by the commands of a group if the isolation
//! was built with `pools_by_group`. A pool that a single command owns has that command's key, and
//! no other command may join it by that name.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::Duration;

use tidegate_core::OnUnhandled;
use tidegate_core::internal::{FastClock, try_briefly};

use crate::bulkhead::{ConcurrencyStrategy, PoolConfig, ThreadBulkhead};
use crate::config::CommandConfig;
use crate::error::{ConfigError, contain};
use crate::key::Key;
use crate::lock::lock;
use crate::properties::{CodeSettings, difference};

/// One pool: its bulkhead and its settings made in code. Shared by all commands that use its key.
#[derive(Debug)]
pub(crate) struct RegisteredPool {
    bulkhead: ThreadBulkhead,
    /// The pool belongs to one command, and no other command may join it.
    is_owned: bool,
    /// The pool's settings made in code. The lock makes its commands change them one at a time.
    code_settings: Mutex<CodeSettings>,
    /// The settings at creation, for comparison with later builders.
    built: PoolConfig,
    /// Whether the listeners were told of the pool.
    pub(super) is_announced: AtomicBool,
}

impl RegisteredPool {
    /// Locks the pool's settings made in code.
    pub(crate) fn code_settings(&self) -> MutexGuard<'_, CodeSettings> {
        lock(&self.code_settings)
    }

    /// Returns `true` if a builder with these settings may share the pool: they equal the settings
    /// of the first builder or the settings in force. The window is not compared, because only the
    /// first builder's window is used.
    fn agrees_with(&self, config: &PoolConfig) -> bool {
        let is = |known: &PoolConfig| {
            PoolConfig {
                window: known.window,
                ..config.clone()
            } == *known
        };
        is(&self.built) || is(&self.config())
    }

    /// Returns the pool for one more command, or why that command cannot share it.
    fn share(
        self: &Arc<Self>,
        user: PoolUser<'_>,
        config: &PoolConfig,
    ) -> Result<Arc<Self>, ConfigError> {
        let key = &self.key;
        if user.is_owner || self.is_owned {
            let reason = "a pool of this name exists, and a pool is shared only if each of \
                          its commands names it; call `.pool` on all of them, or rename one";
            return Err(ConfigError::new(key, "pool", format!("`{key}`"), reason));
        }
        if self.agrees_with(config) {
            return Ok(Arc::clone(self));
        }
        let reason = "a pool of this key exists with other settings; configure it through \
                      one of its commands, or name another pool";
        let whole = |pool| CommandConfig {
            pool,
            ..CommandConfig::default()
        };
        let differs = difference(&whole(config.clone()), &whole(self.config()));
        let (property, value) = differs.unwrap_or(("pool", "different".to_owned()));
        Err(ConfigError::new(key, property, value, reason))
    }
}

impl Deref for RegisteredPool {
    type Target = ThreadBulkhead;

    #[inline]
    fn deref(&self) -> &ThreadBulkhead {
        &self.bulkhead
    }
}

/// All pools by key. A pool is created with the first command that needs it.
#[derive(Debug)]
pub(crate) struct Pools {
    clock: FastClock,
    unhandled: OnUnhandled,
    strategy: Option<Strategy>,
    pools: Mutex<PoolMap>,
    is_shut_down: AtomicBool,
}

#[derive(Debug, Default)]
struct PoolMap {
    by_key: HashMap<Key, Arc<RegisteredPool>>,
    /// Pools that commands of removed keys have made since. No other command finds them.
    unlisted: Vec<Weak<RegisteredPool>>,
    /// Whether the last handle of the isolation is gone: nobody takes what a pool hands back.
    has_no_taker: bool,
}

/// The command that needs a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolUser<'a> {
    /// The pool belongs to this command alone.
    pub(crate) is_owner: bool,
    /// Whether the command's key was removed. Set before `remove` is called for its pool.
    pub(crate) is_removed: &'a AtomicBool,
}

/// Returns the parts of a pool that the program supplies.
#[derive(Clone)]
pub(super) struct Strategy(pub(super) Arc<dyn Fn(&Key) -> ConcurrencyStrategy + Send + Sync>);

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Strategy")
    }
}

/// The parts of a pool that may have to be created. They are user code: they are created and dropped
/// with no lock held.
#[derive(Debug, Default)]
pub(crate) enum PoolParts {
    #[default]
    NotAsked,
    Asked(Result<ConcurrencyStrategy, ConfigError>),
}

/// Why a command gets no pool.
#[derive(Debug)]
pub(crate) enum NoPool {
    /// The pool must be created of parts of the program. The caller releases its locks, calls
    /// [`Pools::ask_for_parts`] and tries again.
    NeedsParts,
    Invalid(ConfigError),
}

impl From<ConfigError> for NoPool {
    fn from(error: ConfigError) -> Self {
        Self::Invalid(error)
    }
}

impl Pools {
    pub(super) fn new(
        clock: FastClock,
        unhandled: OnUnhandled,
        strategy: Option<Strategy>,
    ) -> Self {
        Self {
            clock,
            unhandled,
            strategy,
            pools: Mutex::default(),
            is_shut_down: AtomicBool::new(false),
        }
    }

    /// Marks the isolation as shut down, so that no call is retried.
    pub(crate) fn shut_down(&self) {
        self.is_shut_down.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Relaxed)
    }

    /// Asks the program for the parts of a pool. Called with no lock held.
    pub(crate) fn ask_for_parts(&self, key: &Key) -> PoolParts {
        let Some(Strategy(strategy)) = &self.strategy else {
            return PoolParts::Asked(Ok(ConcurrencyStrategy::default()));
        };
        PoolParts::Asked(contain(|| strategy(key)).map_err(|message| {
            let reason = format!("the concurrency strategy panicked: {message}");
            ConfigError::new(key, "concurrency strategy", "unusable", reason)
        }))
    }

    /// Returns the pool of a key. The first command creates it, of `parts`; later commands share it if their
    /// settings agree. `code_settings` contains the command's settings made in code; the first command's
    /// settings become the pool's. A pool that its user owns has only one command.
    ///
    /// A command whose key was removed shares a pool that exists and agrees. Otherwise it gets a pool
    /// that is not listed: a later command of the same key has nothing to do with it.
    ///
    /// # Errors
    ///
    /// Returns [`NoPool::NeedsParts`] if the pool must be created and the program was not asked for
    /// its parts: whether that is so is known only under the lock, which the program must not run
    /// under.
    pub(crate) fn get_or_make(
        &self,
        key: &Key,
        user: PoolUser<'_>,
        config: &PoolConfig,
        code_settings: &CodeSettings,
        parts: &mut PoolParts,
    ) -> Result<Arc<RegisteredPool>, NoPool> {
        let mut pools = lock(&self.pools);
        let is_removed = user.is_removed.load(Ordering::Relaxed);
        match pools.by_key.get(key).map(|known| known.share(user, config)) {
            Some(Ok(known)) => return Ok(known),
            Some(Err(refused)) if !is_removed => return Err(refused.into()),
            _ => {}
        }
        config.validate(key)?;
        let parts = match (std::mem::take(parts), &self.strategy) {
            (PoolParts::Asked(parts), _) => parts?,
            (PoolParts::NotAsked, None) => ConcurrencyStrategy::default(),
            (PoolParts::NotAsked, Some(_)) => return Err(NoPool::NeedsParts),
        };
        let bulkhead = ThreadBulkhead::new(key, config, parts, (&self.clock, &self.unhandled))?;
        let pool = Arc::new(RegisteredPool {
            bulkhead,
            is_owned: user.is_owner,
            code_settings: Mutex::new(code_settings.of_pool()),
            built: config.clone(),
            // The listeners do not hear of a pool that no other command finds.
            is_announced: AtomicBool::new(is_removed),
        });
        if pools.has_no_taker {
            pool.pool().stop_taking();
        }
        if self.is_shut_down() {
            // The isolation is shut down or is shutting down, and `shutdown` did not see this pool.
            drop(pool.stop(Duration::ZERO));
        }
        if is_removed {
            pools.unlisted.retain(|one| one.strong_count() > 0);
            pools.unlisted.push(Arc::downgrade(&pool));
        } else {
            pools.by_key.insert(key.clone(), Arc::clone(&pool));
        }
        Ok(pool)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<RegisteredPool>> {
        lock(&self.pools).by_key.get(key).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.pools).by_key.len()
    }

    /// Returns all pools, in no order, or `None` while another thread adds or removes one.
    pub(crate) fn try_all(&self) -> Option<Vec<Arc<RegisteredPool>>> {
        Some(try_lock(&self.pools)?.by_key.values().cloned().collect())
    }

    /// Returns all pools, ordered by key.
    pub(crate) fn all(&self) -> Vec<Arc<RegisteredPool>> {
        let mut all: Vec<_> = lock(&self.pools).by_key.values().cloned().collect();
        sort_pools(&mut all);
        all
    }

    /// Removes and returns a pool. Its threads end when the last command that uses it is dropped.
    pub(crate) fn remove(&self, key: &str) -> Option<Arc<RegisteredPool>> {
        lock(&self.pools).by_key.remove(key)
    }

    /// Returns the pools that commands of removed keys have made, in no order.
    pub(crate) fn unlisted(&self) -> Vec<Arc<RegisteredPool>> {
        // Its caller drops them without the lock: the last reference may be among them.
        let pools = lock(&self.pools);
        pools.unlisted.iter().filter_map(Weak::upgrade).collect()
    }

    /// Says that the isolation has no handle any more. The pools that a command makes later hand
    /// nothing back to the program.
    pub(super) fn stop_taking(&self) {
        lock(&self.pools).has_no_taker = true;
    }
}

/// Sorts pools by their keys.
pub(super) fn sort_pools(pools: &mut Vec<Arc<RegisteredPool>>) {
    let mut keys = Vec::with_capacity(pools.len());
    for pool in &*pools {
        keys.push((pool.key.clone(), keys.len()));
    }
    let mut sorted = Vec::with_capacity(pools.len());
    for (_, at) in super::state::sorted_keys(keys) {
        sorted.push(Arc::clone(&pools[at]));
    }
    *pools = sorted;
}

/// Locks `mutex` if it becomes free within a moment.
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    try_briefly(|| match mutex.try_lock() {
        Ok(locked) => Some(locked),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}
