//! Executors: where tasks run.
//!
//! * `id`: [`ExecutorId`].
//! * `needs`: which threads of which executors a piece of work needs.
//! * `rejected`: [`Rejected`], which gives a refused value back, and [`RejectReason`], the reason.
//! * `watch_list`: what waits for tasks that an executor may never start.
//! * `traits`: [`Executor`], the small trait by which every lower crate knows a loop or a pool.
//! * `current`: which executor's work the calling thread runs, and whether it may block ([`enter`],
//!   [`current_executor`], [`wait_policy`], [`Blocking::forbid`](crate::Blocking::forbid)).
//!
//! Each module uses only the modules listed before it.

mod current;
mod id;
mod needs;
mod promise_home;
mod rejected;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;
mod traits;
pub(crate) mod watch_list;

pub(crate) use self::current::current_executors;
pub use self::current::{
    CurrentGuard, WaitPolicy, current_executor, enter, is_current, wait_policy,
};
pub use self::id::ExecutorId;
#[doc(hidden)]
pub use self::needs::{Need, Work};
pub use self::promise_home::PromiseHome;
pub use self::rejected::{RejectHandler, RejectReason, Rejected};
pub use self::traits::Executor;
pub use crate::raw::signal::Signal;
