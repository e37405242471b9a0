//! The state of a pool as a tree.
//!
//! A dump must not wait behind the submitters and workers of a busy pool, so it only tries to take
//! the pool's lock, for a moment. If it fails, the dump shows what can be read without the lock: the
//! threads with their jobs, and the numbers of threads and jobs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::Dump;
use tidegate_core::internal::try_briefly;

use crate::pool::budget::LeaseInfo;
use crate::pool::limits::PoolLimits;
use crate::pool::raw::Growth;

use super::counts::Counts;
use super::shared::{PoolDispatchGuard, Shared};
use super::workers::WorkerEntry;

/// What a dump reads with the lock held.
struct LockedPart {
    limits: PoolLimits,
    counts: Counts,
    state: &'static str,
    threads: usize,
    idle: usize,
    queued: usize,
    queued_internal: usize,
    low: bool,
    leases: Vec<LeaseInfo>,
}

impl Shared {
    /// Returns the state of the pool. Never waits for user code.
    pub(crate) fn dump(&self) -> Dump {
        let turn = try_briefly(|| self.dispatcher.try_turn());
        let locked = turn.map(|turn| self.locked_part(&turn));
        let dump = Dump::new("pool", &self.name);
        let dump = match &locked {
            Some(locked) => self.with_locked(dump, locked),
            None => self.without_lock(dump),
        };
        let now = self.clock.nanos();
        let workers = self.workers.list();
        let total = workers.len();
        // Busy threads first: they are the ones that a reader looks for.
        let is_busy = |one: &Arc<WorkerEntry>| one.running.now().is_some();
        let (busy, idle): (Vec<_>, Vec<_>) = workers.into_iter().partition(is_busy);
        let threads = busy.iter().chain(&idle).map(|one| thread(one, now));
        let dump = dump.list("threads", total, threads);
        let leases = locked.map(|locked| locked.leases).unwrap_or_default();
        if leases.is_empty() {
            return dump;
        }
        let each = leases.iter();
        let each = each.map(|one| Dump::new("lease", &one.name).fact("threads", one.threads));
        dump.list("leases", leases.len(), each)
    }

    fn locked_part(&self, turn: &PoolDispatchGuard<'_>) -> LockedPart {
        LockedPart {
            limits: turn.limits,
            counts: turn.counts,
            state: match (turn.termination.is_none(), turn.is_closed()) {
                (true, _) => "ended",
                (false, true) => "shutting down",
                (false, false) => "open",
            },
            threads: turn.threads(),
            idle: turn.ready(),
            queued: turn.user_len(),
            queued_internal: turn.internal_len(),
            low: self.is_low(turn),
            leases: turn.budget.leases(),
        }
    }

    fn with_locked(&self, dump: Dump, locked: &LockedPart) -> Dump {
        let (limits, counts) = (&locked.limits, &locked.counts);
        let growth = match limits.growth {
            Growth::ThreadsFirst => "threads first",
            Growth::QueueFirst => "queue first",
        };
        let tallies = &self.tallies;
        dump.fact("state", locked.state)
            .fact("threads", locked.threads)
            .fact("idle", locked.idle)
            .fact("reserved", self.dispatcher.reserve().available())
            .fact("core", limits.core)
            .fact("max", limits.max)
            .fact("growth", growth)
            .fact("low_on_threads", locked.low)
            .fact("queued", locked.queued)
            .fact("queue_limit", limits.queue)
            .fact("queued_internal", locked.queued_internal)
            .fact("accepted", counts.accepted)
            .fact("done", counts.done)
            .fact("refused", tallies.refused.load(Ordering::Relaxed))
            .fact("panics", tallies.panics.load(Ordering::Relaxed))
    }

    fn without_lock(&self, dump: Dump) -> Dump {
        let tally = self.tally();
        let room = self.room.load(Ordering::Relaxed);
        let state = if room == 0 { "shutting down" } else { "open" };
        let tallies = &self.tallies;
        dump.fact("state", state)
            .fact("threads", tally.threads)
            .fact("idle", tally.idle + self.dispatcher.reserve().available())
            .fact("queued", tally.queued)
            .fact("refused", tallies.refused.load(Ordering::Relaxed))
            .fact("panics", tallies.panics.load(Ordering::Relaxed))
            .fact(
                "not_shown",
                "limits, leases and other counters: the pool is too busy",
            )
    }
}

fn thread(one: &WorkerEntry, now: u64) -> Dump {
    let name = one.thread.get().map_or("", String::as_str);
    let dump = Dump::new("thread", name);
    let Some(task) = one.running.now() else {
        let state = if name.is_empty() { "starting" } else { "idle" };
        return dump.fact("state", state);
    };
    let seen = Some(one.seen_for(&task, now)).filter(|nanos| *nanos > 0);
    let dump = dump.fact("state", "running").fact("task", task.name);
    match one.ran_for(now) {
        Some(nanos) => dump.fact("for", Duration::from_nanos(nanos)),
        None => dump.fact_if("for_at_least", seen.map(Duration::from_nanos)),
    }
}
