//! The monitor: gives a producer that lies in its cell to a thread that has none.
//!
//! One per group of strategies. While tasks that may block run, it looks at every cell once a
//! tick; a loan that it has seen at the tick before belongs to a task that is stuck, or at
//! least slow, and goes to a thread of the pool, or to the stand-in that is reserved for it. After
//! a quiet time it sleeps, and the next producer that lends wakes it. See `README.md` in the
//! folder above.
//!
//! * `handle`: [`Monitor`] and [`MonitorBuilder`].
//! * `watch`: the monitor's thread, and what it asks of a strategy (`Watched`).
//! * `threads`: the stand-ins, threads that a monitor keeps in reserve (`OnCall`).
//!
//! `handle` knows `watch`, which knows `threads`. Nothing here knows a strategy.

mod handle;
mod threads;
mod watch;

pub use self::handle::{
    DEFAULT_MONITOR_INTERVAL, DEFAULT_MONITOR_QUIET, DEFAULT_STAND_INS, Monitor, MonitorBuilder,
};
pub(super) use self::threads::StandIn;
pub(super) use self::watch::{Watch, Watched};
