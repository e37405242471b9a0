//! [`WheelTimer`]: a wheel with a thread of its own, for programs without event loops.
//!
//! The data is a [`Wheel`](crate::wheel::Wheel); this module adds a clock, a thread and access from
//! other threads. The section "Four engines" of the crate documentation explains why it exists
//! beside the other engines.
//!
//! * `errors`: [`TimerError`].
//! * `task`: [`TimerTask`], the task of a timeout.
//! * `lifecycle`: the states of a timer.
//! * `shared`: the state that callers and the worker thread share (lane, wheel, counters);
//!   cancelling and resetting.
//! * `shutdown`: the shutdown of a timer; `shutdown_future` is the shutdown as a future
//!   ([`Shutdown`]).
//! * `worker`: the worker thread: drains the lane, turns the wheel, fires due timeouts.
//! * `start`: starts the worker thread with the first timeout; adds timeouts.
//! * `handle`: [`TimerHandle`], the user's handle of a timeout.
//! * `wheel_timer`: [`WheelTimer`] and its builder. `collect`: its metrics, for an exporter.
//!
//! Each module uses only modules listed before it.

mod collect;
mod errors;
mod handle;
mod lifecycle;
mod shared;
mod shutdown;
mod shutdown_future;
mod start;
mod task;
mod wheel_timer;
mod worker;

pub use self::errors::TimerError;
pub use self::handle::TimerHandle;
pub use self::shutdown_future::{Shutdown, ShutdownReport, UnfiredTimeout};
pub use self::task::TimerTask;
pub use self::wheel_timer::{TimerMetrics, WheelTimer, WheelTimerBuilder};
