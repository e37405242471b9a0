//! The worker pool: threads for jobs that may block.
//!
//! A job goes to an idle thread if there is one, else to a new thread if one may start, else into a
//! queue whose bound can be changed at any time. The dispatcher in `raw` makes this decision. The
//! rest of this folder adds lanes, limits, policies, the thread budget and the shutdown.
//!
//! From top to bottom; each file uses only files below it:
//!
//! * `builder`: [`WorkerPoolBuilder`]. `collect`: the metrics of a pool, for an exporter. `handle`:
//!   [`WorkerPool`].
//! * `schedule`: the methods that schedule tasks. `job_handle`: [`JobHandle`], which removes a job
//!   from the queue. `try_executor`: [`TryExecutor`], the pool as a strategy uses it. `lease`:
//!   [`Lease`], threads that a component can rely on.
//! * `core`: how the pool works, from the submission of a job to the end of the last thread.
//! * `limits`: [`PoolLimits`] and [`PoolError`]. `policy`: [`PoolPolicy`]. `budget`: the leases.
//!   `headroom`: [`Headroom`]. `metrics`: [`PoolMetrics`]. `shutdown_report`: [`ShutdownReport`].
//!   These are plain data, except for the traits.
//! * `queue`: [`Job`], [`JobQueue`] and the default queue.
//! * `raw`: the lock-free and locked structures through which jobs reach threads, with all unsafe
//!   code of the pool.
//!
//! # Invariants
//!
//! * An accepted job runs exactly once, or is handed back: by its handle, or by the shutdown
//!   report. Or it is dropped as displaced, if the chosen policy or queue does that, or
//!   if the thread factory takes back the only thread twice.
//! * No user code runs while the lock is held.
//! * All limits change in one step: no thread sees a new maximum with an old core size.

mod budget;
mod builder;
mod collect;
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
mod schedule;
mod shutdown_report;
mod try_executor;

pub use self::budget::{LeaseInfo, ThreadBudgetError};
pub use self::builder::WorkerPoolBuilder;
pub use self::handle::WorkerPool;
pub use self::headroom::{FreeThreads, Headroom};
pub use self::job_handle::JobHandle;
pub use self::lease::Lease;
pub use self::limits::{PoolError, PoolLimits};
pub use self::metrics::{JobTimes, PoolMetrics};
pub use self::policy::PoolPolicy;
pub use self::queue::{Job, JobKey, JobList, JobQueue, Popped};
pub use self::raw::Growth;
pub use self::shutdown_report::{ShutdownReport, StuckJob};
pub use self::try_executor::TryExecutor;
