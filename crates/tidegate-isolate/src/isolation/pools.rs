//! The thread bulkheads of an isolation, one for each pool key.
//!
//! A pool is shared only by commands that name it, or by the commands of a group if the isolation
//! was built so. The pool that a command has to itself is called like the command, and no other
//! command may join it by that name.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{FastClock, OnUnhandled};

use crate::bulkhead::{PoolConfig, ThreadBulkhead};
use crate::error::Invalid;
use crate::key::Key;
use crate::properties::{Said, pool_difference};

/// One pool: its bulkhead, and what the code says of it. Shared by all commands of its key.
#[derive(Debug)]
pub(crate) struct RegisteredPool {
    bulkhead: ThreadBulkhead,
    /// It belongs to one command, and no other may join it.
    is_owned: bool,
    /// What the code says of the pool. Its commands change it one after the other.
    said: Mutex<Said>,
    /// As it was made, to compare other builders with.
    built: PoolConfig,
}

impl RegisteredPool {
    /// What the code says of the pool, with the right to change it.
    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a builder that says this may share the pool: it says what the first one said, or
    /// what is in force. The window is read once, by the first.
    fn agrees_with(&self, config: &PoolConfig) -> bool {
        let is = |known: &PoolConfig| {
            PoolConfig {
                window: known.window,
                ..config.clone()
            } == *known
        };
        is(&self.built) || is(&self.config())
    }

    /// Which setting of another builder differs from the one in force, and how.
    fn difference(&self, config: &PoolConfig) -> (&'static str, String) {
        let of = pool_difference(config, &self.config());
        of.unwrap_or(("pool", "different".to_owned()))
    }
}

impl Deref for RegisteredPool {
    type Target = ThreadBulkhead;

    #[inline]
    fn deref(&self) -> &ThreadBulkhead {
        &self.bulkhead
    }
}

/// Every pool once. Made with the first command that needs it.
#[derive(Debug)]
pub(crate) struct Pools {
    clock: FastClock,
    unhandled: OnUnhandled,
    pools: Mutex<HashMap<Key, Arc<RegisteredPool>>>,
    is_shut_down: AtomicBool,
}

impl Pools {
    pub(crate) fn new(clock: FastClock, unhandled: OnUnhandled) -> Self {
        Self {
            clock,
            unhandled,
            pools: Mutex::default(),
            is_shut_down: AtomicBool::new(false),
        }
    }

    /// Says that the isolation ends: nothing is tried again.
    pub(crate) fn shut_down(&self) {
        self.is_shut_down.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Relaxed)
    }

    /// Returns the pool of a key: made by the first command, shared by the others if they agree.
    /// `said` is what the code says of the command: that of the first one is the pool's. A pool
    /// that `is_owned` has one command only.
    pub(crate) fn get_or_make(
        &self,
        key: &Key,
        is_owned: bool,
        config: &PoolConfig,
        said: &Said,
    ) -> Result<Arc<RegisteredPool>, Invalid> {
        let mut pools = self.lock();
        if let Some(known) = pools.get(key) {
            if is_owned || known.is_owned {
                let reason = "a pool of this name exists, and a pool is shared only if each of \
                              its commands names it; call `.pool` on all of them, or rename one";
                return Err(Invalid::new(&**key, "pool", format!("`{key}`"), reason));
            }
            if known.agrees_with(config) {
                return Ok(Arc::clone(known));
            }
            let reason = "a pool of this key exists with other settings; configure it through \
                          one of its commands, or name another pool";
            let (property, value) = known.difference(config);
            return Err(Invalid::new(&**key, property, value, reason));
        }
        let bulkhead = ThreadBulkhead::new(key, config, (&self.clock, &self.unhandled))?;
        let pool = Arc::new(RegisteredPool {
            bulkhead,
            is_owned,
            said: Mutex::new(said.of_pool()),
            built: config.clone(),
        });
        if self.is_shut_down() {
            // After the end, or while it begins: whoever ends the pools did not find this one.
            drop(pool.stop(Duration::ZERO));
        }
        pools.insert(key.clone(), Arc::clone(&pool));
        Ok(pool)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<RegisteredPool>> {
        self.lock().get(key).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// All, ordered by key.
    pub(crate) fn all(&self) -> Vec<Arc<RegisteredPool>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    /// Forgets a pool. Its threads end with the last command that has it.
    pub(crate) fn remove(&self, key: &str) {
        let removed = self.lock().remove(key);
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<RegisteredPool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
