//! The registry: every key once, with the clock, the timer, the plug-ins and the properties that
//! its commands share.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate_core::{Clock, OnUnhandled, Task, Unhandled};
use tidegate_pool::{Stopped, WorkerPool};

use super::pools::Pools;
use crate::alarm::Alarms;
use crate::bulkhead::PoolSnapshot;
use crate::command::state::State;
use crate::plugin::{Hook, MetricsPublisher, Plugins, Propagator};
use crate::properties::{
    ChangeListener, Concerns, Named, PREFIX, PropertySource, Said, Sources, parse,
};
use crate::snapshot::CommandSnapshot;
use crate::{Event, Invalid, Key, Transition};

/// Owns what commands share. Clones are handles to the same isolation; when the last of them and
/// the last command are gone, its timer ends.
///
/// ```
/// use tidegate_isolate::{Isolation, Properties};
///
/// let properties = Properties::new();
/// let isolation = Isolation::builder().properties(properties.clone()).build()?;
/// assert_eq!(isolation.len(), 0);
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[derive(Clone)]
pub struct Isolation {
    inner: Arc<Inner>,
}

struct Inner {
    alarms: Alarms,
    plugins: Arc<Plugins>,
    sources: Arc<Sources>,
    states: Mutex<HashMap<Key, Arc<State>>>,
    pools: Arc<Pools>,
    /// Commands that name no pool share that of their group.
    pools_by_group: bool,
    /// Interned names of groups and pools.
    names: Mutex<HashMap<Key, ()>>,
}

impl Isolation {
    /// Begins to make an isolation.
    pub fn builder() -> IsolationBuilder {
        IsolationBuilder::default()
    }

    /// How every known command is doing, ordered by key. A command that was never called is
    /// there, with zeros. Whoever looks from time to time need not [`reclaim`](Isolation::reclaim).
    pub fn snapshots(&self) -> Vec<CommandSnapshot> {
        self.reclaim();
        let mut states: Vec<_> = self.states().values().cloned().collect();
        states.sort_by(|a, b| a.key.cmp(&b.key));
        states
            .iter()
            .map(|state| CommandSnapshot::of(state))
            .collect()
    }

    /// How many keys are known.
    pub fn len(&self) -> usize {
        self.states().len()
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.states().is_empty()
    }

    /// Forgets a key, and its pool with the last key that uses it; false if it is not known.
    /// Commands that exist go on by themselves, a new one of this key begins anew, and memory and
    /// threads come back with the last of them.
    pub fn remove(&self, key: &str) -> bool {
        let mut states = self.states();
        let Some(removed) = states.remove(key) else {
            return false;
        };
        if !states.values().any(|state| state.pool == removed.pool) {
            self.inner.pools.remove(&removed.pool);
        }
        let mut names = self.inner.names();
        for name in [&removed.group, &removed.pool] {
            let is_used = |state: &Arc<State>| state.group == *name || state.pool == *name;
            if !states.values().any(is_used) {
                names.remove(name);
            }
        }
        drop((names, states));
        self.inner.plugins.removed(&removed.key);
        true
    }

    /// Takes back what idle keys hold because they were in use: histograms and window marks.
    /// Answers how many keys hold counters only.
    pub fn reclaim(&self) -> usize {
        let states: Vec<_> = self.states().values().cloned().collect();
        let now = self.inner.alarms.clock().nanos();
        let idle = states.iter().filter(|state| state.metrics.reclaim(now));
        idle.count()
    }

    /// Tells every running call to stop: its token is tripped and it ends as timed out. A call that
    /// waits for a permit is refused. Nothing times out any more after that.
    pub fn stop(&self) {
        self.inner.alarms.close(true);
        self.inner.turn_away();
    }

    /// The clock by which calls are timed.
    pub fn clock(&self) -> &Clock {
        self.inner.alarms.clock().clock()
    }

    /// How every pool is doing, ordered by key.
    pub fn pool_snapshots(&self) -> Vec<PoolSnapshot> {
        let now = self.inner.alarms.clock().nanos();
        let pools = self.inner.pools.all();
        pools.iter().map(|pool| pool.snapshot(now)).collect()
    }

    /// How many pools there are.
    pub fn pool_count(&self) -> usize {
        self.inner.pools.len()
    }

    /// The worker pool of a pool key, to see how much room it has or to give it other work.
    pub fn pool(&self, key: &str) -> Option<WorkerPool> {
        self.inner.pools.get(key).map(|pool| pool.pool().clone())
    }

