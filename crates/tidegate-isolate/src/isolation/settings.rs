//! The settings of a live key: how code and properties change them, and how a change reaches the
//! breaker, the bulkhead and the words that every call reads.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use tidegate_core::internal::{PlainTask, as_nanos};

use super::pools::{NoPool, PoolParts, PoolUser};
use super::state::{
    Apply, BREAKS, CACHES, FALLS_BACK, GATED, INTERRUPTS, INTERRUPTS_ON_CANCEL, LOGS, RATED, State,
    THREADS, WATCHED,
};
use crate::breaker::BreakerMode;
use crate::bulkhead::{Bulkhead, Woken};
use crate::config::CommandConfig;
use crate::error::ConfigError;
use crate::lock::lock;
use crate::properties::{Changes, CodeSettings, Property, Reading, Settings};

impl State {
    /// Returns the settings in force. Pool settings come from the pool, because another of its
    /// commands may have changed them.
    pub(crate) fn config(&self) -> Arc<CommandConfig> {
        let config = self.own_config();
        let pool = self.threads.get().map(|threads| threads.config());
        match pool.filter(|pool| *pool != config.pool) {
            None => config,
            Some(pool) => Arc::new(CommandConfig {
                pool,
                ..(*config).clone()
            }),
        }
    }

    /// Returns the settings in force, with those of the pool as this command last set them.
    pub(super) fn own_config(&self) -> Arc<CommandConfig> {
        Arc::clone(&lock(&self.config))
    }

    /// Changes the settings made in code. Nothing changes if the result is invalid.
    ///
    /// `change` is user code and runs with no lock held, on the settings in force. Each setting that it
    /// sets is then merged into the settings that are current by that time.
    pub(crate) fn configure(
        &self,
        change: impl FnOnce(&mut CommandConfig) + Clone,
    ) -> Result<(), ConfigError> {
        let changes = Changes::new((*self.config()).clone(), change);
        self.check_fixed(&changes.base, &changes.changed)?;
        self.update(|code_settings| {
            code_settings.apply(&changes);
            Ok(())
        })?;
        self.after_change();
        Ok(())
    }

    /// Returns `true` if these settings made in code can take the place of all others: what is fixed for
    /// the life of the key stays.
    pub(crate) fn can_take(&self, next: &CodeSettings) -> bool {
        let own = lock(&self.code_settings).config.clone();
        self.check_fixed(&own, &next.config).is_ok()
    }

    /// Checks settings made in code that [`can_take`](State::can_take) allows. Returns what puts them in
    /// force. For commands without threads of their own.
    pub(crate) fn prepare(self: &Arc<Self>, next: CodeSettings) -> Result<Apply, ConfigError> {
        let keys = (&self.key, &self.pool);
        let changes = self.sources.changes();
        let reading = self.sources.read(keys);
        let (config, refused) = next.resolve(&reading, keys, Some(&self.own_config()))?;
        refused.into_iter().next().map_or(Ok(()), Err)?;
        let own = Arc::clone(self);
        Ok(Box::new(move || {
            let mut code_settings = lock(&own.code_settings);
            let installed = own.install(config);
            *code_settings = next;
            drop(code_settings);
            installed.expect("the settings are valid, and their window is that of the breaker");
            own.after_change();
            own.catch_up(changes);
        }))
    }

    /// Reads the properties again if one has changed since `changes` were counted.
    pub(super) fn catch_up(&self, changes: u64) {
        if self.sources.changes() != changes
            && let Err(error) = self.read_again()
        {
            self.plugins.report(&error.to_string());
        }
    }

    /// Closes the breaker and forgets what it has counted.
    pub(crate) fn reset_breaker(&self) {
        self.breaker.reset(self.now());
    }

    /// Returns every setting in force and its origin. Reads the sources with no lock held.
    pub(crate) fn settings(&self) -> Settings {
        let keys = (&self.key, &self.pool);
        let reading = self.sources.read(keys);
        let (code_settings, config) = (self.code_settings(), self.config());
        let has_pool = self.threads.get().is_some();
        let is_removed = self.is_removed.load(Ordering::Relaxed);
        Settings {
            command: self.key.clone(),
            pool: self.threads.get().map(|_| self.pool.clone()),
            values: code_settings.settings(&reading, keys, &config, (has_pool, is_removed)),
        }
    }

