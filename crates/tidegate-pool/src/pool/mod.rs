//! The worker pool: threads for jobs that may block.
//!
//! A job goes to an idle thread if there is one, to a new thread if one may start, and else into
//! a queue with a live bound. The desk in `raw` decides which of these; the rest of this folder adds
//! lanes, limits, policies, the thread budget and the end.
//!
//! From top to bottom, each knows only what is below it:
//!
//! * `builder`: [`WorkerPoolBuilder`]. `handle`: [`WorkerPool`].
//! * `job_handle`: [`JobHandle`], which takes a job back out of the queue. `answer`: the promise of
//!   a submitted closure. `try_executor`: [`TryExecutor`], what a strategy asks of a pool. `lease`:
//!   [`Lease`], threads that a component counts on.
//! * `core`: how the pool works, from the submission of a job to the last thread's end.
//! * `limits`: [`PoolLimits`] and [`PoolError`]. `policy`: [`PoolPolicy`]. `budget`: who leased how
//!   many threads. `headroom`: [`Headroom`]. `metrics`: [`PoolMetrics`]. `stop_report`:
//!   [`StopReport`]. Plain data, but for the traits.
//! * `queue`: [`Job`], [`JobQueue`] and the default queue.
//! * `raw`: the words by which jobs and threads meet, with all unsafe code of the pool.
//!
//! # Invariants
//!
//! * An accepted job runs exactly once, or is handed back: by its handle, by the stop report, or
//!   dropped as displaced by a policy that was asked for.
//! * No code of the user's runs while the lock is held, except the queue's.
//! * All limits change in one step: nobody sees a new maximum with an old core size.

mod answer;
mod budget;
mod builder;
mod core;
mod handle;
mod headroom;
mod job_handle;
mod lease;
mod limits;
mod metrics;
mod policy;
mod queue;
pub(crate) mod raw;
mod stop_report;
mod try_executor;

pub use self::budget::{Lessee, OverBudget};
pub use self::builder::WorkerPoolBuilder;
pub use self::handle::WorkerPool;
pub use self::headroom::{Headroom, Room};
pub use self::job_handle::JobHandle;
pub use self::lease::Lease;
pub use self::limits::{
    DEFAULT_CORE_THREADS, DEFAULT_KEEP_ALIVE, DEFAULT_LOW_THREADS, DEFAULT_MAX_THREADS,
    MAX_THREADS, PoolError, PoolLimits,
};
pub use self::metrics::{JobTimes, PoolMetrics};
pub use self::policy::{Displaced, PoolPolicy};
pub use self::queue::{Job, JobKey, JobList, JobQueue, Popped};
pub use self::raw::Growth;
pub use self::stop_report::{StopReport, Stopped, StuckJob};
pub use self::try_executor::TryExecutor;
