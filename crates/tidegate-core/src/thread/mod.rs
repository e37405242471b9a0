//! Threads with a name, an owner and an end.
//!
//! A [`ThreadBuilder`] describes the threads of one pool or group: how they are called, what
//! priority and CPUs they ask for, what runs when they start and stop. Asking for a priority or
//! a CPU that the system refuses is not an error; [`ThreadInfo`] tells what was granted.
//!
//! * `info`: what is known of a thread from outside ([`ThreadInfo`]).
//! * `start`: names, the start and the end of a thread, [`at_thread_exit`].
//! * `handle`: [`ThreadHandle`], which waits for the end of a thread.
//! * `builder`: [`ThreadBuilder`].
//! * `per_task`: [`ThreadPerTask`], the simplest executor.
//!
//! Each knows only those before it. Wait checks and the hook for unhandled errors know `info` and
//! `start`; `handle` and `builder` know them.

mod builder;
mod handle;
mod info;
mod per_task;
mod start;
#[cfg(test)]
mod tests;

pub use self::builder::{BadPriority, ThreadBuilder, ThreadJob, run_exit_hooks};
pub use self::handle::{JoinError, NotJoined, ThreadEnd, ThreadHandle, ThreadWatch};
pub(crate) use self::info::Life;
pub use self::info::{JoinPolicy, ThreadInfo, ThreadState};
pub use self::per_task::ThreadPerTask;
pub use self::start::at_thread_exit;
pub(crate) use self::start::{ThreadNames, current, spawn_bare};
