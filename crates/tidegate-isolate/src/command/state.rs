//! What all commands of one key share: settings, metrics, breaker, permits.

use std::any::TypeId;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::{CoarseClock, Permits, Task, as_nanos};

use crate::alarm::{Alarms, AsideHandle};
use crate::breaker::{BreakerMode, CircuitBreaker};
use crate::bulkhead::{Gate, Woken};
use crate::in_flight::Flight;
use crate::isolation::{Pools, RegisteredPool};
use crate::metrics::Metrics;
use crate::plugin::Plugins;
use crate::properties::{Family, Property, Reading, Said, Sources, merge};
use crate::rate::RateLimit;
use crate::request::CacheOwner;
use crate::{Bulkhead, CommandConfig, Invalid, Key};

/// The token is tripped when the time is over.
pub(crate) const INTERRUPTS: u32 = 1;
/// The token is tripped when the caller cancels.
pub(crate) const INTERRUPTS_ON_CANCEL: u32 = 2;
/// A fallback is tried.
pub(crate) const FALLS_BACK: u32 = 4;
/// Calls with a cache key share a run.
pub(crate) const CACHES: u32 = 8;
/// Calls are written into the log of their request.
pub(crate) const LOGS: u32 = 16;
/// Something was plugged in.
pub(crate) const WATCHED: u32 = 32;
/// There is a rate limit.
pub(crate) const RATED: u32 = 64;
/// The work runs on threads of its own.
pub(crate) const THREADS: u32 = 128;
/// A command with threads is bounded by its gate, too.
pub(crate) const GATED: u32 = 256;

/// The breaker has a say.
pub(crate) const BREAKS: u32 = 512;

/// The part of a bucket by which a coarse time may be late is one of so many.
const LATE_SHARE: u64 = 10;

/// One key.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) key: Key,
    pub(crate) group: Key,
    pub(crate) pool: Key,
    /// Whether the pool is for this key alone.
    pub(crate) owns_pool: bool,
    /// The pool that the first builder named, to compare others with.
    pub(crate) named_pool: Option<Key>,
    /// What the commands of this key answer.
    pub(crate) types: TypeId,
    /// What the code says; changed by `configure`.
    said: Mutex<Said>,
    /// Numbers of the readings of the sources: the last that was begun, and the last in force, which
    /// is written under the lock of `said`.
    readings: [AtomicU64; 2],
    /// What the first builder said, to compare others with.
    pub(crate) built: Said,
    config: ArcSwap<CommandConfig>,
    timeout: AtomicU64,
    flags: AtomicU32,
    /// Whose entries in the caches of requests are this key's.
    pub(crate) cache_owner: CacheOwner,
    pub(crate) metrics: Metrics,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) gate: Gate,
    pub(crate) fallback_permits: Permits,
    pub(crate) rate: RateLimit,
    /// The pool, once a command of this key has threads; made with the first of its commands.
    pub(crate) threads: OnceLock<Arc<RegisteredPool>>,
    pub(crate) pools: Arc<Pools>,
    /// Calls whose work runs on a thread of the pool.
    pub(crate) running: AtomicUsize,
    pub(crate) alarms: Alarms,
    /// Where user code of the key's calls runs that no caller runs.
    pub(crate) aside: AsideHandle,
    /// For what is only sorted into a bucket of the metrics.
    ticks: CoarseClock,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) sources: Arc<Sources>,
}

