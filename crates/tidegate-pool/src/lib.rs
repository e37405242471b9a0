//! Threads for jobs that may block, and strategies that decide which thread runs a task.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html).
//!
//! * A [`WorkerPool`] runs jobs on its own threads. An [`OrderedView`] of it runs tasks one at a
//!   time and in order. A [`Lease`] reserves some of its threads for one component. Pools and views
//!   also run tasks later, and periodically.
//! * A `Strategy` asks a `Producer` for tasks. For each task it decides which thread runs the task and
//!   which thread produces next. `Adaptive` hands production over while a task runs, if a `Monitor`
//!   finds that the task takes long. They are in the module `strategy`, which needs the feature of
//!   that name. It is on by default.
//! * [`HandedBack`], [`ShutdownError`] and [`NotStartedError`] report how an executor ended. All
//!   kinds of executors use them.
//!
//! This crate does not depend on the event loops.
//!
//! ```
//! use tidegate_pool::WorkerPool;
//!
//! let pool = WorkerPool::builder("jobs").build()?;
//! assert_eq!(pool.submit(|| 20 + 22)?.wait()?, 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map of the crate
//!
//! From the lowest to the highest:
//!
//! | folder | content |
//! |---|---|
//! | `executor` | what all executors share: how they end, the default bound |
//! | `immediate` | [`ImmediateExecutor`] |
//! | `schedule` | tasks that run later or periodically, and a heap with a thread that only submits what is due |
//! | `pool` | [`WorkerPool`]: limits, queue, policies, leases, the stop; `pool/raw` assigns jobs to threads |
//! | `ordered` | [`OrderedView`]s, which close and end with their pool |
//! | `strategy` | a file for each strategy, the round that all share, late hand-over (its README explains it) |
//!
//! An accepted job runs once or is handed back; the limits of a pool change together, in one step; a
//! view accepts nothing that its pool would refuse. Only the owner of a `ProducerGuard` produces, and
//! tasks never block all threads that could produce, except under `ProduceConsume`.
#![deny(unsafe_code)]
#![cfg_attr(
    not(all(feature = "ordered", feature = "strategy")),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        rustdoc::broken_intra_doc_links,
        reason = "the counters, the macro and the docs of the strategies, and what views use"
    )
)]

mod executor;
#[cfg(feature = "ordered")]
mod immediate;
mod ordered;
mod pool;
mod schedule;
pub mod strategy;

pub use self::executor::{DisplacedError, HandedBack, NotStartedError, Quiet, ShutdownError};
#[cfg(feature = "ordered")]
pub use self::immediate::ImmediateExecutor;
#[cfg(feature = "ordered")]
pub use self::ordered::{OrderedView, OrderedViewBuilder, OrderedViewError};
pub use self::pool::{
    FreeThreads, Growth, Headroom, JobHandle, JobTimes, Lease, LeaseInfo, PoolError, PoolLimits,
    PoolMetrics, PoolPolicy, ShutdownReport, StuckJob, ThreadBudgetError, TryExecutor, WorkerPool,
    WorkerPoolBuilder,
};
pub use self::schedule::{Missed, PeriodError};

/// Jobs, and the queue in which they wait for a thread.
///
/// [`WorkerPoolBuilder::queue_of`] takes a [`JobQueue`](queue::JobQueue) of your own. The limits of
/// [`PoolLimits`] suffice for most pools.
pub mod queue {
    pub use crate::pool::{Job, JobKey, JobList, JobQueue, Popped};
}

#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. Unstable: they change without notice.

    pub use crate::executor::{
        BOUND_VARIABLE, DEFAULT_BOUND, EndHome, TaskPromise, UnstartedTasks, default_bound,
        run_task_of,
    };
    pub use crate::pool::raw::{
        Dispatch, DispatchCounts, DispatchGuard, DispatchLimits, Dispatcher, JobSource,
        ReservedWorkers, SlotWait, WorkerSlot, WorkerStep, WorkerWake, WorkerWanted,
    };
    pub use crate::schedule::{Period, Repeat};
    pub use crate::strategy::producer::InterruptFn;
    #[cfg(feature = "strategy")]
    pub use crate::strategy::raw::{
        CellSnapshot, CloseResult, HelperRequest, LendResult, MonitorState, NotifyResult,
        PendingHelper, ProducerCell, ProducerGuard, RestResult, StandInSlot, StarvationDetector,
    };
}