    /// Takes no more calls on threads. What was accepted runs until `timeout` has passed; then
    /// every running call is told to stop. Answers the end of every pool, with a report of what
    /// was left.
    pub fn shutdown(&self, timeout: Duration) -> Vec<(Key, Stopped)> {
        self.inner.pools.shut_down();
        let pools = self.inner.pools.all();
        let ends = pools
            .iter()
            .map(|pool| (pool.key.clone(), pool.stop(timeout)));
        let ends: Vec<_> = ends.collect();
        let alarms = &self.inner.alarms;
        // The time is over and every pool has reported: a call that is told to stop leaves the
        // queue, and would be missing in a report that comes later.
        let left = Arc::new(AtomicUsize::new(ends.len() + 1));
        let one_less = || {
            let (alarms, left) = (alarms.clone(), Arc::clone(&left));
            let inner = Arc::downgrade(&self.inner);
            move || {
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    alarms.expire_all();
                    if let Some(inner) = inner.upgrade() {
                        inner.turn_away();
                    }
                }
            }
        };
        for (_, end) in &ends {
            let told = one_less();
            end.on_complete(move |_| told());
        }
        alarms.call_at(self.clock().deadline(timeout), Task::new(one_less()));
        ends
    }

    /// The state of a key: made by the first command, shared by the others if they agree.
    pub(crate) fn state(
        &self,
        key: Key,
        group: Key,
        pool: Option<Key>,
        types: TypeId,
        said: Said,
    ) -> Result<Arc<State>, Invalid> {
        let over = format!("{PREFIX}.command.{key}.threadPoolKeyOverride");
        let over = self
            .inner
            .sources
            .get(&over)
            .filter(|name| !name.is_empty());
        let coded = said.config.pool_override.clone();
        let named = over.or(coded).map(Key::from).or_else(|| pool.clone());
        let named = named.or_else(|| self.inner.pools_by_group.then(|| group.clone()));
        let owns_pool = named.is_none();
        let named_pool = pool;
        let pool = named.unwrap_or_else(|| key.clone());
        let known = self.states().get(&key).cloned();
        if let Some(known) = known {
            return agree(&known, (&group, &named_pool), types, &said).map(|()| known);
        }
        let sources = &self.inner.sources;
        let changes = sources.changes();
        // Before the lock: sources are user code.
        let reading = sources.read((&key, &pool));
        let mut states = self.states();
        // Under the lock: a key that is removed meanwhile takes unused names along.
        let (group, pool) = (self.intern(group), self.intern(pool));
        if let Some(known) = states.get(&key) {
            return agree(known, (&group, &named_pool), types, &said).map(|()| Arc::clone(known));
        }
        let parts = (
            self.inner.alarms.clone(),
            Arc::clone(&self.inner.plugins),
            Arc::clone(&self.inner.sources),
            Arc::clone(&self.inner.pools),
        );
        let state = State::new(
            key.clone(),
            group,
            (pool, named_pool, owns_pool),
            types,
            (said, &reading),
            parts,
        )?;
        let state = Arc::new(state);
        states.insert(key.clone(), Arc::clone(&state));
        drop(states);
        self.inner.plugins.added(&key);
        state.after_change();
        if sources.changes() != changes
            && let Err(error) = state.refresh("")
        {
            self.inner.plugins.report(&error.to_string());
        }
        Ok(state)
    }

    fn intern(&self, name: Key) -> Key {
        let mut names = self.inner.names();
        if let Some((known, ())) = names.get_key_value(&name) {
            return known.clone();
        }
        names.insert(name.clone(), ());
        name
    }

    fn states(&self) -> MutexGuard<'_, HashMap<Key, Arc<State>>> {
        self.inner.states()
    }
}

/// Checks that a later builder says what the first one said.
fn agree(
    known: &State,
    (group, pool): (&Key, &Option<Key>),
    types: TypeId,
    said: &Said,
) -> Result<(), Invalid> {
    let differs = |property: &str, value: String| {
        let reason = "a command of this key exists and was built differently; use its clone, \
                      `configure` it, or give this one another key";
        Err(Invalid::new(&*known.key, property, value, reason))
    };
    if known.types != types {
        return differs("types", "another answer or error type".to_owned());
    }
    if known.group != *group {
        return differs("group", group.to_string());
    }
    if known.named_pool != *pool {
        let told = |pool: &Option<Key>| pool.as_ref().map_or("its own".to_owned(), Key::to_string);
        let value = format!("{} and was {}", told(pool), told(&known.named_pool));
        return differs("pool", value);
    }
    match said.difference(&known.built) {
        Some((property, value)) => differs(property, value),
        None => Ok(()),
    }
}

impl Inner {
    fn states(&self) -> MutexGuard<'_, HashMap<Key, Arc<State>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Key, ()>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses the calls that wait for a permit. Their wakers run on the threads of their commands.
    fn turn_away(&self) {
        let states: Vec<_> = self.states().values().cloned().collect();
        for state in states {
            state.turn_away();
        }
    }

    /// Tells the commands that a property concerns, which has changed in one of the sources. All
    /// of them hear it, also if one refuses.
    fn changed(&self, source: usize, name: &str) -> Result<(), Invalid> {
        let named = match parse(name) {
            Err(_) if self.sources.accepts_unknown(source) => return Ok(()),
            named => named?,
        };
        // A key that is being built sees this, or is found below.
        self.sources.count_change();
        let concerned = |state: &&Arc<State>| match named.concerns() {
            Concerns::All => true,
            Concerns::Command(key) => &*state.key == key,
            Concerns::Pool(pool) => &*state.pool == pool,
            Concerns::Nothing => false,
        };
        let states: Vec<_> = self.states().values().filter(concerned).cloned().collect();
        let told = states.iter().map(|state| state.refresh(name));
        let told = told.fold(Ok(()), Result::and);
        let hidden = self.sources.tell(name);
        told?;
        self.report_hidden(source, (name, named), &states, hidden?);
        Ok(())
    }

