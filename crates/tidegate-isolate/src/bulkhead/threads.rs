//! The thread bulkhead: a worker pool of its own for the commands of one pool key.
//!
//! # Invariants
//!
//! * A call that is refused, displaced or given up by the queue hears of it; nothing is lost.
//! * The live bound of the queue is exact: it is compared under the pool's lock.
//! * Every limit changes in one step, in both directions.
//! * When the queue is full, a call displaces one that matters less, if one waits.

use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_exec::{Job, JobKey, JobQueue, PoolLimits, PoolPolicy, Popped, WorkerPool};
use tidegate_sync::{FastClock, Rejected, Task};

use super::gate::Criticality;
use super::queue::{Next, WaitQueue};
use crate::metrics::{Counts, WindowConfig};
use crate::{Invalid, Key, PoolConfig};

const EXECUTED: usize = 0;
const REJECTED: usize = 1;
const EXPIRED: usize = 2;

/// One pool, shared by all commands of its key.
#[derive(Debug)]
pub(crate) struct ThreadBulkhead {
    pub(crate) key: Key,
    pool: WorkerPool,
    config: Mutex<PoolConfig>,
    counts: Counts<3>,
    /// Calls whose caller has gone and whose work still holds a thread. Below zero for the moment
    /// in which the work returns before its leaver has counted it.
    overstaying: AtomicIsize,
}

impl ThreadBulkhead {
    pub(crate) fn new(key: &Key, config: &PoolConfig, clock: &FastClock) -> Result<Self, Invalid> {
        config.validate(key)?;
        let queue = ByDiscipline {
            queue: WaitQueue::new(config.discipline),
            clock: clock.clone(),
        };
        let pool = WorkerPool::builder(format!("tidegate-{key}"))
            .limits(limits(config))
            .policy(PoolPolicy::DropOldest)
            .queue_of(queue)
            .clock(clock.clock())
            .build()
            .map_err(|error| {
                Invalid::new(&**key, "pool", format!("{config:?}"), error.to_string())
            })?;
        Ok(Self {
            key: key.clone(),
            pool,
            config: Mutex::new(config.clone()),
            counts: Counts::new(WindowConfig::new(std::time::Duration::from_secs(10), 10)),
            overstaying: AtomicIsize::new(0),
        })
    }

    /// Gives a task to a thread or to the queue; says where it waits, if it does.
    pub(crate) fn submit(
        &self,
        task: Task,
        criticality: Criticality,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        self.pool.place(Job::new(task).class(criticality as u8))
    }

    /// The work on this thread has ended, and its caller hears of it next: should that one be
    /// back before this thread is idle, it finds a place.
    pub(crate) fn about_to_end(&self) {
        self.pool.about_to_end();
    }

    /// Takes a waiting task back.
    pub(crate) fn take_back(&self, key: JobKey) -> Option<Task> {
        self.pool.take_back(key)
    }

    /// Changes every limit in one step.
    pub(crate) fn configure(&self, config: &PoolConfig) -> Result<(), Invalid> {
        config.validate(&self.key)?;
        let mut mine = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = |reason: String| {
            Err(Invalid::new(
                &*self.key,
                "pool",
                format!("{config:?}"),
                reason,
            ))
        };
        if mine.discipline != config.discipline {
            return wrong("the discipline is fixed for the life of the pool".to_owned());
        }
        if let Err(error) = self.pool.resize(limits(config)) {
            return wrong(error.to_string());
        }
        *mine = config.clone();
        Ok(())
    }

