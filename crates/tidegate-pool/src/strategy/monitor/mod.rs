//! The monitor: gives a lent producer to another thread if the task of its own thread is slow.
//!
//! One monitor serves a group of strategies. While tasks that may block run, it scans every cell
//! once per tick. If a loan was already there at the previous tick, its task is stuck or at least
//! slow. Its producer goes to a thread of the pool, or to the stand-in that is reserved for it.
//! After a quiet time the monitor sleeps, and the next producer that lends wakes it. See
//! `README.md` in the parent folder.
//!
//! * `handle`: [`Monitor`] and [`MonitorBuilder`].
//! * `watch`: the monitor's thread, and what it calls on a strategy (`Watched`).
//! * `threads`: the stand-ins, threads that a monitor keeps in reserve (`StandInPool`).
//!
//! `handle` uses `watch`, which uses `threads`. This module does not depend on a strategy.

mod handle;
mod threads;
mod watch;

pub use self::handle::{Monitor, MonitorBuilder};
pub(super) use self::threads::StandIn;
pub(super) use self::watch::{Watch, Watched};
