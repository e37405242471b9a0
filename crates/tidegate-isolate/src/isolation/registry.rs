//! The registry: the state of every key, and the clock, timer, plug-ins and properties that all
//! commands share.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tidegate_core::internal::PlainTask;
use tidegate_core::{Clock, Executor};
use tidegate_pool::WorkerPool;
use tidegate_promise::SharedCompletion;

use super::names::Names;
use super::pools::{NoPool, PoolParts, Pools, RegisteredPool, sort_pools};
use super::shutdown::{ShutdownReport, collect};
use super::snapshot::CommandSnapshot;
use super::state::{Apply, RemovedStates, State, sort_states};
use crate::alarm::CallTimer;
use crate::bulkhead::PoolSnapshot;
use crate::error::ConfigError;
use crate::key::Key;
use crate::lock::lock;
use crate::metrics::LatencyTotals;
use crate::plugin::Plugins;
use crate::properties::{CodeSettings, PREFIX, Reading, Settings, Sources, difference};

/// Owns the resources that commands share. Clones are handles to the same isolation. Its timer ends
/// when the last handle and the last command are dropped.
///
/// ```
/// use tidegate_isolate::{Isolation, Properties};
///
/// let properties = Properties::new();
/// let isolation = Isolation::builder().properties(properties.clone()).build()?;
/// assert_eq!(isolation.len(), 0);
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Isolation {
    pub(super) inner: Arc<Inner>,
}

/// A state that was taken out of the registry, and its pool if no other key uses it.
type Unlisted = (Arc<State>, Option<Arc<RegisteredPool>>);

/// The key of a command, that of its group, and that of the pool that it names.
pub(crate) struct CommandKeys {
    pub(crate) key: Key,
    pub(crate) group: Key,
    pub(crate) pool: Option<Key>,
}

pub(super) struct Inner {
    pub(super) alarms: CallTimer,
    pub(super) plugins: Arc<Plugins>,
    pub(super) sources: Arc<Sources>,
    pub(super) states: Mutex<HashMap<Key, Arc<State>>>,
    /// Keys that were removed. Their commands may still be in use, and end with the isolation.
    pub(super) removed: Arc<RemovedStates>,
    pub(super) pools: Arc<Pools>,
    /// Commands that name no pool share the pool of their group.
    pub(super) pools_by_group: bool,
    /// The names of groups and pools. Changed with the lock of `states` held.
    pub(super) names: Mutex<Names>,
}

impl Isolation {
    /// Returns a snapshot of every known command, ordered by key. A command that was never called
    /// is included, with zeros. This also calls [`reclaim`](Isolation::reclaim), so a program that
    /// takes snapshots regularly need not do so.
    pub fn snapshots(&self) -> Vec<CommandSnapshot> {
        self.reclaim();
        let mut snapshots = Vec::new();
        for state in self.sorted_states() {
            snapshots.push(CommandSnapshot::of(&state));
        }
        snapshots
    }

    /// Returns how many calls of every known command took how long, since the key was created,
    /// ordered by key.
    pub fn latency_totals(&self) -> Vec<LatencyTotals> {
        let mut totals = Vec::new();
        for state in self.sorted_states() {
            let all = state.metrics.cumulative(state.now());
            totals.push(LatencyTotals::new(state.key.clone(), &all));
        }
        totals
    }

    /// Returns the number of known keys.
    pub fn len(&self) -> usize {
        self.states().len()
    }

    /// Returns `true` if no key is known.
    pub fn is_empty(&self) -> bool {
        self.states().is_empty()
    }

    /// Removes a key, and also its pool if no other key uses it. Returns `false` if the key is not
    /// known. Existing commands of the key continue to work on their own; a new command of this key
    /// starts with fresh state. Memory and threads are released with the last existing command.
    pub fn remove(&self, key: &str) -> bool {
        let removed = self.inner.unlist(&mut self.states(), key);
        removed.is_some_and(|removed| {
            self.inner.keep_removed(removed);
            true
        })
    }

    /// Closes the breaker of a key and forgets what it has counted; see
    /// [`Command::reset_breaker`](crate::Command::reset_breaker). Returns `false` if the key is not
    /// known.
    pub fn reset_breaker(&self, key: &str) -> bool {
        let state = self.states().get(key).cloned();
        // Called without the lock: listeners of the transition are user code.
        state
            .as_ref()
            .inspect(|state| state.reset_breaker())
            .is_some()
    }

