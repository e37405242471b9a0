//! Threads with a name, an owner and an observable end.
//!
//! A [`ThreadBuilder`] describes the threads of one pool or group: their names, the priority and
//! CPUs they request, and the hooks that run when they start and stop. A priority or CPU that the
//! system refuses is not an error; [`ThreadInfo`] reports the granted priority.
//!
//! * `info`: what other threads can see of a thread ([`ThreadInfo`]).
//! * `start`: names, the start and the end of a thread, `at_thread_exit`.
//! * `handle`: [`ThreadHandle`], which waits for the end of a thread.
//! * `builder`: [`ThreadBuilder`].
//! * `per_task`: [`ThreadPerTask`], the simplest executor.
//!
//! Each module uses only the modules listed before it. Wait checks and the hook for unhandled
//! errors use `info` and `start`; `handle` and `builder` use both of them.

pub(crate) mod builder;
pub(crate) mod handle;
mod info;
mod per_task;
pub(crate) mod start;
#[cfg(test)]
mod tests;

pub use self::builder::{PriorityError, ThreadBuilder, ThreadJob};
pub use self::handle::{JoinError, ThreadEnd, ThreadHandle};
pub(crate) use self::info::ThreadRecord;
pub use self::info::{ThreadInfo, ThreadState};
pub use self::per_task::ThreadPerTask;
pub(crate) use self::start::{ThreadNames, current, spawn_bare};
