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

use crate::pool::raw::Growth;

use super::shared::{PoolDispatchGuard, Shared};
use super::workers::WorkerEntry;

impl Shared {
    /// Returns the state of the pool. Never waits for user code.
    pub(crate) fn dump(&self) -> Dump {
        let turn = try_briefly(|| self.dispatcher.try_turn());
        let dump = Dump::new("pool", &self.name);
        let (dump, leases) = match turn {
            Some(turn) => (self.with_lock(dump, &turn), turn.budget.leases()),
            None => (self.without_lock(dump), Vec::new()),
        };
        let now = self.clock.nanos();
        let workers = self.workers.list();
        let total = workers.len();
        // Busy threads first: they are the ones that a reader looks for.
        let is_busy = |one: &Arc<WorkerEntry>| one.running.now().is_some();
        let (busy, idle): (Vec<_>, Vec<_>) = workers.into_iter().partition(is_busy);
        let threads = busy.iter().chain(&idle).map(|one| thread(one, now));
        let dump = dump.list("threads", total, threads);
        if leases.is_empty() {
            return dump;
        }
        let each = leases.iter();
        let each = each.map(|one| Dump::new("lease", &one.name).fact("threads", one.threads));
        dump.list("leases", leases.len(), each)
    }

    fn with_lock(&self, dump: Dump, turn: &PoolDispatchGuard<'_>) -> Dump {
        let (limits, counts) = (&turn.limits, &turn.counts);
        let state = match (turn.termination.is_none(), turn.is_closed()) {
            (true, _) => "ended",
            (false, true) => "shutting down",
            (false, false) => "open",
        };
        let growth = match limits.growth {
            Growth::ThreadsFirst => "threads first",
            Growth::QueueFirst => "queue first",
        };
        let tallies = &self.tallies;
        dump.fact("state", state)
            .fact("threads", turn.threads())
            .fact("idle", turn.ready())
            .fact("reserved", self.dispatcher.reserve().available())
            .fact("core", limits.core)
            .fact("max", limits.max)
            .fact("growth", growth)
            .fact("low_on_threads", self.is_low(turn))
            .fact("queued", turn.user_len())
            .fact("queue_limit", limits.queue)
            .fact("queued_internal", turn.internal_len())
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
