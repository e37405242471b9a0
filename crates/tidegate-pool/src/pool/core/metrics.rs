//! Collects the metrics of a pool.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pool::metrics::PoolMetrics;

use super::shared::Shared;

impl Shared {
    pub(crate) fn metrics(&self) -> PoolMetrics {
        let turn = self.dispatcher.turn();
        let (limits, counts) = (turn.limits, turn.counts);
        let (threads, ready) = (turn.threads(), turn.ready());
        let leased = turn.budget.leased();
        let working = threads.saturating_sub(ready);
        let utilized = working.saturating_sub(leased);
        let available = limits.max - leased;
        let workers = turn.workers.list();
        let running = workers.iter().filter_map(|one| one.running.now());
        let running = running.map(|task| task.name).collect();
        let low = self.is_low(&turn);
        let (user, internal) = (turn.user_len(), turn.internal_len());
        drop(turn);
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tallies = &self.tallies;
        PoolMetrics {
            limits,
            threads,
            ready,
            reserved: self.dispatcher.reserve().available(),
            leased,
            utilized,
            busy: working.max(leased),
            available,
            utilization: utilized as f64 / available as f64,
            low,
            queued: user + internal,
            queued_internal: internal,
            scheduled: self.timer.len(),
            accepted: counts.accepted,
            done: counts.done,
            refused: read(&tallies.refused),
            removed: counts.removed,
            displaced: counts.displaced,
            shed: counts.shed,
            cancelled: read(&tallies.cancelled),
            caller_ran: read(&tallies.caller_ran),
            panics: read(&tallies.panics),
            reserve_hits: read(&tallies.reserve_hits),
            reserve_misses: read(&tallies.reserve_misses),
            started_threads: counts.started_threads,
            ended_threads: counts.ended_threads,
            failed_starts: counts.failed_starts,
            most_threads: counts.most_threads,
            most_queued: counts.most_queued,
            wakeups: counts.wakeups,
            waits: self.times.as_ref().map(|_| counts.waits),
            runs: self.times.as_ref().map(|_| counts.runs),
            running,
        }
    }
}
