//! [`WheelTimer`]: a wheel with a thread of its own, for programs without event loops.
//!
//! The data is a [`Wheel`](crate::wheel::Wheel); this module adds a clock, a thread and access from other
//! threads. The section "Four engines" of the crate documentation explains why it exists beside the
//! other engines.
//!
//! * `errors`: [`TimerError`].
//! * `task`: [`TimerTask`], the task of a timeout.
//! * `life`: the states of a timer.
//! * `shared`: the state that callers and the worker thread share (lane, wheel, counters);
//!   cancelling and resetting.
//! * `stop`: the shutdown of a timer; `stopping` is the shutdown as a future ([`Stopping`]).
//! * `worker`: the worker thread: drains the lane, turns the wheel, fires due timeouts.
//! * `start`: starts the worker thread with the first timeout; adds timeouts.
//! * `handle`: [`TimerHandle`], the user's handle of a timeout.
//! * `wheel_timer`: [`WheelTimer`] and its builder.
//!
//! Each module uses only modules listed before it.

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
pub use self::stopping::{Stopping, UnfiredTimeout};
pub use self::task::TimerTask;
pub use self::wheel_timer::{TimerMetrics, WheelTimer, WheelTimerBuilder};
