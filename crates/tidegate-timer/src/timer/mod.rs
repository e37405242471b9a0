//! A wheel with a thread of its own, for programs without loops.
//!
//! The data is a [`Wheel`](crate::Wheel); this gives it a clock, a thread and a way in from other threads.
//! For why it exists beside the other engines see "Four engines" in the header of the crate.
//!
//! * `errors`, `task`: why an operation failed; what a timeout runs ([`TimerTask`]).
//! * `life`: the states of a timer.
//! * `shared`: what callers and the worker share: lane, wheel, counters; cancelling and resetting.
//! * `stop`: how a timer ends; `stopping` is the same as a future ([`Stopping`]).
//! * `worker`: the thread: takes the lane, turns the wheel, fires.
//! * `start`: starts the worker with the first timeout; adding one.
//! * `handle`: [`TimerHandle`], a timeout as its owner sees it.
//! * `wheel_timer`: [`WheelTimer`] and its builder.
//!
//! Each knows only those before it.

mod errors;
mod handle;
mod life;
mod shared;
mod start;
mod stop;
mod stopping;
mod task;
mod wheel_timer;
mod worker;

pub use self::errors::TimerError;
pub use self::handle::TimerHandle;
pub use self::stopping::{Stopping, Unfired};
pub use self::task::TimerTask;
pub use self::wheel_timer::{TimerMetrics, WheelTimer, WheelTimerBuilder};