    /// Returns every setting in force and its origin, for each known key, ordered by key.
    ///
    /// ```
    /// use tidegate_isolate::{Command, Isolation, Origin};
    ///
    /// let isolation = Isolation::builder().build()?;
    /// let _prices: Command<u32, String> =
    ///     Command::builder("prices").group("catalog").permits(20).build(&isolation)?;
    /// let settings = isolation.settings().remove(0);
    /// let limit = settings.get("execution.isolation.semaphore.maxConcurrentRequests").unwrap();
    /// assert_eq!((limit.value.as_str(), &limit.origin), ("20", &Origin::Code));
    /// println!("{settings}"); // one line for each
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn settings(&self) -> Vec<Settings> {
        let mut settings = Vec::new();
        for state in self.sorted_states() {
            settings.push(state.settings());
        }
        settings
    }

    /// Returns the state of every known key, ordered by key.
    pub(super) fn sorted_states(&self) -> Vec<Arc<State>> {
        let mut states = list(&self.states());
        sort_states(&mut states);
        states
    }

    /// Frees the memory that idle keys hold only because they were in use: histograms and window
    /// marks. Returns the number of keys that now hold counters only.
    pub fn reclaim(&self) -> usize {
        let states: Vec<_> = self.states().values().cloned().collect();
        let now = self.inner.alarms.clock().nanos();
        let idle = states.iter().filter(|state| state.metrics.reclaim(now));
        idle.count()
    }

    /// Stops every running call: its token is cancelled and it ends as timed out. A call that
    /// waits for a permit is rejected. After that, no call times out any more.
    pub fn shutdown_now(&self) {
        self.inner.alarms.close(true);
        self.inner.reject_waiters();
    }

    /// Returns the clock that times the calls.
    pub fn clock(&self) -> &Clock {
        self.inner.alarms.clock().clock()
    }

    /// Returns a snapshot of every pool, ordered by key.
    pub fn pool_snapshots(&self) -> Vec<PoolSnapshot> {
        let now = self.inner.alarms.clock().nanos();
        let pools = self.inner.pools.all();
        pools.iter().map(|pool| pool.snapshot(now)).collect()
    }

    /// Returns the number of pools.
    pub fn pool_count(&self) -> usize {
        self.inner.pools.len()
    }

    /// Returns the number of interned pool keys: the distinct pools that the known commands name,
    /// whether or not one of them has used threads yet.
    pub fn pool_key_count(&self) -> usize {
        self.inner.names().pools()
    }

    /// Returns the worker pool of a pool key, for example to read its free capacity or to give it
    /// other work.
    pub fn pool(&self, key: &str) -> Option<WorkerPool> {
        self.inner.pools.get(key).map(|pool| pool.pool().clone())
    }

