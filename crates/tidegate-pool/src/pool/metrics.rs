//! What a pool shows of itself.

use std::sync::atomic::Ordering;

use super::limits::PoolLimits;
use super::shared::Shared;
use super::times::JobTimes;

/// A look at a pool; every figure of it belongs to one moment.
///
/// `threads = ready + leased + utilized`, as long as the lessees use what they leased.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let pool = WorkerPool::builder("workers").core(1).max(2).build()?;
/// pool.submit(|| ())?.wait()?;
/// let metrics = pool.metrics();
/// assert_eq!((metrics.threads, metrics.accepted, metrics.queued), (1, 1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// The limits in force.
    pub limits: PoolLimits,
    /// Threads, started or about to.
    pub threads: usize,
    /// Threads that wait for work, those in reserve included.
    pub ready: usize,
    /// Of these, the ones in reserve.
    pub reserved: usize,
    /// Threads that were promised to components.
    pub leased: usize,
    /// Threads that run jobs, beyond the leased ones.
    pub utilized: usize,
    /// Threads that run something: utilized and leased.
    pub busy: usize,
    /// The most threads that jobs can have: the maximum without the leased ones.
    pub available: usize,
    /// `utilized / available`, from 0 to 1.
    pub utilization: f64,
    /// Whether the pool is low on threads.
    pub low: bool,
    /// Jobs that wait, of both lanes.
    pub queued: usize,
    /// Of these, internal ones.
    pub queued_internal: usize,
    /// Jobs accepted so far, those for reserved threads excepted.
    pub accepted: u64,
    /// Jobs that ran to their end.
    pub done: u64,
    /// Jobs refused because the pool was full or stopped.
    pub refused: u64,
    /// Jobs taken back by their handle.
    pub removed: u64,
    /// Jobs that had to make room for others.
    pub displaced: u64,
    /// Jobs that the queue gave up.
    pub shed: u64,
    /// Jobs whose token was tripped before they started.
    pub cancelled: u64,
    /// Jobs that the submitter had to run.
    pub caller_ran: u64,
    /// Jobs that panicked.
    pub panics: u64,
    /// Jobs that found a reserved thread.
    pub reserve_hits: u64,
    /// Jobs that found none.
    pub reserve_misses: u64,
    /// Threads started so far.
    pub started_threads: u64,
    /// Threads that have ended.
    pub ended_threads: u64,
    /// Threads that the system refused.
    pub failed_starts: u64,
    /// The most threads at a time.
    pub most_threads: usize,
    /// The most jobs that waited at a time.
    pub most_queued: usize,
    /// Sleeping threads that were woken for a job.
    pub wakeups: u64,
    /// From accepted to started, in a pool that [measures
    /// times](crate::WorkerPoolBuilder::measure_times).
    pub waits: Option<JobTimes>,
    /// From started to ended, in such a pool.
    pub runs: Option<JobTimes>,
    /// Names of the jobs that run right now.
    pub running: Vec<&'static str>,
}

impl Shared {
    pub(super) fn metrics(&self) -> PoolMetrics {
        let turn = self.desk.turn();
        let (limits, counts) = (turn.limits, turn.counts);
        let (threads, ready) = (turn.threads(), turn.ready());
        let leased = turn.budget.leased();
        let working = threads.saturating_sub(ready);
        let utilized = working.saturating_sub(leased);
        let available = limits.max - leased;
        let running = turn.roster.iter().filter_map(|one| one.running.now());
        let running = running.map(|task| task.name).collect();
        let low = self.is_low(&turn);
        let (user, internal) = (turn.user_len(), turn.internal_len());
        drop(turn);
        let tell = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let tells = &self.tells;
        PoolMetrics {
            limits,
            threads,
            ready,
            reserved: self.desk.reserve().available(),
            leased,
            utilized,
            busy: working.max(leased),
            available,
            utilization: utilized as f64 / available as f64,
            low,
            queued: user + internal,
            queued_internal: internal,
            accepted: counts.accepted,
            done: counts.done,
            refused: tell(&tells.refused),
            removed: counts.removed,
            displaced: counts.displaced,
            shed: counts.shed,
            cancelled: tell(&tells.cancelled),
            caller_ran: tell(&tells.caller_ran),
            panics: tell(&tells.panics),
            reserve_hits: tell(&tells.reserve_hits),
            reserve_misses: tell(&tells.reserve_misses),
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
