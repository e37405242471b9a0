//! The state of an isolation as a tree.
//!
//! A dump neither judges a breaker nor waits for a lock under which user code may run: it reads
//! what the calls publish anyway.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::Dump;

use super::pools::{RegisteredPool, sort_pools, try_lock};
use super::registry::{Isolation, list};
use super::state::{State, sort_states};
use crate::breaker::BreakerMode;
use crate::bulkhead::Bulkhead;

impl Isolation {
    /// Returns the state of the isolation as a tree: each command with its calls in flight, its
    /// limit, its queue and its breaker, and each pool with its threads and what they run.
    ///
    /// ```
    /// use tidegate_isolate::{Command, Isolation};
    ///
    /// let isolation = Isolation::builder().build()?;
    /// let prices: Command<u32, String> =
    ///     Command::builder("prices").group("catalog").permits(10).build(&isolation)?;
    /// prices.run(|_| Ok(1)).unwrap();
    /// let dump = isolation.dump();
    /// let prices = &dump.find("commands").unwrap().children()[0];
    /// assert_eq!(prices.get("limit").and_then(|limit| limit.as_count()), Some(10));
    /// println!("{dump}");
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    ///
    /// # Threads
    ///
    /// Can be called from any thread, also from the work of a call and from a plug-in. Never waits
    /// and calls no plug-in.
    pub fn dump(&self) -> Dump {
        let inner = &self.inner;
        let dump = Dump::new("isolation", "")
            .fact("shut_down", inner.pools.is_shut_down())
            .fact("timed_calls", inner.alarms.in_flight());
        let states = try_lock(&inner.states);
        let states = states.map(|states| list(&states));
        let dump = match states {
            Some(mut states) => {
                let total = states.len();
                sort_states(&mut states);
                states.truncate(Dump::MAX_CHILDREN);
                dump.list("commands", total, states.iter().map(|state| command(state)))
            }
            None => dump.fact("commands_not_listed", CHANGING),
        };
        match inner.pools.try_all() {
            Some(mut pools) => {
                let total = pools.len();
                sort_pools(&mut pools);
                pools.truncate(Dump::MAX_CHILDREN);
                dump.list("pools", total, pools.iter().map(|one| pool(one)))
            }
            None => dump.fact("pools_not_listed", CHANGING),
        }
    }
}

const CHANGING: &str = "a command is being built or removed at this moment; dump again";

fn command(state: &State) -> Dump {
    let config = state.own_config();
    let threads = state.threads.get();
    let threads = threads.filter(|_| config.bulkhead == Bulkhead::Threads);
    let running = state.running.load(Ordering::Relaxed);
    let is_adaptive = config.permits.adaptive.is_some();
    // As in a snapshot: with an adaptive limit, a call on threads also holds a permit.
    let in_flight = match threads {
        Some(_) if is_adaptive => running,
        _ => running + state.gate.held(),
    };
    let limit = match threads {
        Some(pool) => pool.shown_max().unwrap_or(config.pool.effective_max()),
        None => state.gate.limit(),
    };
    let (overstaying, since) = state.gate.overstaying.read();
    let age = |since| Duration::from_nanos(state.now().saturating_sub(since));
    let (bulkhead, pool) = match threads {
        Some(_) => ("threads", Some(state.pool.as_str())),
        None => ("permits", None),
    };
    Dump::new("command", &*state.key)
        .fact("group", state.group.as_str())
        .fact("bulkhead", bulkhead)
        .fact_if("pool", pool)
        .fact("in_flight", in_flight)
        .fact("limit", limit)
        .fact_if("adaptive_limit", is_adaptive.then(|| state.gate.limit()))
        .fact("waiting", state.gate.waiting())
        .fact("overstaying", overstaying)
        .fact_if("oldest_overstaying", since.map(age))
        .fact("fallbacks", state.fallback_permits.held())
        .fact("breaker", breaker(state))
        .fact_if("timeout", config.timeout)
}

/// Returns the last decided state of the breaker, and its mode if that is not the normal one.
fn breaker(state: &State) -> &'static str {
    match state.breaker.mode() {
        BreakerMode::Disabled => "disabled",
        BreakerMode::ForcedOpen => "forced open",
        BreakerMode::ForcedClosed => "forced closed",
        _ => state.breaker.decided().words(),
    }
}

fn pool(pool: &RegisteredPool) -> Dump {
    pool.pool()
        .dump()
        .fact("key", pool.key.as_str())
        .fact("calls_running", pool.running())
        .fact("overstaying", pool.overstaying())
}