    /// Stops accepting calls on threads, also those of removed keys. Accepted calls run until
    /// `timeout` has passed; then every running call is cancelled. The completion ends when every
    /// pool has ended, with a report of the unfinished work. It does not fail: the report says which
    /// pool did. A call on threads must not wait for it: that wait is refused, because it would be a
    /// wait for the call itself.
    ///
    /// Calls that a pool hands back can be taken from the report, or from
    /// [`pool`](Isolation::pool) of its key, as long as one of them exists. Otherwise they end as
    /// rejected when the last handle of the isolation is dropped.
    pub fn shutdown(&self, timeout: Duration) -> SharedCompletion<ShutdownReport> {
        self.inner.pools.shut_down();
        let pools = self.inner.all_pools();
        let ends = pools
            .iter()
            .map(|pool| (pool.key.clone(), pool.stop(timeout)));
        let ends: Vec<_> = ends.collect();
        let alarms = &self.inner.alarms;
        // Runs once the timeout has passed and every pool has reported. A call that is cancelled
        // leaves the queue, so it would be missing from a later report.
        let left = Arc::new(AtomicUsize::new(ends.len() + 1));
        let one_less = || {
            // A task that kept its own timer alive would keep it until the timeout.
            let (alarms, left) = (alarms.downgrade(), Arc::clone(&left));
            let inner = Arc::downgrade(&self.inner);
            move || {
                // ORDERING: AcqRel pairs with itself: the last decrement happens after the reports
                // of all pools.
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    if let Some(alarms) = alarms.upgrade() {
                        alarms.expire_all();
                    }
                    if let Some(inner) = inner.upgrade() {
                        inner.reject_waiters();
                    }
                }
            }
        };
        for (_, end) in &ends {
            let count_down = one_less();
            end.on_complete(move |_| count_down());
        }
        alarms.call_at(self.clock().deadline(timeout), PlainTask::new(one_less()));
        let ids = pools.iter().map(|pool| pool.pool().id()).collect();
        collect(ids, self.clock(), &ends)
    }

    /// Returns the state of a key. The first command creates it; later commands share it if their
    /// settings agree.
    pub(crate) fn state(
        &self,
        CommandKeys { key, group, pool }: CommandKeys,
        types: TypeId,
        code_settings: CodeSettings,
    ) -> Result<Arc<State>, ConfigError> {
        let named = self.pool_name((&key, &group), pool.as_ref(), &code_settings);
        let owns_pool = named.is_none();
        let (named_pool, pool) = (pool, named.unwrap_or_else(|| key.clone()));
        let known = self.states().get(&key).cloned();
        if let Some(known) = known {
            return agree(&known, (&group, &named_pool), types, &code_settings).map(|()| known);
        }
        let sources = &self.inner.sources;
        let changes = sources.changes();
        // Read before taking the lock: sources are user code.
        let reading = sources.read((&key, &pool));
        // Dropped with no lock held, if they are not used: they are user code.
        let mut pool_parts = PoolParts::NotAsked;
        let state = loop {
            let mut states = self.states();
            let (group, pool) = self.inner.names().intern(&group, &pool);
            if let Some(known) = states.get(&key) {
                return agree(known, (&group, &named_pool), types, &code_settings)
                    .map(|()| Arc::clone(known));
            }
            let made = self.inner.make(
                (&key, group),
                (pool.clone(), named_pool.clone(), owns_pool),
                types,
                (code_settings.clone(), &reading),
                &mut pool_parts,
            );
            match made {
                Ok(state) => {
                    self.inner.names().add(&state.group, &state.pool);
                    states.insert(key.clone(), Arc::clone(&state));
                    break state;
                }
                Err(NoPool::Invalid(error)) => return Err(error),
                Err(NoPool::NeedsParts) => {
                    drop(states);
                    pool_parts = self.inner.pools.ask_for_parts(&pool);
                }
            }
        };
        self.inner.announce(&state, changes);
        Ok(state)
    }

    /// Makes the state of a key that has permits only, and returns what registers it in place of
    /// `before`. A registered state that is not `before` is shared if its settings agree.
    pub(crate) fn prepare(
        &self,
        CommandKeys { key, group, pool }: CommandKeys,
        types: TypeId,
        code_settings: CodeSettings,
        before: Option<&Arc<State>>,
    ) -> Result<(Arc<State>, Apply), ConfigError> {
        let known = self.states().get(&key).cloned();
        let is_before = |known: &Arc<State>| before.is_some_and(|own| Arc::ptr_eq(own, known));
        if let Some(known) = known.filter(|known| !is_before(known)) {
            agree(&known, (&group, &pool), types, &code_settings)?;
            return Ok((known, Box::new(|| ())));
        }
        let named = self.pool_name((&key, &group), pool.as_ref(), &code_settings);
        let owns_pool = named.is_none();
        let (named_pool, pool) = (pool, named.unwrap_or_else(|| key.clone()));
        let changes = self.inner.sources.changes();
        let reading = self.inner.sources.read((&key, &pool));
        let (group, pool) = self.inner.names().intern(&group, &pool);
        let made = self.inner.make(
            (&key, group),
            (pool, named_pool, owns_pool),
            types,
            (code_settings, &reading),
            &mut PoolParts::NotAsked,
        );
        let state = made.map_err(|why| match why {
            NoPool::Invalid(error) => error,
            NoPool::NeedsParts => unreachable!("it has no threads"),
        })?;
        let (inner, own) = (Arc::clone(&self.inner), Arc::clone(&state));
        Ok((state, Box::new(move || inner.register(own, changes))))
    }

    /// Returns the name of the pool that a command shares: an override first, then the name that its
    /// builder gave. `None` if the pool belongs to the command alone.
    fn pool_name(
        &self,
        (key, group): (&Key, &Key),
        built: Option<&Key>,
        code_settings: &CodeSettings,
    ) -> Option<Key> {
        let over = format!("{PREFIX}.command.{key}.threadPoolKeyOverride");
        let over = self.inner.sources.get(&over);
        over.filter(|name| !name.is_empty())
            .or_else(|| code_settings.config.pool_override.clone())
            .map(Key::from)
            .or_else(|| built.cloned())
            .or_else(|| self.inner.pools_by_group.then(|| group.clone()))
    }

    fn states(&self) -> MutexGuard<'_, HashMap<Key, Arc<State>>> {
        self.inner.states()
    }
}

