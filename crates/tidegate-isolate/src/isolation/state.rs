//! The state of one key, shared by all of its commands, and the settings that every call reads.

use std::any::TypeId;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tidegate_core::internal::CoarseClock;
use tidegate_core::internal::trace::EventLimit;
use tidegate_core::permits::Permits;
use tidegate_core::{CancelToken, Unhandled};

use super::pools::{NoPool, PoolParts, PoolUser, Pools, RegisteredPool};
use crate::alarm::{CallTimer, CallbackThreadsHandle};
use crate::breaker::{Breaker, BreakerState, BreakerTransition, OnTransition};
use crate::bulkhead::{Bulkhead, Gate};
use crate::config::CommandConfig;
use crate::in_flight::Flight;
use crate::key::Key;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::plugin::{CallStage, Plugins};
use crate::properties::{CodeSettings, Reading, Sources};
use crate::rate::TokenBucket;
use crate::request::CacheOwner;

/// The token is cancelled when the call times out.
pub(crate) const INTERRUPTS: u32 = 1;
/// The token is cancelled when the caller cancels the call.
pub(crate) const INTERRUPTS_ON_CANCEL: u32 = 2;
/// A fallback is tried.
pub(crate) const FALLS_BACK: u32 = 4;
/// Calls with a cache key share a run.
pub(crate) const CACHES: u32 = 8;
/// Calls are recorded in the log of their request.
pub(crate) const LOGS: u32 = 16;
/// At least one hook or event listener is installed.
pub(crate) const WATCHED: u32 = 32;
/// There is a rate limit.
pub(crate) const RATED: u32 = 64;
/// The work runs on threads of its own.
pub(crate) const THREADS: u32 = 128;
/// A command with threads is also limited by its gate.
pub(crate) const GATED: u32 = 256;
/// The breaker is not disabled.
pub(crate) const BREAKS: u32 = 512;
/// A coarse time may be late by one part in this many of a bucket.
const LATE_SHARE: u64 = 10;

/// The state of one key.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) key: Key,
    pub(crate) group: Key,
    pub(crate) pool: Key,
    /// Whether the pool belongs to this key alone.
    pub(crate) owns_pool: bool,
    /// The pool that the first builder named, for comparison with later builders.
    pub(crate) named_pool: Option<Key>,
    /// The result and error types of this key's commands.
    pub(crate) types: TypeId,
    /// The settings made in code; changed by `configure`.
    pub(super) code_settings: Mutex<CodeSettings>,
    /// Numbers of the readings of the sources: the last reading begun, and the last in force. The
    /// second is written under the lock of `code_settings`.
    pub(super) readings: [AtomicU64; 2],
    /// The settings of the first builder, for comparison with later builders.
    pub(crate) built: CodeSettings,
    pub(super) config: Mutex<Arc<CommandConfig>>,
    pub(super) timeout: AtomicU64,
    pub(super) flags: AtomicU32,
    /// Identifies this key's entries in the caches of requests.
    pub(crate) cache_owner: CacheOwner,
    pub(crate) metrics: Metrics,
    pub(crate) breaker: Breaker,
    pub(crate) gate: Gate,
    pub(crate) fallback_permits: Permits,
    pub(crate) rate: TokenBucket,
    /// The pool. Set when the first command of this key uses threads.
    pub(crate) threads: OnceLock<Arc<RegisteredPool>>,
    pub(crate) pools: Arc<Pools>,
    /// Calls whose work is running on a thread of the pool.
    pub(crate) running: AtomicUsize,
    pub(crate) alarms: CallTimer,
    /// Runs the user code of this key's calls that does not run on a caller's thread.
    pub(crate) aside: CallbackThreadsHandle,
    /// For times that only select a bucket of the metrics.
    ticks: CoarseClock,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) sources: Arc<Sources>,
    /// Whether the key was removed.
    pub(super) is_removed: AtomicBool,
    /// Set when the key is removed: the list that this state is in.
    pub(super) removal: OnceLock<Arc<RemovedStates>>,
    /// For the events of rejected calls.
    pub(crate) rejections: EventLimit,
    /// Whether it was reported that futures cannot run on the threads of this key.
    has_told_threads: AtomicBool,
}

/// Puts what was prepared in force.
pub(crate) type Apply = Box<dyn FnOnce() + Send>;

/// The states of removed keys that are still in use, by the numbers of their callback threads.
pub(super) type RemovedStates = Mutex<HashMap<u64, Weak<State>>>;

/// A weak reference would keep the memory of the state.
impl Drop for State {
    fn drop(&mut self) {
        if let Some(list) = self.removal.get() {
            lock(list).remove(&self.aside.id());
        }
    }
}