    /// Reports a change that has no effect, or not everywhere.
    fn report_hidden(
        &self,
        source: usize,
        (name, named): (&str, Named<'_>),
        states: &[Arc<State>],
        mut hidden: Vec<String>,
    ) {
        const MOST: usize = 3;
        let Some((value, by_source)) = self.sources.said_by(source, name) else {
            return;
        };
        let report = |why: &str| self.plugins.report(&format!("`{name}` = {value}: {why}"));
        match named {
            Named::Foreign => return,
            _ if by_source => return report("an earlier source has it, too; change it there"),
            Named::WithoutUse => return report("Hystrix has it, and it has no use here"),
            Named::Collapser => {}
            Named::Setting(scope, property) => {
                let states = states.iter();
                let whys = states.filter_map(|one| one.why_hidden((scope, property), &value));
                hidden.extend(whys);
                hidden.sort();
                hidden.dedup();
            }
        }
        if hidden.is_empty() {
            return;
        }
        let more = hidden.len().saturating_sub(MOST);
        hidden.truncate(MOST);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let list = hidden.join(", ");
        report(&format!("not in force for {list}{more}"));
    }
}

impl fmt::Debug for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolation")
            .field("keys", &self.len())
            .field("plugins", &self.inner.plugins)
            .finish_non_exhaustive()
    }
}

/// Makes an [`Isolation`].
///
/// ```
/// use tidegate_isolate::Isolation;
/// use tidegate_core::ManualClock;
///
/// let clock = ManualClock::new();
/// let isolation = Isolation::builder()
///     .clock(&clock)
///     .on_event(|command, event| println!("{command}: {event}"))
///     .build()?;
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[derive(Debug, Default)]
pub struct IsolationBuilder {
    clock: Clock,
    sources: Vec<Source>,
    plugins: Plugins,
    pools_by_group: bool,
}

struct Source(Arc<dyn PropertySource>);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PropertySource")
    }
}

impl IsolationBuilder {
    /// The clock by which calls are timed.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Adds a source of properties. The first that has a property wins.
    pub fn properties(mut self, source: impl PropertySource) -> Self {
        self.sources.push(Source(Arc::new(source)));
        self
    }

    /// Lets commands that name no pool share the threads of a pool called like their group, as in
    /// Hystrix. Without it each of them has a pool to itself.
    pub fn pools_by_group(mut self) -> Self {
        self.pools_by_group = true;
        self
    }

    /// Adds a hook around every call.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.plugins.hooks.push(Arc::new(hook));
        self
    }

    /// Calls `listen` with every event of every call, on the thread where it happens.
    pub fn on_event(mut self, listen: impl Fn(&Key, Event) + Send + Sync + 'static) -> Self {
        self.plugins.on_event.push(Arc::new(listen));
        self
    }

    /// Calls `listen` at every change of a breaker, on the thread whose call caused it.
    pub fn on_transition(mut self, listen: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.plugins.on_transition.push(Arc::new(listen));
        self
    }

    /// Adds a publisher, which hears of every key once.
    pub fn publisher(mut self, publisher: impl MetricsPublisher) -> Self {
        self.plugins.publishers.push(Arc::new(publisher));
        self
    }

    /// Adds what carries something from the calling to the working thread.
    pub fn propagator(mut self, propagator: impl Propagator) -> Self {
        self.plugins.propagators.push(Arc::new(propagator));
        self
    }

    /// Hears of what nobody handles, with the key that it is about: plug-ins and listeners that
    /// panic, settings without effect. Called on a thread of the hook's own; see [`OnUnhandled`].
    pub fn on_unhandled(self, hear: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.report_to(OnUnhandled::new(hear))
    }

    /// The same with a hook that others may have too; [`OnUnhandled::stderr`] unless given.
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.plugins.unhandled = hook;
        self
    }

    /// Makes the isolation.
    ///
    /// # Errors
    ///
    /// A source has a name that is none, and does not say that it accepts them.
    pub fn build(self) -> Result<Isolation, Invalid> {
        let sources = self.sources.into_iter().map(|source| source.0).collect();
        let unhandled = &self.plugins.unhandled;
        let alarms = Alarms::new(&self.clock, unhandled);
        let inner = Arc::new(Inner {
            pools: Arc::new(Pools::new(alarms.clock().clone(), unhandled.clone())),
            alarms,
            plugins: Arc::new(self.plugins),
            sources: Arc::new(Sources::new(sources)),
            states: Mutex::default(),
            pools_by_group: self.pools_by_group,
            names: Mutex::default(),
        });
        inner.sources.check_names()?;
        let weak: Weak<Inner> = Arc::downgrade(&inner);
        inner.sources.watch(|source| {
            let weak = weak.clone();
            let changed = move |name: &str| match weak.upgrade() {
                Some(inner) => inner.changed(source, name),
                None => Ok(()),
            };
            Arc::new(changed) as ChangeListener
        });
        Ok(Isolation { inner })
    }
}
