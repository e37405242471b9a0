//! How a pool works: one [`Shared`] that its handles and its threads share, and one file for each
//! of its operations.
//!
//! From bottom to top; each file uses only those before it:
//!
//! * `counts`: the counters. `workers`: the threads. `lanes`: the data under the lock: the two lanes
//!   of jobs, the current limits. `shared`: the rest of the data.
//! * `free_threads`: values that are read without the lock. `low_threads`: the hook for a pool that
//!   is low on threads. `turn`: releases the dispatch guard, then calls user code.
//! * `shutdown`: how the pool ends.
//! * `start`: how it starts threads. The builder passes in the function that a thread runs.
//! * `place`: how a job gets a thread or is queued. `reserve`: how it gets a thread at once or not at
//!   all.
//! * `submit`: how a job is accepted, and how the policies handle a refused one.
//! * `executor`: the pool as an `Executor`, for promises and threads.
//! * `resize`, `lease`: changes of the limits and of the thread budget. `metrics`: the metrics.
//!   `dump`: the state of the pool as a tree.
//! * `worker`: what a thread of the pool does.

mod counts;
mod dump;
mod executor;
mod free_threads;
mod lanes;
mod lease;
mod low_threads;
mod metrics;
mod place;
mod reserve;
mod resize;
mod shared;
mod shutdown;
mod start;
mod submit;
mod turn;
mod worker;
mod workers;

pub(super) use self::lanes::UserLane;
pub(super) use self::shared::{OnDisplaced, OnLow, Parts, Shared, ThreadLender};
pub(super) use self::worker::run as run_worker;
