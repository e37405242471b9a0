//! The thread bulkhead: a worker pool of its own for the commands of one pool key.
//!
//! # Invariants
//!
//! * A call that is rejected, displaced or turned away by the queue is notified; no call is lost.
//! * The adjustable bound of the queue is exact: it is checked under the pool's lock.
//! * Every limit changes in one step, in both directions.
//! * When the queue is full, a call displaces a waiting call that is less critical, if there is
//!   one.
//! * Threads and queue places that are reserved for critical calls are not taken by other calls.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::internal::FastClock;
use tidegate_core::permits::{Permit, Permits};
use tidegate_core::{OnUnhandled, RejectReason, Rejected, Task};
use tidegate_pool::queue::{Job, JobKey};
use tidegate_pool::{PoolLimits, PoolPolicy, ShutdownError, ShutdownReport, WorkerPool};
use tidegate_promise::SharedCompletion;

use super::config::PoolConfig;
use super::home::Home;
use super::job_queue::{ByDiscipline, LiveDiscipline};
use super::snapshot::PoolSnapshot;
use super::strategy::ConcurrencyStrategy;
use crate::bulkhead::partition::{Criticality, Partitions};
use crate::error::{ConfigError, Rejection};
use crate::key::Key;
use crate::lock::lock;
use crate::metrics::{Counts, Peak};

const EXECUTED: usize = 0;
const REJECTED: usize = 1;
const EXPIRED: usize = 2;

/// One pool, shared by all commands of its key.
#[derive(Debug)]
pub(crate) struct ThreadBulkhead {
    pub(crate) key: Key,
    pool: Arc<WorkerPool>,
    /// Checks a wait for a call of the pool.
    home: Arc<Home>,
    config: Mutex<PoolConfig>,
    counts: Counts<3>,
    /// Running calls, and their largest number in the window.
    running: AtomicUsize,
    peak: Peak,
    /// Threads and queue places together, counted only while there are partitions.
    places: Permits,
    ceilings: [AtomicUsize; 4],
    has_partitions: AtomicBool,
    /// The adjustable bound of the queue is below the queue's capacity.
    is_bounded_live: AtomicBool,
    discipline: Arc<LiveDiscipline>,
    is_closed: AtomicBool,
    /// Calls whose caller has given up and whose work still holds a thread. Negative for a moment
    /// if the work returns before the thread that gave up has counted it.
    overstaying: AtomicIsize,
    unused_max: Mutex<UnusedMaxNotice>,
}

/// The warning about a maximum that has no effect. Given once, until the maximum has an effect
/// again.
#[derive(Debug, Default)]
struct UnusedMaxNotice {
    is_noted: bool,
    pending_warning: Option<String>,
}

impl ThreadBulkhead {
    pub(crate) fn new(
        key: &Key,
        config: &PoolConfig,
        parts: ConcurrencyStrategy,
        (clock, unhandled): (&FastClock, &OnUnhandled),
    ) -> Result<Self, ConfigError> {
        config.validate(key)?;
        let discipline = Arc::new(LiveDiscipline::default());
        let mut pool = WorkerPool::builder(format!("tidegate-{key}"))
            .limits(limits(config))
            .policy(PoolPolicy::DropOldest)
            .clock(clock.clock())
            .report_to(unhandled.clone());
        let ConcurrencyStrategy {
            queue,
            threads,
            executor,
        } = parts;
        pool = match queue {
            Some(set) => set(pool),
            None => pool.built_in_queue(ByDiscipline::new(config.discipline, clock, &discipline)),
        };
        if let Some(threads) = threads {
            pool = pool.threads(threads);
        }
        if let Some(execute) = executor {
            pool = pool.borrow_threads(move |task| execute(task));
        }
        let pool = pool.build().map_err(|error| {
            ConfigError::new(key, "pool", describe_limits(config), error.to_string())
        })?;
        let pool = Arc::new(pool);
        let bulkhead = Self {
            key: key.clone(),
            home: Arc::new(Home::of(&pool)),
            pool,
            config: Mutex::new(config.clone()),
            counts: Counts::new(config.window),
            running: AtomicUsize::new(0),
            peak: Peak::new(config.window),
            places: Permits::new(0),
            ceilings: std::array::from_fn(|_| AtomicUsize::new(0)),
            has_partitions: AtomicBool::new(false),
            is_bounded_live: AtomicBool::new(false),
            discipline,
            is_closed: AtomicBool::new(false),
            overstaying: AtomicIsize::new(0),
            unused_max: Mutex::default(),
        };
        bulkhead.apply_partitions(config);
        bulkhead.update_unused_max_warning(config);
        Ok(bulkhead)
    }

