//! Threads for jobs that may block, and strategies that decide which thread runs a task.
//!
//! * A [`WorkerPool`] runs jobs on its own threads. An [`OrderedView`] of it runs tasks one at a
//!   time and in order. A [`Lease`] reserves some of its threads for one component.
//! * A [`Strategy`] asks a [`Producer`] for tasks. For each task it decides which thread runs the
//!   task and which thread produces next. [`Adaptive`] hands production over while a task runs, if
//!   a [`Monitor`] finds that the task takes long.
//! * [`HandedBack`], [`ShutdownError`] and [`NeverBegun`] report how an executor ended. All kinds
//!   of executors use them.
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
#![deny(unsafe_code)]

mod executor;
mod immediate;
mod ordered;
mod pool;
pub mod strategy;

pub use self::executor::{
    BOUND_VARIABLE, DEFAULT_BOUND, HandedBack, NeverBegun, Quiet, ShutdownError,
};
pub use self::immediate::ImmediateExecutor;
pub use self::ordered::{BadView, DEFAULT_TASKS_PER_TURN, OrderedView, OrderedViewBuilder};
pub use self::pool::{
    DEFAULT_CORE_THREADS, DEFAULT_KEEP_ALIVE, DEFAULT_LOW_THREADS, DEFAULT_MAX_THREADS, Displaced,
    Growth, Headroom, Job, JobHandle, JobKey, JobList, JobQueue, JobTimes, Lease, Lessee,
    MAX_THREADS, OverBudget, PoolError, PoolLimits, PoolMetrics, PoolPolicy, Popped, Room,
    StopReport, Stopped, StuckJob, TryExecutor, WorkerPool, WorkerPoolBuilder,
};
pub use self::strategy::{
    Adaptive, AdaptiveBuilder, Counts, EatWhatYouKill, ExecuteProduceConsume, Monitor,
    MonitorBuilder, Options, ProduceConsume, ProduceExecuteConsume, Producer, Strategy,
};

#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. They are unstable and change without
    //! notice.

    pub use crate::executor::{Answer, Left, default_bound, drop_untaken};
    pub use crate::pool::raw::{
        Desk, DeskLimits, MAX_RESERVED, Next, Placed, Reserve, Seat, Sent, Slept, Tally, Turn,
        Wake, Work,
    };
    pub use crate::strategy::Interrupt;
    pub use crate::strategy::raw::{
        Asked, Closing, Coming, Glance, Held, Loan, Lookout, ProducerCell, Rest, Rung, Standby,
        Vigil,
    };
}