/// Checks that a later builder has the same settings as the first one.
fn agree(
    known: &State,
    (group, pool): (&Key, &Option<Key>),
    types: TypeId,
    code_settings: &CodeSettings,
) -> Result<(), ConfigError> {
    let differs = |property: &str, value: String| {
        let reason = "a command of this key exists and was built differently; use its clone, \
                      `configure` it, or give this one another key";
        Err(ConfigError::new(&known.key, property, value, reason))
    };
    if known.types != types {
        return differs("types", "another result or error type".to_owned());
    }
    if known.group != *group {
        return differs("group", group.to_string());
    }
    if known.named_pool != *pool {
        let text = |pool: &Option<Key>| pool.as_ref().map_or("its own".to_owned(), Key::to_string);
        let value = format!("{} and was {}", text(pool), text(&known.named_pool));
        return differs("pool", value);
    }
    match difference(&code_settings.config, &known.built.config) {
        Some((property, value)) => differs(property, value),
        None => Ok(()),
    }
}

impl Inner {
    /// Makes the state of a key, which is not registered.
    fn make(
        &self,
        (key, group): (&Key, Key),
        pool: (Key, Option<Key>, bool),
        types: TypeId,
        settings: (CodeSettings, &Reading),
        pool_parts: &mut PoolParts,
    ) -> Result<Arc<State>, NoPool> {
        let parts = (
            self.alarms.clone(),
            Arc::clone(&self.plugins),
            Arc::clone(&self.sources),
            Arc::clone(&self.pools),
        );
        let made = State::new(key.clone(), group, pool, types, settings, pool_parts, parts)?;
        let state = Arc::new(made);
        let command = Arc::downgrade(&state);
        state.aside.set_command(command);
        Ok(state)
    }

    /// Registers a state in place of any other one of its key. `changes` were counted before it read the
    /// sources.
    fn register(&self, state: Arc<State>, changes: u64) {
        let mut states = self.states();
        let before = self.unlist(&mut states, &state.key);
        self.names().add(&state.group, &state.pool);
        states.insert(state.key.clone(), Arc::clone(&state));
        drop(states);
        if let Some(before) = before {
            self.keep_removed(before);
        }
        self.announce(&state, changes);
    }

    /// Tells the listeners about a state that was registered, and lets it notice what has changed since
    /// it read the sources.
    fn announce(&self, state: &State, changes: u64) {
        self.plugins.added(&state.key);
        state.after_change();
        state.catch_up(changes);
    }

    /// Takes a key out of the registry, and its pool if no other key uses it.
    fn unlist(&self, states: &mut HashMap<Key, Arc<State>>, key: &str) -> Option<Unlisted> {
        let removed = states.remove(key)?;
        // Before its pool is removed: a pool that the command makes later is not listed.
        removed.is_removed.store(true, Ordering::Relaxed);
        let mut pool = None;
        if self.names().remove(&removed.group, &removed.pool) {
            pool = self.pools.remove(&removed.pool);
        }
        Some((removed, pool))
    }

    /// Notes a state that is not registered any more. Called without the lock of the states: the last
    /// handle of a pool may be dropped.
    fn keep_removed(&self, (removed, pool): Unlisted) {
        lock(&self.removed).insert(removed.aside.id(), Arc::downgrade(&removed));
        let _ = removed.removal.set(Arc::clone(&self.removed));
        drop((removed, pool));
    }

    pub(super) fn states(&self) -> MutexGuard<'_, HashMap<Key, Arc<State>>> {
        lock(&self.states)
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }

    /// Returns every pool, also those of removed keys that are still in use, ordered by key.
    fn all_pools(&self) -> Vec<Arc<RegisteredPool>> {
        let mut pools = self.pools.all();
        pools.append(&mut self.pools.unlisted());
        for state in self.removed_states() {
            if let Some(pool) = state.threads.get()
                && !pools.iter().any(|known| Arc::ptr_eq(known, pool))
            {
                pools.push(Arc::clone(pool));
            }
        }
        sort_pools(&mut pools);
        pools
    }

    fn removed_states(&self) -> Vec<Arc<State>> {
        lock(&self.removed)
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Rejects the calls that wait for a permit. Their wakers run on the commands' callback
    /// threads.
    fn reject_waiters(&self) {
        let mut states = list(&self.states());
        states.append(&mut self.removed_states());
        for state in states {
            state.reject_waiters();
        }
    }
}

/// Without the isolation, nobody can ask its pools for what they hand back. The calls among it hold
/// their pool, which would keep them for ever. They are dropped here, with no lock held, and end as
/// rejected. Pools and reports that the program has still keep them.
impl Drop for Inner {
    fn drop(&mut self) {
        self.pools.stop_taking();
        for pool in self.all_pools() {
            pool.pool().stop_taking();
        }
    }
}

/// Returns all states, in no order.
pub(super) fn list(states: &HashMap<Key, Arc<State>>) -> Vec<Arc<State>> {
    let mut list = Vec::with_capacity(states.len());
    for state in states.values() {
        list.push(Arc::clone(state));
    }
    list
}

debug_fields!(Isolation, this => keys: this.len(), plugins: this.inner.plugins);