    /// Runs the user code that a change of settings causes: calls the listeners of new pools, starts
    /// the threads of a pool that has grown, wakes callers that received a permit or whose breaker is
    /// open now, calls the listeners of the breaker, and reports a pool size without effect. Called with
    /// no lock held.
    pub(crate) fn after_change(&self) {
        let now = self.now();
        self.breaker.catch_up(now);
        if self.gate.waiting() != 0 && self.breaker.is_open(now) {
            let wake_all = self.gate.waker_of_all();
            let wake = PlainTask::named("wakers of a bulkhead", wake_all);
            self.alarms.run_aside(&self.aside, wake);
        }
        if let Some(pool) = self.threads.get() {
            if !pool.is_announced.swap(true, Ordering::Relaxed) {
                self.plugins.pool_added(&self.pool);
            }
            pool.pool().start_for_waiting();
        }
        if let Some(woken) = self.gate.take_served_waiters(now) {
            self.wake_aside(woken);
        }
        let warning = self.threads.get().and_then(|pool| pool.take_warning());
        if let Some(message) = warning {
            self.plugins.report(&message);
        }
    }

    /// Rejects the calls that wait for a permit.
    pub(crate) fn reject_waiters(&self) {
        if self.gate.waiting() != 0 {
            self.wake_aside(self.gate.reject_all_waiters());
        }
    }

    /// Wakes callers on the command's callback threads, because other code may be waiting for this
    /// thread or for a lock that it holds.
    fn wake_aside(&self, woken: Woken) {
        let wake = PlainTask::named("wakers of a bulkhead", move || woken.wake());
        self.alarms.run_aside(&self.aside, wake);
    }

    /// Reads the properties again. Returns the invalid values of the sources.
    pub(super) fn read_again(&self) -> Result<Vec<ConfigError>, ConfigError> {
        let refused = self.update(|_| Ok(()))?;
        self.after_change();
        Ok(refused)
    }

    /// Reads the properties again, because `property` has changed. Returns only an error of this
    /// property: invalid values of other properties were reported when those changed.
    pub(super) fn refresh(&self, property: &Property) -> Result<(), ConfigError> {
        let mut refused = self.read_again()?.into_iter();
        let its_own = refused.find(|error| error.property() == property.name);
        its_own.map_or(Ok(()), Err)
    }

    /// Returns the settings made in code. Pool settings are those of the pool's command that was
    /// configured last.
    fn code_settings(&self) -> CodeSettings {
        let mut code_settings = lock(&self.code_settings).clone();
        if let Some(threads) = self.threads.get() {
            code_settings.take_pool(&threads.code_settings());
        }
        code_settings
    }

    /// Changes the settings made in code and reads the properties again. Returns the invalid values
    /// of the sources.
    fn update(
        &self,
        change: impl Fn(&mut CodeSettings) -> Result<(), ConfigError>,
    ) -> Result<Vec<ConfigError>, ConfigError> {
        // Dropped with no lock held, if they are not used: they are user code.
        let mut pool_parts = PoolParts::NotAsked;
        loop {
            match self.try_update(&change, &mut pool_parts) {
                Ok(updated) => return Ok(updated),
                Err(NoPool::Invalid(error)) => return Err(error),
                Err(NoPool::NeedsParts) => pool_parts = self.pools.ask_for_parts(&self.pool),
            }
        }
    }

    fn try_update(
        &self,
        change: impl Fn(&mut CodeSettings) -> Result<(), ConfigError>,
        pool_parts: &mut PoolParts,
    ) -> Result<Vec<ConfigError>, NoPool> {
        let (mut code_settings, reading) = self.read_sources();
        // Pool settings made in code are stored in the pool, so that its commands change them one
        // at a time.
        let mut of_pool = self.threads.get().map(|threads| threads.code_settings());
        let mut next = code_settings.clone();
        if let Some(of_pool) = &of_pool {
            next.take_pool(of_pool);
        }
        change(&mut next)?;
        let refused = self.apply(&next, &reading, pool_parts)?;
        if let Some(of_pool) = &mut of_pool {
            **of_pool = next.of_pool();
        }
        *code_settings = next;
        Ok(refused)
    }

