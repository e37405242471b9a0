//! The timer of an isolation: timeouts of running calls, and tasks that run at a set time.
//!
//! Arming a timeout does not use a queue: a call writes its deadline into a call slot (`Flight`)
//! that its thread keeps for the next call, and one thread scans the slots when the earliest
//! deadline has come. Most calls end long before that, so the thread sleeps nearly always: it wakes
//! once per timeout while calls are made, and not at all when there are none.
//!
//! `aside` has the callback threads of a command, `tasks` the timed tasks, and `timer_thread` the
//! thread that handles these tasks and the call slots. `handle` is the handle that commands hold,
//! `flights` provides and arms call slots, and `pause` is a future that waits. This module uses
//! calls in flight (`in_flight`), and no command.
//!
//! Tasks wait in a `Heap` of `tidegate-timer`; "Four engines" in the header of that crate says why
//! calls do not wait in a wheel.
//!
//! # Invariants
//!
//! * The thread wakes at the earliest deadline or before: a thread that arms a deadline earlier
//!   than the timer's wake-up time wakes it.
//! * A call slot is idle, or used by one call; the timer only ever expires the call that it saw.
//! * The thread runs and drops no user code: it decides, wakes callers that wait, and hands the
//!   rest to the callback threads of the command ([`CallbackThreads`]).
//! * No user code runs under a lock.

mod aside;
mod flights;
mod handle;
mod pause;
mod tasks;
mod timer_thread;

pub(crate) use self::aside::CallbackThreads;
pub(crate) use self::handle::{CallTimer, CallbackThreadsHandle};
pub(crate) use self::pause::Pause;
pub(crate) use self::tasks::TimerTaskId;

#[cfg(test)]
mod tests;
