//! [`WheelTimer`]: a wheel with a thread of its own, for programs without event loops.
//!
//! The data is a [`Wheel`](crate::wheel::Wheel); this module adds a clock, a thread and access from
//! other threads. The section "Four engines" of the crate documentation explains why it exists
//! beside the other engines.
//!
//! * `errors`: [`TimerError`]. `task`: [`TimerTask`], the task of a timeout. `metrics`: the counters.
//! * `shared`: the wheel and the counters under their lock; adding, cancelling and resetting.
//! * `worker`: the thread, which starts with the first timeout and fires what is due.
//! * `shutdown`: [`Shutdown`], the end of a timer as a future.
//! * `handle`: [`TimerHandle`], the user's handle of a timeout.
//! * `wheel_timer`: [`WheelTimer`], its builder, and its metrics for an exporter.

mod errors;
mod handle;
mod metrics;
mod shared;
mod shutdown;
mod task;
mod wheel_timer;
mod worker;

pub use self::errors::TimerError;
pub use self::handle::TimerHandle;
pub use self::metrics::TimerMetrics;
pub use self::shutdown::{Shutdown, ShutdownReport, UnfiredTimeout};
pub use self::task::TimerTask;
pub use self::wheel_timer::{WheelTimer, WheelTimerBuilder};