    /// Reads the sources with no lock held, then locks the settings made in code. If a reading that
    /// was begun later is already in force, this one may be out of date, and the sources are read
    /// again.
    fn read_sources(&self) -> (MutexGuard<'_, CodeSettings>, Reading) {
        let [begun, in_force] = &self.readings;
        loop {
            // ORDERING: pairs with itself. A thread that changed a source reads it afterwards,
            // under a new number; a reading with a later number sees the change.
            let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
            let reading = self.sources.read((&self.key, &self.pool));
            let code_settings = lock(&self.code_settings);
            if number > in_force.load(Ordering::Relaxed) {
                in_force.store(number, Ordering::Relaxed);
                return (code_settings, reading);
            }
        }
    }

    fn check_fixed(&self, old: &CommandConfig, new: &CommandConfig) -> Result<(), ConfigError> {
        let reason = "it is fixed for the life of the key";
        let wrong = |property: &str, value: String| {
            Err(ConfigError::new(&self.key, property, value, reason))
        };
        if old.metrics != new.metrics {
            let (counts, latencies) = (new.metrics.counts, new.metrics.latencies);
            let value = match new.metrics.record_latencies {
                true => format!("{counts}, latencies {latencies}"),
                false => format!("{counts}, no latencies"),
            };
            return wrong("metrics", value);
        }
        if old.pool.window != new.pool.window {
            return wrong("pool.window", new.pool.window.to_string());
        }
        if old.pool_override != new.pool_override {
            let value = new.pool_override.clone().unwrap_or_default();
            return wrong("threadPoolKeyOverride", value);
        }
        if old.breaker.window != new.breaker.window {
            return wrong("breaker.window", new.breaker.window.to_string());
        }
        Ok(())
    }

    /// Applies the settings made in code and the properties. Returns the invalid properties, for
    /// which the old values stay in force. The windows are read only when the key is created: a
    /// property that changes later affects only later keys.
    fn apply(
        &self,
        code_settings: &CodeSettings,
        reading: &Reading,
        pool_parts: &mut PoolParts,
    ) -> Result<Vec<ConfigError>, NoPool> {
        let old = self.config();
        let keys = (&self.key, &self.pool);
        let (config, refused) = code_settings.resolve(reading, keys, Some(&old))?;
        match self.threads.get() {
            Some(threads) if config.pool != old.pool => threads.configure(&config.pool)?,
            None if config.bulkhead == Bulkhead::Threads => {
                let pools = &self.pools;
                let (pool, config) = (&self.pool, &config.pool);
                let user = PoolUser {
                    is_owner: self.owns_pool,
                    is_removed: &self.is_removed,
                };
                let made = pools.get_or_make(pool, user, config, code_settings, pool_parts)?;
                self.threads.get_or_init(|| made);
            }
            _ => {}
        }
        self.install(config)?;
        Ok(refused)
    }

    /// Puts settings in force, but not those of the pool. Called with the lock of the settings made in
    /// code held.
    fn install(&self, config: CommandConfig) -> Result<(), ConfigError> {
        self.breaker.configure(config.breaker.clone())?;
        self.gate.configure(&config.permits, self.now());
        self.fallback_permits.set_limit(config.fallback_permits);
        self.rate.configure(config.rate.as_ref(), self.now());
        self.set_hot(&config);
        let before = std::mem::replace(&mut *lock(&self.config), Arc::new(config));
        // May hold user code, so it is dropped with no lock on it.
        drop(before);
        Ok(())
    }

    /// Stores the settings that every call reads in words that cost one load.
    pub(super) fn set_hot(&self, config: &CommandConfig) {
        let timeout = config.timeout.map_or(u64::MAX, as_nanos);
        self.timeout.store(timeout, Ordering::Relaxed);
        self.alarms.expect_timeout(timeout);
        let batches = match config.bulkhead {
            Bulkhead::Permits => self.gate.limit(),
            Bulkhead::Threads => 0,
        };
        self.aside.set_width(batches.max(config.fallback_permits));
        let flags = [
            (config.interrupt_on_timeout, INTERRUPTS),
            (config.interrupt_on_cancel, INTERRUPTS_ON_CANCEL),
            (config.fallback_enabled, FALLS_BACK),
            (config.cache_enabled, CACHES),
            (config.log_enabled, LOGS),
            (!self.plugins.is_quiet(), WATCHED),
            (config.rate.is_some(), RATED),
            (config.bulkhead == Bulkhead::Threads, THREADS),
            (config.permits.adaptive.is_some(), GATED),
            (config.breaker.mode != BreakerMode::Disabled, BREAKS),
        ];
        let flags = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag);
        self.flags.store(flags.sum(), Ordering::Relaxed);
    }
}