    pub(crate) fn config(&self) -> PoolConfig {
        self.config
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn pool(&self) -> &WorkerPool {
        &self.pool
    }

    pub(crate) fn count_executed(&self, now: u64) {
        self.counts.add(now, EXECUTED);
    }

    pub(crate) fn count_rejected(&self, now: u64) {
        self.counts.add(now, REJECTED);
    }

    pub(crate) fn count_expired(&self, now: u64) {
        self.counts.add(now, EXPIRED);
    }

    /// A caller has gone while its work still runs.
    pub(crate) fn overstay(&self) {
        self.overstaying.fetch_add(1, Ordering::Relaxed);
    }

    /// Work that had overstayed has ended.
    pub(crate) fn leave(&self) {
        self.overstaying.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, now: u64) -> PoolSnapshot {
        let metrics = self.pool.metrics();
        let ([executed, rejected, expired], totals) =
            (self.counts.rolling(now), self.counts.totals());
        PoolSnapshot {
            key: self.key.clone(),
            config: self.config(),
            active: metrics.busy,
            threads: metrics.threads,
            largest: metrics.most_threads,
            core: metrics.limits.core,
            max: metrics.limits.max,
            queued: metrics.queued,
            accepted: metrics.accepted,
            completed: metrics.done,
            executed,
            rejected,
            expired,
            executed_total: totals[EXECUTED],
            rejected_total: totals[REJECTED],
            expired_total: totals[EXPIRED],
            overstaying: self.overstaying.load(Ordering::Relaxed).max(0) as usize,
        }
    }
}

fn limits(config: &PoolConfig) -> PoolLimits {
    PoolLimits {
        core: config.core,
        max: config.effective_max(),
        queue: config.effective_queue(),
        reserved: 0,
        keep_alive: config.keep_alive,
        growth: config.growth,
        ..PoolLimits::default()
    }
}

/// How a pool is doing at one moment.
///
/// ```
/// use tidegate_isolate::{Command, Isolation, PoolConfig};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> = Command::builder("prices")
///     .group("catalog")
///     .threads(PoolConfig::default())
///     .build(&isolation)?;
/// prices.run(|_| Ok(1)).unwrap();
/// let pools = isolation.pool_snapshots();
/// assert_eq!((pools[0].key.as_str(), pools[0].executed), ("catalog", 1));
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The key of the pool.
    pub key: Key,
    /// The settings in force.
    pub config: PoolConfig,
    /// Threads that run something.
    pub active: usize,
    /// Threads.
    pub threads: usize,
    /// The most threads that there ever were.
    pub largest: usize,
    /// Threads that are kept.
    pub core: usize,
    /// The most threads that there may be.
    pub max: usize,
    /// Calls that wait for a thread.
    pub queued: usize,
    /// Calls accepted so far.
    pub accepted: u64,
    /// Calls whose work has ended so far.
    pub completed: u64,
    /// Calls that ran, in the window.
    pub executed: u64,
    /// Calls that were refused, in the window.
    pub rejected: u64,
    /// Calls whose time was over while they waited, in the window.
    pub expired: u64,
    /// Calls that ran.
    pub executed_total: u64,
    /// Calls that were refused.
    pub rejected_total: u64,
    /// Calls whose time was over while they waited.
    pub expired_total: u64,
    /// Threads that are held by work whose caller has gone.
    pub overstaying: usize,
}

/// The queue of a pool, in the order of a discipline; what matters less makes room.
struct ByDiscipline {
    queue: WaitQueue<Job>,
    clock: FastClock,
}

impl JobQueue for ByDiscipline {
    fn push(&mut self, job: Job) -> JobKey {
        JobKey(self.queue.push(self.clock.nanos(), job))
    }

    fn pop(&mut self) -> Option<Popped> {
        Some(match self.queue.pop(self.clock.nanos())? {
            Next::Serve(entry) => Popped::Run(entry.what),
            Next::TurnAway(entry) => Popped::Shed(entry.what),
        })
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.queue.remove(key.0)
    }

    fn displace(&mut self, by: &Job) -> Option<Job> {
        self.queue.remove_least(Job::criticality, by.criticality())
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

impl std::fmt::Debug for ByDiscipline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByDiscipline")
            .field("queued", &self.queue.len())
            .finish_non_exhaustive()
    }
}