impl State {
    pub(crate) fn new(
        key: Key,
        group: Key,
        (pool, named_pool, owns_pool): (Key, Option<Key>, bool),
        types: TypeId,
        (said, reading): (Said, &Reading),
        parts: (Alarms, Arc<Plugins>, Arc<Sources>, Arc<Pools>),
    ) -> Result<Self, Invalid> {
        let (alarms, plugins, sources, pools) = parts;
        let (config, invalid) = said.resolve(reading, (&key, &pool), None)?;
        if let Some(first) = invalid.into_iter().next() {
            return Err(first);
        }
        let threads = OnceLock::new();
        if config.bulkhead == Bulkhead::Threads {
            let made = pools.get_or_make(&pool, owns_pool, &config.pool, &said)?;
            threads.get_or_init(|| made);
        }
        let listeners = plugins.on_transition.clone();
        let unhandled = plugins.unhandled.clone();
        let breaker = config.breaker.clone();
        let breaker = CircuitBreaker::with_listeners(&key, breaker, listeners, unhandled)?;
        let bucket = config.metrics.counts.bucket_nanos();
        let late = Duration::from_nanos(bucket / LATE_SHARE);
        let state = Self {
            cache_owner: CacheOwner::new(),
            metrics: Metrics::new(config.metrics),
            aside: alarms.aside(&key),
            ticks: CoarseClock::within(alarms.clock().clock(), late),
            breaker,
            gate: Gate::new(&config.permits).report_to(&key, &plugins.unhandled),
            fallback_permits: Permits::new(config.fallback_permits),
            rate: config
                .rate
                .as_ref()
                .map_or_else(RateLimit::none, RateLimit::new),
            config: ArcSwap::from_pointee(config.clone()),
            timeout: AtomicU64::new(u64::MAX),
            flags: AtomicU32::new(0),
            built: said.clone(),
            said: Mutex::new(said),
            readings: [AtomicU64::new(0), AtomicU64::new(0)],
            running: AtomicUsize::new(0),
            threads,
            pools,
            key,
            group,
            pool,
            owns_pool,
            named_pool,
            types,
            alarms,
            plugins,
            sources,
        };
        state.breaker.begin_at(state.now());
        state.set_hot(&config);
        Ok(state)
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// The timeout in nanoseconds; `u64::MAX` for none.
    #[inline]
    pub(crate) fn timeout(&self) -> u64 {
        self.timeout.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.alarms.clock().nanos()
    }

    /// Begins a call of this key on `flight`.
    #[inline]
    pub(crate) fn arm(&self, flight: &Flight, deadline: u64, flags: u32) {
        let interrupts = flags & INTERRUPTS != 0;
        let whose = self.aside.id();
        self.alarms.arm(flight, deadline, whose, interrupts);
    }

    /// The present time, late by at most a tenth of a bucket of the metrics: for refusals, which
    /// cost less than a look at a better clock. It may be earlier than what [`State::now`] has
    /// said already; then it counts into the bucket that this began.
    #[inline]
    pub(crate) fn coarse_now(&self) -> u64 {
        self.ticks.nanos()
    }

    /// The settings in force. Those of a pool are the pool's: another of its commands may have
    /// changed them.
    pub(crate) fn config(&self) -> Arc<CommandConfig> {
        let config = self.config.load_full();
        let pool = self.threads.get().map(|threads| threads.config());
        match pool.filter(|pool| *pool != config.pool) {
            None => config,
            Some(pool) => Arc::new(CommandConfig {
                pool,
                ..(*config).clone()
            }),
        }
    }

    /// Changes what the code says. Nothing changes if the result makes no sense.
    ///
    /// `change` is the user's, and runs with no lock held: what it changes is carried over to what
    /// the code says by then, setting by setting.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut CommandConfig)) -> Result<(), Invalid> {
        let base = self.said().config;
        let mut changed = base.clone();
        change(&mut changed);
        let (_, hidden) = self.update(|said| {
            let mut config = said.config.clone();
            merge(&base, &changed, &mut config);
            self.check_fixed(&said.config, &config)?;
            said.change(config);
            Ok(())
        })?;
        self.after_change();
        for message in hidden {
            self.plugins.report(&message);
        }
        Ok(())
    }

    /// Sees to what a change of the settings causes in user code: callers that get a permit, and
    /// settings without effect. Called with no lock held.
    pub(crate) fn after_change(&self) {
        if let Some(woken) = self.gate.serve_quietly(self.now()) {
            self.wake_aside(woken);
        }
        let warning = self.threads.get().and_then(|pool| pool.take_warning());
        if let Some(message) = warning {
            self.plugins.report(&message);
        }
    }

    /// Refuses the calls that wait for a permit.
    pub(crate) fn turn_away(&self) {
        if self.gate.waiting() != 0 {
            self.wake_aside(self.gate.turn_away_all());
        }
    }

    /// Wakes callers on the threads of the command: others may wait for this thread, or for what it
    /// holds.
    fn wake_aside(&self, woken: Woken) {
        let wake = Task::named("wakers of a bulkhead", move || woken.wake());
        self.alarms.run_aside(&self.aside, wake);
    }

