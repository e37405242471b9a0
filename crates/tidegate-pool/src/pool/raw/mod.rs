//! The dispatcher of a worker pool: the slots in which idle workers wait, the reserved workers, and
//! the lock under which each job is assigned to a worker.
//!
//! * [`WorkerSlot`], the worker slot: where one idle worker waits. A job is written into the slot
//!   itself, so a worker that still spins takes it without a system call, and a worker that sleeps
//!   is woken once.
//! * [`ReservedWorkers`]: reserved workers, which are idle and can be claimed without a lock, by
//!   one swap.
//! * [`Dispatcher`], the dispatcher: the idle workers, the queue and the counts under one short
//!   lock. Every decision (hand a job over, start a thread, queue, become idle, end) is made with
//!   that lock held. So no job can be queued while a worker that could take it falls asleep.
//!
//! # Scenarios
//!
//! *Idle worker.* A worker becomes idle only if no job is queued, and it registers as idle under
//! the lock. The next job finds it there and goes into its slot, without touching the queue.
//!
//! *One wake-up at a time.* A worker that was woken from its sleep is *searching* until it has come
//! back to the dispatcher. Jobs that arrive meanwhile are queued, even if other workers are idle.
//! The woken worker sends the next worker to the queued jobs before it runs its own job. So a burst
//! of jobs costs its submitter one system call, not one per job. If the queue is full, another idle
//! worker is woken instead: no job is refused while a worker is idle.
//!
//! *Rescue.* A queued job may rely on an idle worker that is claimed from the reserve, or ends,
//! before the woken worker can send it. The woken worker then starts a thread, if one may start,
//! and that thread does the same when it reaches the dispatcher. So whenever jobs are queued and a
//! worker is available for them, one of three holds: a worker is searching, a thread is being
//! started, or a submitter watches the queue. Each of the three ends with a check of the queue. A
//! worker that is about to end checks too. If a thread could not be started, an idle worker
//! replaces it. If it was the only thread, the start is tried once more.
//!
//! *Deferred wake-up.* If a worker is busy and all idle workers sleep, a submitter queues its job
//! and spins briefly to see whether the busy worker takes it, which it does if jobs are short. In a
//! steady stream of jobs this saves a system call and a context switch per job. If no worker takes
//! the job, the submitter performs the wake-up. It spins for at most a microsecond, and learns the
//! duration from whether spinning helped before. An idle worker that still spins gets the job
//! before any of this.
//!
//! *Reserve.* The first idle workers go to the reserve, where they can be claimed without the lock.
//! A job that would otherwise be queued claims them too, so no worker stays reserved while jobs are
//! queued. A claim only removes workers. Only the dispatcher adds them, after it has seen the queue
//! empty under the lock.
//!
//! *Ending.* A worker whose idle time is over removes itself from the idle workers under the lock.
//! If it is not among them, it was claimed: a job is about to be written into its slot, and it
//! waits for that job.
#![expect(
    unsafe_code,
    reason = "jobs are handed from thread to thread by one word of a slot"
)]

mod dispatcher;
mod reserve;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;
mod turn;
mod wake_backoff;
mod worker_slot;

pub use self::dispatcher::{
    Dispatch, DispatchCounts, DispatchLimits, Dispatcher, Growth, JobSource, WorkerStep,
    WorkerWake, WorkerWanted,
};
pub(crate) use self::reserve::MAX_RESERVED;
pub use self::reserve::ReservedWorkers;
pub use self::turn::DispatchGuard;
pub use self::worker_slot::{SlotWait, WorkerSlot};
