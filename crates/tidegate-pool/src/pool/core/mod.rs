//! How a pool works: one [`Shared`] that its handles and its threads have in common, and a file for
//! each thing that it does.
//!
//! From bottom to top, each file knows only those before it:
//!
//! * `counts`: what is counted. `lanes`: what lies under the lock: the two lanes of jobs, the threads,
//!   the limits in force. `shared`: the rest of the data.
//! * `room`: what is read without the lock. `low_threads`: the hook for a pool that is low on threads.
//!   `turn`: the end of a turn at the desk, which calls user code once the lock is released.
//! * `stop`: how the pool ends.
//! * `start`: how it gets its threads. What a thread runs is passed in by the builder.
//! * `place`: how a job finds a thread or waits. `reserve`: how it gets a thread at once or not at all.
//! * `submit`: how a job is accepted, and what the policies do with a refused one.
//! * `executor`: the pool as an `Executor`, for promises and threads.
//! * `resize`, `lease`: changes of the limits and of the thread budget. `metrics`: the figures.
//! * `worker`: what a thread of the pool does.

mod counts;
mod executor;
mod lanes;
mod lease;
mod low_threads;
mod metrics;
mod place;
mod reserve;
mod resize;
mod room;
mod shared;
mod start;
mod stop;
mod submit;
mod turn;
mod worker;

pub(super) use self::shared::{OnLow, Parts, Shared};
pub(super) use self::worker::run as run_worker;