    /// Looks at the properties again, since `name` has changed. What another property says wrongly
    /// was told when that one changed.
    pub(crate) fn refresh(&self, name: &str) -> Result<(), Invalid> {
        let (refused, _) = self.update(|_| Ok(()))?;
        self.after_change();
        let mut refused = refused.into_iter();
        let its_own = refused.find(|error| name.ends_with(error.property()));
        its_own.map_or(Ok(()), Err)
    }

    /// Returns whose `value` of a property is not in force, and why, if it is not.
    pub(crate) fn why_hidden(
        &self,
        (scope, property): (&str, &'static Property),
        value: &str,
    ) -> Option<String> {
        if property.family == Family::Pool && self.threads.get().is_none() {
            return None;
        }
        let keys = (&self.key, &self.pool);
        let (said, config) = (self.said(), self.config());
        let at = (scope, property);
        let why = said.why_hidden(&self.sources, keys, at, value, &config)?;
        let (family, key) = (property.family.name(), property.family.key(keys));
        Some(format!("{family} `{key}` ({why})"))
    }

    /// What the code says; of the pool, what was said by the last of its commands that said
    /// something.
    fn said(&self) -> Said {
        let mut said = lock(&self.said).clone();
        if let Some(threads) = self.threads.get() {
            said.take_pool(&threads.said());
        }
        said
    }

    /// Changes what the code says and looks at the properties again. Returns what the sources say
    /// wrongly, and which changes of the code they hide.
    fn update(
        &self,
        change: impl FnOnce(&mut Said) -> Result<(), Invalid>,
    ) -> Result<(Vec<Invalid>, Vec<String>), Invalid> {
        let (mut said, reading) = self.read_sources();
        // What is said of a pool lies with the pool: its commands change it one after the other.
        let mut of_pool = self.threads.get().map(|threads| threads.said());
        let mut next = said.clone();
        if let Some(of_pool) = &of_pool {
            next.take_pool(of_pool);
        }
        let before = next.config.clone();
        change(&mut next)?;
        let keys = (&self.key, &self.pool);
        let refused = self.apply(&next, &reading)?;
        let hidden = next.hidden_changes(&before, &self.config(), keys);
        if let Some(of_pool) = &mut of_pool {
            **of_pool = next.of_pool();
        }
        *said = next;
        Ok((refused, hidden))
    }

    /// Asks the sources, with no lock held, and takes the lock of what the code says. A reading that
    /// was begun before one that is in force already may be out of date: then they are asked again.
    fn read_sources(&self) -> (MutexGuard<'_, Said>, Reading) {
        let [begun, in_force] = &self.readings;
        loop {
            let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
            let reading = self.sources.read((&self.key, &self.pool));
            let said = lock(&self.said);
            if number > in_force.load(Ordering::Relaxed) {
                in_force.store(number, Ordering::Relaxed);
                return (said, reading);
            }
        }
    }

    fn check_fixed(&self, old: &CommandConfig, new: &CommandConfig) -> Result<(), Invalid> {
        let reason = "it is fixed for the life of the key";
        let wrong =
            |property: &str, value: String| Err(Invalid::new(&*self.key, property, value, reason));
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

    /// Takes over what the code and the sources say; answers what the sources say wrongly, where
    /// the old stays in force. The windows were read when the key was made: a property that changes
    /// later is for later keys.
    fn apply(&self, said: &Said, reading: &Reading) -> Result<Vec<Invalid>, Invalid> {
        let old = self.config();
        let keys = (&self.key, &self.pool);
        let (config, refused) = said.resolve(reading, keys, Some(&old))?;
        match self.threads.get() {
            Some(threads) if config.pool != old.pool => threads.configure(&config.pool)?,
            None if config.bulkhead == Bulkhead::Threads => {
                let pools = &self.pools;
                let made = pools.get_or_make(&self.pool, self.owns_pool, &config.pool, said)?;
                self.threads.get_or_init(|| made);
            }
            _ => {}
        }
        self.breaker.configure(config.breaker.clone())?;
        self.gate.configure(&config.permits);
        self.fallback_permits.set_limit(config.fallback_permits);
        self.rate.configure(config.rate.as_ref());
        self.set_hot(&config);
        self.config.store(Arc::new(config));
        Ok(refused)
    }

    /// Puts what every call looks at where it costs one load.
    fn set_hot(&self, config: &CommandConfig) {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