impl State {
    pub(crate) fn new(
        key: Key,
        group: Key,
        (pool, named_pool, owns_pool): (Key, Option<Key>, bool),
        types: TypeId,
        (code_settings, reading): (CodeSettings, &Reading),
        pool_parts: &mut PoolParts,
        parts: (CallTimer, Arc<Plugins>, Arc<Sources>, Arc<Pools>),
    ) -> Result<Self, NoPool> {
        let (alarms, plugins, sources, pools) = parts;
        let (config, invalid) = code_settings.resolve(reading, (&key, &pool), None)?;
        if let Some(first) = invalid.into_iter().next() {
            return Err(first.into());
        }
        let threads = OnceLock::new();
        if config.bulkhead == Bulkhead::Threads {
            let user = PoolUser {
                is_owner: owns_pool,
                is_removed: &AtomicBool::new(false),
            };
            let made = pools.get_or_make(&pool, user, &config.pool, &code_settings, pool_parts)?;
            threads.get_or_init(|| made);
        }
        let gate = Gate::new(&config.permits)
            .report_to(&key, &plugins.unhandled)
            .move_to(&key, plugins.on_limit_move.clone());
        let listeners = breaker_listeners(&gate, &plugins);
        let breaker = config.breaker.clone();
        let breaker = Breaker::new(&key, breaker, listeners, plugins.unhandled.clone())?;
        let bucket = config.metrics.counts.bucket_nanos();
        let late = Duration::from_nanos(bucket / LATE_SHARE);
        let state = Self {
            cache_owner: CacheOwner::new(),
            metrics: Metrics::new(config.metrics),
            aside: alarms.aside(&key),
            ticks: CoarseClock::within(alarms.clock().clock(), late),
            breaker,
            gate,
            fallback_permits: Permits::new(config.fallback_permits),
            rate: config
                .rate
                .as_ref()
                .map_or_else(TokenBucket::none, TokenBucket::new),
            config: Mutex::new(Arc::new(config.clone())),
            timeout: AtomicU64::new(u64::MAX),
            flags: AtomicU32::new(0),
            built: code_settings.clone(),
            code_settings: Mutex::new(code_settings),
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
            is_removed: AtomicBool::new(false),
            removal: OnceLock::new(),
            rejections: EventLimit::new(),
            has_told_threads: AtomicBool::new(false),
        };
        state.breaker.begin_at(state.now());
        state.set_hot(&config);
        Ok(state)
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Returns the timeout in nanoseconds; `u64::MAX` for none.
    #[inline]
    pub(crate) fn timeout(&self) -> u64 {
        self.timeout.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.alarms.clock().nanos()
    }

    /// Starts a call of this key on `flight`.
    #[inline]
    pub(crate) fn arm(&self, flight: &Flight, deadline: u64, flags: u32) {
        let interrupts = flags & INTERRUPTS != 0;
        let command_id = self.aside.id();
        self.alarms.arm(flight, deadline, command_id, interrupts);
    }

    /// Returns the current time, late by at most a tenth of a metrics bucket. Used for rejections,
    /// which cost less than a read of a better clock. The value may be earlier than one that
    /// [`State::now`] already returned; the rejection then counts into the bucket that the later
    /// value began.
    #[inline]
    pub(crate) fn coarse_now(&self) -> u64 {
        self.ticks.nanos()
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.alarms.is_closed() || self.pools.is_shut_down()
    }

    /// Trips the token of a call, and runs its hooks on this thread.
    pub(crate) fn interrupt(&self, token: &CancelToken) {
        token.cancel_without_hooks();
        token.run_hooks_to(&self.key, &self.plugins.unhandled);
    }

    /// Reports, the first time, that an adapter gets no call of this key admitted: its work is a
    /// future, and the key has threads of its own. Never called with a lock held.
    #[cold]
    pub(crate) fn report_threads(&self) {
        if self.has_told_threads.swap(true, Ordering::Relaxed) {
            return;
        }
        let part = format!("the layer of command {}", self.key);
        let problem = Unhandled::PartFailed {
            part: &part,
            message: "the command has threads of its own, and a layer runs its service as a future, which \
                      cannot move there; every call is rejected: build the command with permits",
        };
        self.plugins.unhandled.report(&self.key, &problem);
    }

    /// Calls the hooks of a stage.
    pub(crate) fn hook(&self, stage: CallStage) -> Result<(), String> {
        if self.flags() & WATCHED == 0 {
            return Ok(());
        }
        self.plugins.hook(stage, &self.key)
    }
}

/// Returns the listeners of a breaker: those of the program, and one that wakes the calls that wait for a
/// permit when it opens, so that they leave.
fn breaker_listeners(gate: &Gate, plugins: &Plugins) -> Vec<OnTransition> {
    let (mut listeners, wake_all) = (plugins.on_transition.clone(), gate.waker_of_all());
    listeners.push(Arc::new(move |change: &BreakerTransition| {
        if change.to == BreakerState::Open {
            wake_all();
        }
    }));
    listeners
}

/// Sorts states by their keys.
pub(super) fn sort_states(states: &mut Vec<Arc<State>>) {
    let mut keys = Vec::with_capacity(states.len());
    for state in &*states {
        keys.push((state.key.clone(), keys.len()));
    }
    let mut sorted = Vec::with_capacity(states.len());
    for (_, at) in sorted_keys(keys) {
        sorted.push(Arc::clone(&states[at]));
    }
    *states = sorted;
}

/// Sorts keys with their places. The only sort of the crate: a sort is compiled for each type. A heap
/// is the smallest one.
pub(super) fn sorted_keys(keys: Vec<(Key, usize)>) -> Vec<(Key, usize)> {
    BinaryHeap::from(keys).into_sorted_vec()
}