    /// Takes one of the places that calls of this criticality may use. Returns `None` if there are
    /// no partitions.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room, if the rest is reserved for more critical calls, or if
    /// the pool was stopped.
    #[inline]
    pub(crate) fn take_place(&self, criticality: Criticality) -> Result<Option<Permit>, Rejection> {
        // Checked before the call's timeout starts: otherwise the end of the isolation would expire
        // the call, and it would fail as timed out although it was never accepted.
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Rejection::Closed);
        }
        if !self.has_partitions.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let ceiling = self.ceilings[criticality as usize].load(Ordering::Relaxed);
        match self.places.try_acquire_below(ceiling) {
            Some(place) => Ok(Some(place)),
            None if ceiling < self.places.limit() => Err(Rejection::Reserved),
            None => Err(self.refusal()),
        }
    }

    /// Returns the largest number of calls that the pool can hold, in threads and queue places.
    pub(crate) fn capacity(&self) -> usize {
        self.places.limit()
    }

    /// Divides threads and queue places among the criticalities.
    fn apply_partitions(&self, config: &PoolConfig) {
        let capacity = config
            .effective_max()
            .saturating_add(config.effective_queue());
        self.places.set_limit(capacity);
        let ceilings = config.partitions.ceilings(capacity);
        for (place, ceiling) in self.ceilings.iter().zip(ceilings) {
            place.store(ceiling, Ordering::Relaxed);
        }
        let has_partitions = config.partitions != Partitions::default();
        self.has_partitions.store(has_partitions, Ordering::Relaxed);
        let is_bounded_live = config.effective_queue() < config.queue;
        self.is_bounded_live
            .store(is_bounded_live, Ordering::Relaxed);
    }

    /// Stops accepting calls; accepted calls run until `timeout` has passed.
    pub(crate) fn stop(
        &self,
        timeout: Duration,
    ) -> SharedCompletion<ShutdownReport, ShutdownError> {
        self.is_closed.store(true, Ordering::Relaxed);
        self.pool.shutdown(timeout)
    }

    /// Returns why the pool has refused a task.
    pub(crate) fn refusal_of(&self, why: RejectReason) -> Rejection {
        match why {
            RejectReason::NoThread => Rejection::NoThread,
            // The program may have shut down the worker pool itself.
            RejectReason::Closed => Rejection::Closed,
            _ => self.refusal(),
        }
    }

    /// Returns why the pool has dropped a task that it had accepted.
    #[cold]
    pub(crate) fn refusal_of_dropped(&self) -> Rejection {
        if self.pool.termination().is_done() || self.pool.failed_part().is_some() {
            return Rejection::Closed;
        }
        let refusal = self.refusal();
        match refusal {
            // The thread for which the call waited could not be started.
            Rejection::Pool | Rejection::Threshold if self.pool.metrics().threads == 0 => {
                Rejection::NoThread
            }
            _ => refusal,
        }
    }

    /// Returns why the pool rejects a call: it was stopped, its adjustable bound is reached, or it
    /// is full.
    pub(crate) fn refusal(&self) -> Rejection {
        match self.is_closed.load(Ordering::Relaxed) {
            true => Rejection::Closed,
            false if self.is_bounded_live.load(Ordering::Relaxed) => Rejection::Threshold,
            false => Rejection::Pool,
        }
    }

    /// Submits a task to a thread or to the queue. Returns its queue key if it waits.
    pub(crate) fn submit(
        &self,
        task: Task,
        criticality: Criticality,
    ) -> Result<Option<JobKey>, Rejected<Job>> {
        let job = Job::new(task).with_criticality(criticality as u8);
        self.pool.place(job)
    }

    /// Announces that the work on this thread has ended and that its caller is notified next. If
    /// the caller submits again before this thread is idle, the call finds a place.
    pub(crate) fn about_to_end(&self) {
        self.pool.about_to_end();
    }

    /// Removes and returns a waiting task.
    pub(crate) fn take_back(&self, key: JobKey) -> Option<Task> {
        self.pool.take_back(key)
    }

    /// Changes every limit in one step.
    pub(crate) fn configure(&self, config: &PoolConfig) -> Result<(), ConfigError> {
        config.validate(&self.key)?;
        let mut mine = lock(&self.config);
        let wrong = |reason: String| {
            Err(ConfigError::new(
                &self.key,
                "pool",
                describe_limits(config),
                reason,
            ))
        };
        if mine.window != config.window {
            return wrong("the window is fixed for the life of the pool".to_owned());
        }
        // Starts no thread: the locks of the settings are held, and threads are user code.
        if let Err(error) = self.pool.set_limits(limits(config)) {
            return wrong(error.to_string());
        }
        self.apply_partitions(config);
        self.update_unused_max_warning(config);
        if mine.discipline != config.discipline {
            self.discipline.set(config.discipline);
        }
        *mine = config.clone();
        Ok(())
    }

    fn update_unused_max_warning(&self, config: &PoolConfig) {
        let mut idle = lock(&self.unused_max);
        let message = config.unused_max_warning(&self.key);
        let was_noted = std::mem::replace(&mut idle.is_noted, message.is_some());
        if !was_noted {
            idle.pending_warning = message;
        }
    }

    /// Takes the pending warning about the settings. Must be called with no lock held.
    pub(crate) fn take_warning(&self) -> Option<String> {
        let mut idle = lock(&self.unused_max);
        idle.pending_warning.take()
    }

    pub(crate) fn config(&self) -> PoolConfig {
        lock(&self.config).clone()
    }

    pub(crate) fn pool(&self) -> &WorkerPool {
        &self.pool
    }

    /// Returns the home of the completions of the pool's calls.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Counts the start of a call's work.
    pub(crate) fn count_begun(&self, now: u64) {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.note(now, running as u64);
    }

    /// Counts the end of a call's work.
    pub(crate) fn count_executed(&self, now: u64) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.counts.add(now, EXECUTED);
    }

    pub(crate) fn count_rejected(&self, now: u64) {
        self.counts.add(now, REJECTED);
    }

    pub(crate) fn count_expired(&self, now: u64) {
        self.counts.add(now, EXPIRED);
    }

    /// Counts a caller that gave up while its work still runs.
    pub(crate) fn count_abandoned(&self) {
        self.overstaying.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of work whose caller had given up.
    pub(crate) fn count_abandoned_end(&self) {
        self.overstaying.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the maximum number of threads, or `None` while it is being changed.
    pub(crate) fn shown_max(&self) -> Option<usize> {
        let config = self.config.try_lock().ok()?;
        Some(config.effective_max())
    }

    /// Returns the number of calls whose work runs now.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Returns the number of threads that are held by work whose caller has given up.
    pub(crate) fn overstaying(&self) -> usize {
        self.overstaying.load(Ordering::Relaxed).max(0) as usize
    }

    pub(crate) fn snapshot(&self, now: u64) -> PoolSnapshot {
        let metrics = self.pool.metrics();
        let ([executed, rejected, expired], totals) =
            (self.counts.rolling(now), self.counts.totals());
        PoolSnapshot {
            key: self.key.clone(),
            config: self.config(),
            active: metrics.busy,
            peak: self
                .peak
                .rolling(now, self.running.load(Ordering::Relaxed) as u64),
            threads: metrics.threads,
            largest: metrics.most_threads,
            core: metrics.limits.core,
            max: metrics.limits.max,
            queued: metrics.queued,
            accepted: metrics.accepted,
            completed: totals[EXECUTED],
            executed,
            rejected,
            expired,
            executed_total: totals[EXECUTED],
            rejected_total: totals[REJECTED],
            expired_total: totals[EXPIRED],
            overstaying: self.overstaying(),
            failed_part: self.pool.failed_part().map(str::to_owned),
        }
    }
}

/// Describes the limits of a pool.
fn describe_limits(config: &PoolConfig) -> String {
    let (core, max) = (config.core, config.effective_max());
    let queue = config.effective_queue();
    format!("{core} to {max} threads and {queue} places")
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
