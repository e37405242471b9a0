//! The queue of a pool, ordered by a discipline that may change while calls wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::internal::{CoarseClock, FastClock};
use tidegate_pool::queue::{Job, JobKey, JobQueue, Popped};

use crate::bulkhead::queue::{Next, QueueDiscipline, WaitQueue};
use crate::lock::lock;

/// The queue of a pool, ordered by a discipline. A call can displace a less critical one.
pub(super) struct ByDiscipline {
    queue: WaitQueue<Job>,
    clock: FastClock,
    ticks: CoarseClock,
    live: Arc<LiveDiscipline>,
}

/// A changed discipline, which the queue applies at its next `pop`.
#[derive(Debug, Default)]
pub(super) struct LiveDiscipline {
    next: Mutex<Option<QueueDiscipline>>,
    is_new: AtomicBool,
}

impl LiveDiscipline {
    pub(super) fn set(&self, discipline: QueueDiscipline) {
        let mut next = lock(&self.next);
        *next = Some(discipline);
        self.is_new.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> Option<QueueDiscipline> {
        if !self.is_new.load(Ordering::Relaxed) {
            return None;
        }
        let mut next = lock(&self.next);
        self.is_new.store(false, Ordering::Relaxed);
        next.take()
    }
}

impl ByDiscipline {
    /// Creates an empty queue whose discipline can be changed through `live`.
    pub(super) fn new(
        discipline: QueueDiscipline,
        clock: &FastClock,
        live: &Arc<LiveDiscipline>,
    ) -> Self {
        Self {
            queue: WaitQueue::new(discipline),
            clock: clock.clone(),
            ticks: CoarseClock::new(clock.clock()),
            live: Arc::clone(live),
        }
    }
}

impl JobQueue for ByDiscipline {
    fn push(&mut self, job: Job) -> JobKey {
        // The pool's lock is held here, so a time that only a later discipline may use is a cheap
        // one.
        let now = match self.queue.is_timed() {
            true => self.clock.nanos(),
            false => self.ticks.nanos(),
        };
        JobKey(self.queue.push(now, job))
    }

    fn pop(&mut self) -> Option<Popped> {
        if let Some(discipline) = self.live.take() {
            self.queue.set_discipline(discipline);
        }
        if self.queue.len() == 0 {
            return None;
        }
        let now = match self.queue.is_timed() {
            true => self.clock.nanos(),
            false => 0,
        };
        Some(match self.queue.pop(now)? {
            Next::Serve(job) => Popped::Run(job),
            Next::TurnAway(job) => Popped::Shed(job),
        })
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.queue.remove(key.0)
    }

    fn displace(&mut self, by: &Job) -> Option<Job> {
        self.queue.remove_least(Job::criticality, by.criticality())
    }
}

debug_fields!(ByDiscipline, this => queued: this.queue.len());
